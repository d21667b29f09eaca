-- repeat: our own claim again, because its reply was lost: the same grant, its lease never shorter (C3, C13).
-- Parameters: 1 scope, 2 key, 3 lease µs, 4 now µs; as they were seen: 5 fence, 6 token, 7 state, 8 lease end µs
-- Returns: one row (fence) when granted; none when the record is no longer as it was seen.
-- Atomic: one UPDATE, conditional on what this very call has just read.
UPDATE main.idem_records
   SET lease_until_us = max(lease_until_us, ?4 + ?3)
 WHERE scope = ?1 AND key = ?2 AND fence = ?5 AND token = ?6 AND state = ?7 AND lease_until_us = ?8
RETURNING fence
