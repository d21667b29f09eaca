-- purge_responses: drops the responses of finished records that are remembered and no longer replayed (P2, C8).
-- Parameters: 1 limit
-- Returns: the number of matched rows.
-- Atomic: one UPDATE. What the SELECT found is locked until its response is gone; what others hold is skipped.
UPDATE (
    SELECT scope, `key` FROM idem_records
     WHERE response_until_us <= TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))
     LIMIT ? FOR UPDATE SKIP LOCKED
  ) AS spent
       STRAIGHT_JOIN idem_records AS record ON record.scope = spent.scope AND record.`key` = spent.`key`
   SET record.meta = NULL, record.body = NULL
