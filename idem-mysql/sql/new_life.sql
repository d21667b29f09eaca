-- new_life: a free record begins a new life: attempt 1, nothing of the old one but a higher fence (C1, C13).
-- Parameters: 1 operation, 2 fingerprint, 3 take over within µs (NULL holds), 4 token, 5 owner,
--             6 the attempt that may begin at once (1; NULL when the claimant promises to announce itself),
--             7 lease µs, 8 retention µs, 9 scope, 10 key; as they were seen: 11 fence, 12 token, 13 state,
--             14 lease end µs; 15 remember µs (0 forgets at once)
-- Returns: one matched row when granted, its fence as the insert id of the OK packet; none when the record is no longer
--          as it was seen, or not free by this statement's own clock.
-- Atomic: one UPDATE, conditional on what this very call has just read. No assignment reads a column that another one
--         sets, so their order does not matter.
UPDATE idem_records
   SET operation = ?, fingerprint = ?, take_over_within_us = ?, token = ?, owner = ?, ran_since = ?,
       lease_until_us = TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?,
       expires_us = TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?,
       fence = LAST_INSERT_ID(GREATEST(
           fence + 1, TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)))),
       created_us = TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)),
       claimed_us = TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)),
       state = 1, undone = 0, attempt = 1, ended_us = NULL, checkpoint_sequence = NULL, checkpoint = NULL,
       code = NULL, meta = NULL, body = NULL, history = '[]'
 WHERE scope = ? AND `key` = ? AND fence = ? AND token = ? AND state = ? AND lease_until_us = ?
   AND (state = 5 OR state IN (2, 3)
        AND expires_us <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - ?)
