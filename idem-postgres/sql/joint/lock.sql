-- lock: locks the record inside the caller's transaction, if nobody else has it, so that the rewrite of a claim does
--       not wait for another's open transaction (J2, J3).
-- Parameters: 1 scope, 2 key
-- Returns: one row: op, changed (1 when it is locked now, 0 when it is not there or somebody else's).
-- Atomic: a row lock, until the transaction ends.
WITH got AS MATERIALIZED (
    SELECT 1 FROM "{schema}".idem_records
     WHERE scope = $1::text AND key = $2::text
       FOR NO KEY UPDATE SKIP LOCKED
)
SELECT '{schema}.lock.1' AS op, (SELECT count(*) FROM got) AS changed
