-- purge: deletes what has been free for a quarantine, and evidence past its time (P1 to P5, P7).
-- Parameters: 1 remember + quarantine µs, 2 limit, 3 quarantine µs, 4 limit, 5 quarantine µs, 6 quarantine µs, 7 limit,
--             8 evidence + quarantine µs (NULL keeps it for ever), 9 the same again, 10 limit, 11 limit
-- Returns: the number of changed rows.
-- Atomic: one DELETE. What the SELECTs found is locked until the row is gone; what others hold is skipped, so nobody
--         waits for it. Joined, not IN: the planner would walk the whole table, and lock it.
DELETE record
  FROM (
    -- finished, and forgotten
    (SELECT scope, `key` FROM idem_records
      WHERE state IN (2, 3)
        AND expires_us <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - ?
      LIMIT ? FOR UPDATE SKIP LOCKED)
    UNION ALL
    -- released
    (SELECT scope, `key` FROM idem_records
      WHERE state = 5
        AND expires_us <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - ?
      LIMIT ? FOR UPDATE SKIP LOCKED)
    UNION ALL
    -- lapsed before anything ran: no evidence of anything
    (SELECT scope, `key` FROM idem_records
      WHERE state = 1 AND ran_since IS NULL
        AND expires_us <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - ?
        AND lease_until_us <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - ?
      LIMIT ? FOR UPDATE SKIP LOCKED)
    UNION ALL
    -- lapsed or unknown, past the evidence time; what is held stays until somebody decides
    (SELECT scope, `key` FROM idem_records
      WHERE state IN (1, 4) AND (state = 4 OR ran_since IS NOT NULL) AND take_over_within_us IS NOT NULL
        AND expires_us <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - ?
        AND COALESCE(ended_us, lease_until_us)
            <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) - ?
      LIMIT ? FOR UPDATE SKIP LOCKED)
    LIMIT ?
  ) AS free
       STRAIGHT_JOIN idem_records AS record ON record.scope = free.scope AND record.`key` = free.`key`
