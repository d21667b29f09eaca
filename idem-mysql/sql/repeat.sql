-- repeat: our own claim again, because its reply was lost: the same grant, its lease never shorter (C3, C13).
-- Parameters: 1 lease µs, 2 scope, 3 key; as they were seen: 4 fence, 5 token, 6 state, 7 lease end µs
-- Returns: one matched row when granted; none when the record is no longer as it was seen.
-- Atomic: one UPDATE, conditional on what this very call has just read.
UPDATE idem_records
   SET lease_until_us = GREATEST(
           lease_until_us, TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?)
 WHERE scope = ? AND `key` = ? AND fence = ? AND token = ? AND state = ? AND lease_until_us = ?
