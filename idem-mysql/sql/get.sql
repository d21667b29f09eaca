-- get: the record as it is stored, over age or not, and the database's time; the machine says what they mean (G1).
-- Parameters: 1 scope, 2 key
-- Returns: at most one row.
-- Atomic: one SELECT is one snapshot. As a statement of its own it sees every commit that was answered before it began.
SELECT operation, fingerprint, state, undone, take_over_within_us, attempt, token, fence, owner, ran_since,
       created_us, claimed_us, lease_until_us, ended_us, expires_us, checkpoint_sequence, checkpoint,
       code, meta, body, history,
       TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AS now_us
  FROM idem_records
 WHERE scope = ? AND `key` = ?
