-- claim: creates the record, and so grants (C1, C9). The only write of a claim that needs nothing read (C13).
-- Parameters: 1 scope, 2 key, 3 operation, 4 fingerprint, 5 take over within µs (NULL holds), 6 token, 7 owner,
--             8 the attempt that may begin at once (1; NULL when the claimant promises to announce itself),
--             9 lease µs, 10 retention µs
-- Returns: one changed row when granted, its fence as the insert id of the OK packet; error 1062 when there is a record.
-- Atomic: the primary key decides. A conflict writes nothing. UTC_TIMESTAMP is one instant for the whole statement.
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
    LAST_INSERT_ID(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))),
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)),
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)),
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?,
    TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ?
)
