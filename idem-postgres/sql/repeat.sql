-- repeat: our own claim again, because its reply was lost: the same grant, its lease never shorter (C3, C13).
-- Parameters: 1 scope, 2 key, 3 lease µs; as they were seen: 4 fence, 5 token, 6 state, 7 lease end µs
-- Returns: one row: op, now_us, and the record; the record's columns are NULL when it is no longer as it was seen.
-- Atomic: one UPDATE, conditional on what this very call has just read.
WITH clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us
), changed AS (
    UPDATE "{schema}".idem_records AS r
       SET lease_until_us = greatest(r.lease_until_us, clock.now_us + $3::bigint)
      FROM clock
     WHERE r.scope = $1::text AND r.key = $2::text
       AND r.fence = $4::bigint AND r.token = $5::bytea AND r.state = $6::smallint AND r.lease_until_us = $7::bigint
       AND r.state = 1
    RETURNING r.operation, r.fingerprint, r.state, r.undone, r.take_over_within_us, r.attempt, r.token, r.fence,
              r.owner, r.ran_since, r.created_us, r.claimed_us, r.lease_until_us, r.ended_us, r.expires_us,
              r.checkpoint_sequence, r.checkpoint, r.code, r.meta, r.body, r.history
)
SELECT '{schema}.repeat.1' AS op, clock.now_us, changed.*
  FROM clock LEFT JOIN changed ON true
