-- renew: keeps a lease running, says that work begins, and may leave a checkpoint (R1 to R5, C14, X1).
-- Parameters: 1 scope, 2 key, 3 token, 4 fence, 5 length µs, 6 checkpoint number, 7 checkpoint (both NULL: none)
-- Returns: one row: op, changed (1 when held, 0 when lost).
-- Atomic: one UPDATE that checks token, fence and state where it writes.
WITH clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us
), done AS (
    UPDATE "{schema}".idem_records AS r
       SET lease_until_us = greatest(r.lease_until_us, clock.now_us + $5::bigint),
           ran_since = coalesce(r.ran_since, r.attempt),
           checkpoint = CASE WHEN $6::bigint > coalesce(r.checkpoint_sequence, -1)
                             THEN $7::bytea ELSE r.checkpoint END,
           checkpoint_sequence = CASE WHEN $6::bigint > coalesce(r.checkpoint_sequence, -1)
                                      THEN $6::bigint ELSE r.checkpoint_sequence END
      FROM clock
     WHERE r.scope = $1::text AND r.key = $2::text AND r.token = $3::bytea AND r.fence = $4::bigint AND r.state = 1
    RETURNING 1
)
SELECT '{schema}.renew.1' AS op, (SELECT count(*) FROM done) AS changed
