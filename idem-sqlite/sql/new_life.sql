-- new_life: a free record begins a new life: attempt 1, nothing of the old one but a higher fence (C1, C13).
-- Parameters: 1 to 11 as in claim; as they were seen: 12 fence, 13 token, 14 state, 15 lease end µs
-- Returns: one row (fence) when granted; none when the record is no longer as it was seen.
-- Atomic: one UPDATE, conditional on what this very call has just read.
UPDATE main.idem_records
   SET operation = ?3, fingerprint = ?4, state = 1, undone = 0, take_over_within_us = ?5, attempt = 1,
       token = ?6, fence = max(fence + 1, ?11), owner = ?7, ran_since = iif(?8, NULL, 1),
       created_us = ?11, claimed_us = ?11, lease_until_us = ?11 + ?9, ended_us = NULL, expires_us = ?11 + ?10,
       checkpoint_sequence = NULL, checkpoint = NULL, code = NULL, meta = NULL, body = NULL, history = '[]'
 WHERE scope = ?1 AND key = ?2 AND fence = ?12 AND token = ?13 AND state = ?14 AND lease_until_us = ?15
RETURNING fence
