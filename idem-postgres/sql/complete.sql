-- complete: ends an attempt and records its response (F1 to F6b, X1).
-- Parameters: 1 scope, 2 key, 3 token, 4 fence, 5 state (2, 3, 4), 6 code (NULL keeps what is recorded), 7 meta (NULL
--             makes it a tombstone), 8 body (NULL is absent), 9 replay floor µs
-- Returns: one row: op, changed (1 when stored, 0 otherwise).
-- Atomic: one UPDATE that checks token, fence and state where it writes; lapsed or not.
WITH clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us
), done AS (
    UPDATE "{schema}".idem_records AS r
       SET state = $5::smallint, undone = false, ended_us = clock.now_us, ran_since = coalesce(r.ran_since, r.attempt),
           code = CASE WHEN $6::integer IS NULL THEN r.code ELSE $6::integer END,
           meta = CASE WHEN $6::integer IS NULL THEN r.meta ELSE $7::bytea END,
           body = CASE WHEN $6::integer IS NULL THEN r.body ELSE $8::bytea END,
           expires_us = CASE WHEN $5::smallint = 4 THEN r.expires_us
                             ELSE greatest(r.expires_us, clock.now_us + $9::bigint) END
      FROM clock
     WHERE r.scope = $1::text AND r.key = $2::text AND r.token = $3::bytea AND r.fence = $4::bigint AND r.state = 1
    RETURNING 1
)
SELECT '{schema}.complete.1' AS op, (SELECT count(*) FROM done) AS changed
