-- release: nothing happened. Frees the record, or undoes this grant only when an earlier attempt may have run (L1 to
--          L3, X1).
-- Parameters: 1 scope, 2 key, 3 token, 4 fence, 5 does it speak of every attempt
-- Returns: one row: op, changed (1 when released, 0 otherwise).
-- Atomic: one UPDATE that checks token, fence and state where it writes; every expression sees the row as it was.
WITH clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us
), done AS (
    UPDATE "{schema}".idem_records AS r
       SET state = CASE WHEN NOT $5::boolean AND r.ran_since < r.attempt THEN 4 ELSE 5 END,
           undone = coalesce(NOT $5::boolean AND r.ran_since < r.attempt, false),
           ended_us = clock.now_us,
           expires_us = CASE WHEN NOT $5::boolean AND r.ran_since < r.attempt THEN r.expires_us
                             ELSE greatest(r.expires_us, clock.now_us) END,
           checkpoint_sequence = CASE WHEN NOT $5::boolean AND r.ran_since < r.attempt THEN r.checkpoint_sequence END,
           checkpoint = CASE WHEN NOT $5::boolean AND r.ran_since < r.attempt THEN r.checkpoint END,
           code = CASE WHEN NOT $5::boolean AND r.ran_since < r.attempt THEN r.code END,
           meta = CASE WHEN NOT $5::boolean AND r.ran_since < r.attempt THEN r.meta END,
           body = CASE WHEN NOT $5::boolean AND r.ran_since < r.attempt THEN r.body END
      FROM clock
     WHERE r.scope = $1::text AND r.key = $2::text AND r.token = $3::bytea AND r.fence = $4::bigint AND r.state = 1
    RETURNING 1
)
SELECT '{schema}.release.1' AS op, (SELECT count(*) FROM done) AS changed
