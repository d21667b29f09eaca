-- settled: the record, once no open transaction has it any more: what became of a COMMIT whose reply was lost (J1).
-- Parameters: 1 scope, 2 key
-- Returns: as get.
-- Atomic: the row lock waits for the transaction in doubt, so what is read is its outcome.
WITH r AS MATERIALIZED (
    SELECT operation, fingerprint, state, undone, take_over_within_us, attempt, token, fence, owner, ran_since,
           created_us, claimed_us, lease_until_us, ended_us, expires_us, checkpoint_sequence, checkpoint,
           code, meta, body, history
      FROM "{schema}".idem_records
     WHERE scope = $1::text AND key = $2::text
       FOR SHARE
)
SELECT '{schema}.settled.1' AS op, clock.now_us, r.*
  FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us) AS clock
  LEFT JOIN r ON true
