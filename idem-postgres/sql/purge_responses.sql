-- purge_responses: drops the responses of finished records that are remembered and no longer replayed (P2, P4, C8).
-- Parameters: 1 limit
-- Returns: one row: op, changed: how many responses were dropped; a tombstone is only marked, so that no later purge
--          looks at it before it is forgotten.
-- Atomic: the rows are locked, and looked at again behind the lock, before they are changed; locked ones are skipped.
WITH clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us
), due AS MATERIALIZED (
    SELECT r.ctid AS place, r.meta IS NOT NULL AS had_response
      FROM "{schema}".idem_records AS r
     WHERE NOT r.remembered AND r.expires_us <= (SELECT now_us FROM clock) AND r.state IN (2, 3)
     ORDER BY r.expires_us
     LIMIT $1::bigint
       FOR UPDATE SKIP LOCKED
), done AS (
    UPDATE "{schema}".idem_records AS r
       SET meta = NULL, body = NULL, remembered = true
      FROM due
     WHERE r.ctid = due.place
    RETURNING due.had_response
)
SELECT '{schema}.purge_responses.1' AS op, (SELECT count(*) FROM done WHERE had_response) AS changed
