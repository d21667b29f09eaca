-- purge: deletes what has been free for a quarantine, and evidence past its time (P1, P2, P3, P4, P5, P7).
-- Parameters: 1 quarantine µs, 2 remember µs (0 forgets at once), 3 evidence µs (NULL keeps it for ever), 4 limit
-- Returns: one row: op, changed.
-- Atomic: the rows are locked, and looked at again behind the lock, before they are deleted; locked ones are skipped.
WITH clock AS MATERIALIZED (
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us
), part AS MATERIALIZED (
    -- Each part of the index has its own oldest; what is only remembered is not walked through before it is forgotten.
    SELECT false AS remembered, now_us - $1::bigint AS before_us FROM clock
    UNION ALL
    SELECT true, now_us - $2::bigint - $1::bigint FROM clock
), done AS (
    DELETE FROM "{schema}".idem_records AS r
     WHERE r.ctid = ANY (ARRAY(
        SELECT due.place
          FROM clock CROSS JOIN part CROSS JOIN LATERAL (
            SELECT old.ctid AS place
              FROM "{schema}".idem_records AS old
             WHERE old.remembered = part.remembered AND old.expires_us <= part.before_us
               AND CASE
                       -- finished, and forgotten
                       WHEN old.state IN (2, 3) THEN old.expires_us <= clock.now_us - $2::bigint - $1::bigint
                       -- released
                       WHEN old.state = 5 THEN true
                       -- lapsed before anything ran: no evidence of anything
                       WHEN old.state = 1 AND old.ran_since IS NULL
                           THEN old.lease_until_us <= clock.now_us - $1::bigint
                       -- lapsed or unknown, past the evidence time; what is held stays until somebody decides
                       ELSE old.take_over_within_us IS NOT NULL
                            AND (old.state = 4 OR old.lease_until_us <= clock.now_us)
                            AND greatest(old.expires_us, coalesce(old.ended_us, old.lease_until_us))
                                <= clock.now_us - $3::bigint - $1::bigint
                   END
             ORDER BY old.expires_us
             LIMIT $4::bigint
               FOR UPDATE SKIP LOCKED
          ) AS due
         LIMIT $4::bigint
     ))
    RETURNING 1
)
SELECT '{schema}.purge.1' AS op, (SELECT count(*) FROM done) AS changed
