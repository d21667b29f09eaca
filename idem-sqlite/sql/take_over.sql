-- take_over: the next attempt of an uncertain record; checkpoint, evidence and history stay (C6, C13, C14).
-- Parameters: 1 scope, 2 key, 3 token, 4 owner, 5 does the claimant promise to announce itself (0, 1), 6 lease µs,
--             7 now µs, 8 history with the last attempt added; as they were seen: 9 fence, 10 token, 11 state,
--             12 lease end µs
-- Returns: one row (fence) when granted; none when the record is no longer as it was seen.
-- Atomic: one UPDATE, conditional on what this very call has just read. A renewal leaves the fence as it is, so the
--         lease end counts too.
UPDATE main.idem_records
   SET state = 1, undone = 0, attempt = attempt + 1, token = ?3, fence = max(fence + 1, ?7), owner = ?4,
       ran_since = coalesce(ran_since, iif(?5, NULL, attempt + 1)),
       claimed_us = ?7, lease_until_us = ?7 + ?6, ended_us = NULL, history = ?8
 WHERE scope = ?1 AND key = ?2 AND fence = ?9 AND token = ?10 AND state = ?11 AND lease_until_us = ?12
RETURNING fence
