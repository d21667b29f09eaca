-- purge: deletes what has been free for a quarantine, and evidence past its time (P1, P2, P3, P5, P7).
-- Parameters: 1 now µs, 2 quarantine µs, 3 remember µs (0 forgets at once), 4 evidence µs (NULL keeps it for ever),
--             5 limit
-- Returns: the number of changed rows.
-- Atomic: one DELETE; the transaction holds the write lock, so what the SELECT found is what is deleted.
DELETE FROM main.idem_records
 WHERE rowid IN (
    -- finished, and forgotten
    SELECT rowid FROM main.idem_records
     WHERE state IN (2, 3) AND expires_us <= ?1 - ?3 - ?2
    UNION ALL
    -- released
    SELECT rowid FROM main.idem_records
     WHERE state = 5 AND expires_us <= ?1 - ?2
    UNION ALL
    -- lapsed before anything ran: no evidence of anything
    SELECT rowid FROM main.idem_records
     WHERE state = 1 AND ran_since IS NULL AND expires_us <= ?1 - ?2 AND lease_until_us <= ?1 - ?2
    UNION ALL
    -- lapsed or unknown, past the evidence time; what is held stays until somebody decides
    SELECT rowid FROM main.idem_records
     WHERE state IN (1, 4) AND NOT (state = 1 AND ran_since IS NULL) AND take_over_within_us IS NOT NULL
       AND expires_us <= ?1 - ?4 - ?2 AND coalesce(ended_us, lease_until_us) <= ?1 - ?4 - ?2
    LIMIT ?5
 )
