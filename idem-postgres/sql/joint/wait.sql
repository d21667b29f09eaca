-- wait: waits until no transaction has the identity's try-lock of once: a record that was made in a transaction in doubt
--       is seen by nobody, and has no row that could be waited for (J1, J2).
-- Parameters: 1 scope, 2 key
-- Returns: one row: op, changed (nothing is).
-- Atomic: the lock is given back with the statement.
SELECT '{schema}.wait.1' AS op, 0::bigint AS changed
  FROM (SELECT pg_advisory_xact_lock(hashtextextended('{schema}' || chr(31) || $1::text || chr(31) || $2::text, 0))) AS got
