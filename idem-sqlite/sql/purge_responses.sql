-- purge_responses: drops the responses of finished records that are remembered and no longer replayed (P2, C8).
-- Parameters: 1 now µs, 2 limit
-- Returns: the number of changed rows.
-- Atomic: one UPDATE; the transaction holds the write lock, so what the SELECT found is what is changed.
-- The index is named because the planner would take the other one, and pass by every record that is only remembered.
UPDATE main.idem_records
   SET meta = NULL, body = NULL
 WHERE rowid IN (
    SELECT rowid FROM main.idem_records INDEXED BY idem_records_with_response
     WHERE meta IS NOT NULL AND state IN (2, 3) AND expires_us <= ?1
     LIMIT ?2
 )
