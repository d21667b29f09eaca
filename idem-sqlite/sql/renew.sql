-- renew: keeps a lease running, says that work begins, and may leave a checkpoint (R1 to R5, C14, X1).
-- Parameters: 1 scope, 2 key, 3 token, 4 fence, 5 length µs, 6 now µs, 7 checkpoint number, 8 checkpoint (both NULL:
--             none)
-- Returns: one changed row when held; none when lost.
-- Atomic: one UPDATE that checks token, fence and state where it writes.
UPDATE main.idem_records
   SET lease_until_us = max(lease_until_us, ?6 + ?5),
       ran_since = coalesce(ran_since, attempt),
       checkpoint = iif(?7 > coalesce(checkpoint_sequence, -1), ?8, checkpoint),
       checkpoint_sequence = iif(?7 > coalesce(checkpoint_sequence, -1), ?7, checkpoint_sequence)
 WHERE scope = ?1 AND key = ?2 AND token = ?3 AND fence = ?4 AND state = 1
