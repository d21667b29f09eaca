-- once: a claim inside the caller's transaction (J2, J3, J4). As claim, but it waits for nobody's open transaction: a
--       try-lock on the identity, which ends with the transaction, is asked before the INSERT.
-- Parameters: as in claim
-- Returns: one row: op, now_us, limited (is a silent client's transaction ended by the server at all), locked (did we
--          get the try-lock), granted and the record as in claim.
-- Atomic: as in claim. Without the lock, or without that limit, nothing is written.
WITH clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us,
           current_setting('idle_in_transaction_session_timeout') <> '0' AS limited,
           pg_try_advisory_xact_lock(hashtextextended('{schema}' || chr(31) || $1::text || chr(31) || $2::text, 0)) AS locked
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
     WHERE limited AND locked AND NOT EXISTS (SELECT FROM seen)
    ON CONFLICT (scope, key) DO NOTHING
    RETURNING operation, fingerprint, state, undone, take_over_within_us, attempt, token, fence, owner, ran_since,
              created_us, claimed_us, lease_until_us, ended_us, expires_us, checkpoint_sequence, checkpoint,
              code, meta, body, history
), found AS (
    SELECT true AS granted, made.* FROM made
    UNION ALL
    SELECT false, seen.* FROM seen
)
SELECT '{schema}.once.1' AS op, clock.now_us, clock.limited, clock.locked, found.*
  FROM clock LEFT JOIN found ON true
