-- claim, and in the same round trip get when there is a record already (C1, C9, C13). MariaDB only.
-- Parameters: 1 to 10 as in claim
-- Returns: one row, as get does. It was created by this statement when token and created_us are ours and now's.
-- Atomic: the primary key decides. A conflict assigns a column to itself, which InnoDB does not write.
INSERT INTO idem_records (
    scope, `key`, operation, fingerprint, state, take_over_within_us, attempt, token, owner, ran_since, history,
    fence,
    created_us,
    claimed_us,
    lease_until_us,
    expires_us
)
VALUES (
    ?, ?, ?, ?, 1, ?, 1, ?, ?, ?, '[]',
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)),
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)),
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)),
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?
)
ON DUPLICATE KEY UPDATE fence = fence
RETURNING operation, fingerprint, state, undone, take_over_within_us, attempt, token, fence, owner, ran_since,
          created_us, claimed_us, lease_until_us, ended_us, expires_us, checkpoint_sequence, checkpoint,
          code, meta, body, history,
          TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) AS now_us
