-- get: the record as it is stored, over age or not; the machine says what it means (G1).
-- Parameters: 1 scope, 2 key
-- Returns: at most one row.
-- Atomic: one SELECT is one snapshot, and sees every commit that was answered before it began.
SELECT operation, fingerprint, state, undone, take_over_within_us, attempt, token, fence, owner, ran_since,
       created_us, claimed_us, lease_until_us, ended_us, expires_us, checkpoint_sequence, checkpoint,
       code, meta, body, history
  FROM main.idem_records
 WHERE scope = ?1 AND key = ?2
