-- claim: creates the record, and so grants (C1, C9). The only write of a claim that needs nothing read (C13).
-- Parameters: 1 scope, 2 key, 3 operation, 4 fingerprint, 5 take over within µs (NULL holds), 6 token, 7 owner,
--             8 does the claimant promise to announce itself (0, 1), 9 lease µs, 10 retention µs, 11 now µs
-- Returns: one row (fence) when granted; none when there is a record.
-- Atomic: the primary key decides. A conflict writes nothing.
INSERT INTO main.idem_records (
    scope, key, operation, fingerprint, state, take_over_within_us, attempt, token, fence, owner, ran_since,
    created_us, claimed_us, lease_until_us, expires_us
)
VALUES (
    ?1, ?2, ?3, ?4, 1, ?5, 1, ?6, ?11, ?7, iif(?8, NULL, 1),
    ?11, ?11, ?11 + ?9, ?11 + ?10
)
ON CONFLICT (scope, key) DO NOTHING
RETURNING fence
