-- take_over: the next attempt of an uncertain record; checkpoint, evidence and history stay (C6, C7, C13, C14, C15).
-- Parameters: 1 scope, 2 key, 3 token, 4 owner, 5 does the claimant promise to announce itself, 6 lease µs,
--             7 history with the last attempt added, 8 take over within µs (NULL holds), 9 is it the explicit decision
--             of a resolver; as they were seen: 10 fence, 11 token, 12 state, 13 lease end µs
-- Returns: one row: op, now_us, and the record; the record's columns are NULL when it is no longer as it was seen, or
--          may no longer be taken over by this statement's clock.
-- Atomic: one UPDATE, conditional on what this very call has just read. A renewal leaves the fence as it is, so the
--         lease end counts too; one that left the lease end alone may still have announced the work.
WITH clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us
), changed AS (
    UPDATE "{schema}".idem_records AS r
       SET state = 1, undone = false, attempt = r.attempt + 1, token = $3::bytea,
           fence = greatest(r.fence + 1, clock.now_us), owner = $4::text,
           ran_since = coalesce(r.ran_since, CASE WHEN $5::boolean THEN NULL ELSE r.attempt + 1 END),
           claimed_us = clock.now_us, lease_until_us = clock.now_us + $6::bigint, ended_us = NULL,
           history = $7::text
      FROM clock
     WHERE r.scope = $1::text AND r.key = $2::text
       AND r.fence = $10::bigint AND r.token = $11::bytea AND r.state = $12::smallint
       AND r.lease_until_us = $13::bigint
       AND (r.state = 4 OR (r.state = 1 AND r.lease_until_us <= clock.now_us))
       -- the least of two is NULL only when both are, so that each is asked for by itself
       AND (r.ran_since IS NULL OR $9::boolean
            OR (r.take_over_within_us IS NOT NULL AND $8::bigint IS NOT NULL
                AND clock.now_us < r.created_us + least(r.take_over_within_us, $8::bigint)))
    RETURNING r.operation, r.fingerprint, r.state, r.undone, r.take_over_within_us, r.attempt, r.token, r.fence,
              r.owner, r.ran_since, r.created_us, r.claimed_us, r.lease_until_us, r.ended_us, r.expires_us,
              r.checkpoint_sequence, r.checkpoint, r.code, r.meta, r.body, r.history
)
SELECT '{schema}.take_over.1' AS op, clock.now_us, changed.*
  FROM clock LEFT JOIN changed ON true
