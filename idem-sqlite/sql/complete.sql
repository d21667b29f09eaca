-- complete: ends an attempt and records its response (F1 to F6b, X1).
-- Parameters: 1 scope, 2 key, 3 token, 4 fence, 5 state (2, 3, 4), 6 code (NULL keeps what is recorded), 7 meta (NULL
--             makes it a tombstone), 8 body (NULL is absent), 9 replay floor µs, 10 now µs
-- Returns: one changed row when stored; none otherwise.
-- Atomic: one UPDATE that checks token, fence and state where it writes; lapsed or not.
UPDATE main.idem_records
   SET state = ?5, undone = 0, ended_us = ?10, ran_since = coalesce(ran_since, attempt),
       code = iif(?6 IS NULL, code, ?6), meta = iif(?6 IS NULL, meta, ?7), body = iif(?6 IS NULL, body, ?8),
       expires_us = iif(?5 = 4, expires_us, max(expires_us, ?10 + ?9))
 WHERE scope = ?1 AND key = ?2 AND token = ?3 AND fence = ?4 AND state = 1
