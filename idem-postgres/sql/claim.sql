-- claim: creates the record, and so grants; or reads the one that is there (C1, C9). The only write of a claim that
--        needs nothing read (C13). A record that is there is only read: no transaction id, no lock, no WAL.
-- Parameters: 1 scope, 2 key, 3 operation, 4 fingerprint, 5 take over within µs (NULL holds), 6 token, 7 owner,
--             8 does the claimant promise to announce itself, 9 lease µs, 10 retention µs
-- Returns: one row: op, now_us, granted, and the record. granted is NULL when the record was made by somebody else
--          after this statement began: run it again (C12).
-- Atomic: the primary key decides. A conflict writes nothing.
WITH clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us
), seen AS MATERIALIZED (
    SELECT operation, fingerprint, state, undone, take_over_within_us, attempt, token, fence, owner, ran_since,
           created_us, claimed_us, lease_until_us, ended_us, expires_us, checkpoint_sequence, checkpoint,
           code, meta, body, history
      FROM "{schema}".idem_records
     WHERE scope = $1::text AND key = $2::text
), made AS (
    INSERT INTO "{schema}".idem_records (
        scope, key, operation, fingerprint, state, take_over_within_us, attempt, token, fence, owner, ran_since,
        created_us, claimed_us, lease_until_us, expires_us
    )
    SELECT $1::text, $2::text, $3::text, $4::bytea, 1, $5::bigint, 1, $6::bytea, now_us, $7::text,
           CASE WHEN $8::boolean THEN NULL ELSE 1 END, now_us, now_us, now_us + $9::bigint, now_us + $10::bigint
      FROM clock
     WHERE NOT EXISTS (SELECT FROM seen)
    ON CONFLICT (scope, key) DO NOTHING
    RETURNING operation, fingerprint, state, undone, take_over_within_us, attempt, token, fence, owner, ran_since,
              created_us, claimed_us, lease_until_us, ended_us, expires_us, checkpoint_sequence, checkpoint,
              code, meta, body, history
), found AS (
    SELECT true AS granted, made.* FROM made
    UNION ALL
    SELECT false, seen.* FROM seen
)
SELECT '{schema}.claim.1' AS op, clock.now_us, found.*
  FROM clock LEFT JOIN found ON true
