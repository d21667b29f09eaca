-- release: nothing happened. Frees the record, or undoes this grant only when an earlier attempt may have run (L1 to
--          L3, X1).
-- Parameters: 1 does it speak of every attempt (0, 1), 2 scope, 3 key, 4 token, 5 fence
-- Returns: one matched row when released; none otherwise.
-- Atomic: one UPDATE that checks token, fence and state where it writes. With two tables in it the order of assignments
--         is not promised: none reads a column that another one sets.
UPDATE idem_records AS record
       STRAIGHT_JOIN (SELECT ? AS every_attempt) AS asked
   SET record.state = IF(asked.every_attempt OR record.ran_since IS NULL OR record.ran_since >= record.attempt, 5, 4),
       record.undone = IF(asked.every_attempt OR record.ran_since IS NULL OR record.ran_since >= record.attempt, 0, 1),
       record.expires_us = IF(
           asked.every_attempt OR record.ran_since IS NULL OR record.ran_since >= record.attempt,
           GREATEST(record.expires_us, TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))),
           record.expires_us),
       record.checkpoint_sequence = IF(
           asked.every_attempt OR record.ran_since IS NULL OR record.ran_since >= record.attempt,
           NULL, record.checkpoint_sequence),
       record.checkpoint = IF(
           asked.every_attempt OR record.ran_since IS NULL OR record.ran_since >= record.attempt,
           NULL, record.checkpoint),
       record.code = IF(
           asked.every_attempt OR record.ran_since IS NULL OR record.ran_since >= record.attempt, NULL, record.code),
       record.meta = IF(
           asked.every_attempt OR record.ran_since IS NULL OR record.ran_since >= record.attempt, NULL, record.meta),
       record.body = IF(
           asked.every_attempt OR record.ran_since IS NULL OR record.ran_since >= record.attempt, NULL, record.body),
       record.ended_us = TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))
 WHERE record.scope = ? AND record.`key` = ? AND record.token = ? AND record.fence = ? AND record.state = 1
