-- get: the record as it is stored, over age or not; the machine says what it means (G1).
-- Parameters: 1 scope, 2 key
-- Returns: one row: op, now_us, and the record; the record's columns are NULL when there is none.
-- Atomic: one SELECT is one snapshot, and sees every commit that was answered before it began.
SELECT '{schema}.get.1' AS op, clock.now_us,
       r.operation, r.fingerprint, r.state, r.undone, r.take_over_within_us, r.attempt, r.token, r.fence, r.owner,
       r.ran_since, r.created_us, r.claimed_us, r.lease_until_us, r.ended_us, r.expires_us, r.checkpoint_sequence,
       r.checkpoint, r.code, r.meta, r.body, r.history
  FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us) AS clock
  LEFT JOIN "{schema}".idem_records AS r ON r.scope = $1::text AND r.key = $2::text
