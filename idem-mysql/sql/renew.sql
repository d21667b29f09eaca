-- renew: keeps a lease running, says that work begins, and may leave a checkpoint (R1 to R5, C14, X1).
-- Parameters: 1 length µs, 2 checkpoint number, 3 checkpoint, 4 checkpoint number again (all NULL: none), 5 scope,
--             6 key, 7 token, 8 fence
-- Returns: one matched row when held; none when lost.
-- Atomic: one UPDATE that checks token, fence and state where it writes. Assignments run from left to right: checkpoint
--         reads its number, which is set after it; a comparison with NULL keeps what is there.
UPDATE idem_records
   SET lease_until_us = GREATEST(
           lease_until_us, TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?),
       ran_since = COALESCE(ran_since, attempt),
       checkpoint = IF(? > COALESCE(checkpoint_sequence, -1), ?, checkpoint),
       checkpoint_sequence = COALESCE(GREATEST(COALESCE(checkpoint_sequence, -1), ?), checkpoint_sequence)
 WHERE scope = ? AND `key` = ? AND token = ? AND fence = ? AND state = 1
