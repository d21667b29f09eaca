-- take_over: the next attempt of an uncertain record; checkpoint, evidence and history stay (C6, C13, C14, C15).
-- Parameters: 1 token, 2 owner, 3 does the claimant promise to announce itself (0, 1), 4 lease µs, 5 history with the
--             last attempt added, 6 scope, 7 key; as they were seen: 8 fence, 9 token, 10 state, 11 lease end µs,
--             12 checkpoint number; 13 is the claim resolving (0, 1), 14 its take over within µs (NULL holds)
-- Returns: one matched row when granted, its fence as the insert id of the OK packet; none when the record is no longer
--          as it was seen, or not to be taken over by this statement's own clock.
-- Atomic: one UPDATE, conditional on what this very call has just read. A renewal leaves the fence as it is, so the
--         lease end counts too. Assignments run from left to right: ran_since reads attempt, which is set after it.
UPDATE idem_records
   SET token = ?, owner = ?,
       ran_since = COALESCE(ran_since, IF(?, NULL, attempt + 1)),
       lease_until_us = TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?,
       history = ?,
       claimed_us = TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)),
       fence = LAST_INSERT_ID(GREATEST(
           fence + 1, TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)))),
       attempt = attempt + 1, state = 1, undone = 0, ended_us = NULL
 WHERE scope = ? AND `key` = ? AND fence = ? AND token = ? AND state = ? AND lease_until_us = ?
   AND checkpoint_sequence <=> ?
   AND (state = 4 OR state = 1
        AND lease_until_us <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)))
   AND (ran_since IS NULL OR ?
        OR TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))
           < created_us + LEAST(take_over_within_us, ?))
