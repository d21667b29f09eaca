-- latest: get inside a caller's transaction, whose snapshot may be older than the record (G1, J3).
-- Parameters: 1 scope, 2 key
-- Returns: at most one row.
-- Atomic: a locking read sees the latest commit at every isolation level, and the row stays so until the transaction
--         ends. The lock is shared: after a duplicate the transaction has it already, and two of them must not wait for
--         each other to give it up.
SELECT operation, fingerprint, state, undone, take_over_within_us, attempt, token, fence, owner, ran_since,
       created_us, claimed_us, lease_until_us, ended_us, expires_us, checkpoint_sequence, checkpoint,
       code, meta, body, history,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AS now_us
  FROM idem_records
 WHERE scope = ? AND `key` = ?
  LOCK IN SHARE MODE
