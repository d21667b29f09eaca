-- release: nothing happened. Frees the record, or undoes this grant only when an earlier attempt may have run (L1 to
--          L3, X1).
-- Parameters: 1 scope, 2 key, 3 token, 4 fence, 5 does it speak of every attempt (0, 1), 6 now µs
-- Returns: one changed row when released; none otherwise.
-- Atomic: one UPDATE that checks token, fence and state where it writes; every expression sees the row as it was.
UPDATE main.idem_records
   SET state = iif(NOT ?5 AND ran_since < attempt, 4, 5),
       undone = iif(NOT ?5 AND ran_since < attempt, 1, 0),
       ended_us = ?6,
       expires_us = iif(NOT ?5 AND ran_since < attempt, expires_us, max(expires_us, ?6)),
       checkpoint_sequence = iif(NOT ?5 AND ran_since < attempt, checkpoint_sequence, NULL),
       checkpoint = iif(NOT ?5 AND ran_since < attempt, checkpoint, NULL),
       code = iif(NOT ?5 AND ran_since < attempt, code, NULL),
       meta = iif(NOT ?5 AND ran_since < attempt, meta, NULL),
       body = iif(NOT ?5 AND ran_since < attempt, body, NULL)
 WHERE scope = ?1 AND key = ?2 AND token = ?3 AND fence = ?4 AND state = 1
