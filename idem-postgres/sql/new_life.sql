-- new_life: a free record begins a new life: attempt 1, nothing of the old one but a higher fence (C1, C13).
-- Parameters: 1 to 10 as in claim; as they were seen: 11 fence, 12 token, 13 state, 14 lease end µs; 15 remember µs
--             (0 forgets at once)
-- Returns: one row: op, now_us, and the record; the record's columns are NULL when it is no longer as it was seen, or
--          no longer free by this statement's clock.
-- Atomic: one UPDATE, conditional on what this very call has just read.
WITH clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us
), changed AS (
    UPDATE "{schema}".idem_records AS r
       SET operation = $3::text, fingerprint = $4::bytea, state = 1, undone = false, remembered = false,
           take_over_within_us = $5::bigint, attempt = 1, token = $6::bytea,
           fence = greatest(r.fence + 1, clock.now_us), owner = $7::text,
           ran_since = CASE WHEN $8::boolean THEN NULL ELSE 1 END,
           created_us = clock.now_us, claimed_us = clock.now_us, lease_until_us = clock.now_us + $9::bigint,
           ended_us = NULL, expires_us = clock.now_us + $10::bigint, checkpoint_sequence = NULL, checkpoint = NULL,
           code = NULL, meta = NULL, body = NULL, history = '[]'
      FROM clock
     WHERE r.scope = $1::text AND r.key = $2::text
       AND r.fence = $11::bigint AND r.token = $12::bytea AND r.state = $13::smallint
       AND r.lease_until_us = $14::bigint
       AND (r.state = 5 OR (r.state IN (2, 3) AND r.expires_us + $15::bigint <= clock.now_us))
    RETURNING r.operation, r.fingerprint, r.state, r.undone, r.take_over_within_us, r.attempt, r.token, r.fence,
              r.owner, r.ran_since, r.created_us, r.claimed_us, r.lease_until_us, r.ended_us, r.expires_us,
              r.checkpoint_sequence, r.checkpoint, r.code, r.meta, r.body, r.history
)
SELECT '{schema}.new_life.1' AS op, clock.now_us, changed.*
  FROM clock LEFT JOIN changed ON true
