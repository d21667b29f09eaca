-- complete: ends an attempt and records its response (F1 to F6b, X1).
-- Parameters: 1 keep what is recorded (0, 1), 2 code, 3 keep again, 4 meta (NULL makes it a tombstone), 5 keep again,
--             6 body (NULL is absent), 7 replay floor µs (NULL for state 4), 8 state (2, 3, 4), 9 scope, 10 key,
--             11 token, 12 fence
-- Returns: one matched row when stored; none otherwise.
-- Atomic: one UPDATE that checks token, fence and state where it writes; lapsed or not. No assignment reads a column
--         that another one sets.
UPDATE idem_records
   SET code = IF(?, code, ?), meta = IF(?, meta, ?), body = IF(?, body, ?),
       expires_us = COALESCE(
           GREATEST(expires_us, TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?), expires_us),
       ended_us = TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)),
       ran_since = COALESCE(ran_since, attempt),
       undone = 0, state = ?
 WHERE scope = ? AND `key` = ? AND token = ? AND fence = ? AND state = 1
