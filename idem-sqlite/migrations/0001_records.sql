-- 0001 records: the two tables of idem, and nothing else. Never edited after a release; a change is 0002.
-- The version table is our own: PRAGMA user_version belongs to the application whose file this may be.

CREATE TABLE main.idem_schema (
    version    INTEGER NOT NULL PRIMARY KEY,
    applied_us INTEGER NOT NULL
) STRICT;

-- A rowid table on purpose: with responses in it, WITHOUT ROWID more than halves the throughput of a full group.
-- BINARY is the default collation of TEXT: keys are compared byte for byte. Times are microseconds since 1970.
CREATE TABLE main.idem_records (
    scope               TEXT    NOT NULL,
    key                 TEXT    NOT NULL,
    operation           TEXT    NOT NULL,
    fingerprint         BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    -- 1 processing, 2 succeeded, 3 failed, 4 unknown, 5 released
    state               INTEGER NOT NULL CHECK (state BETWEEN 1 AND 5),
    -- 1: unknown because a later attempt undid only its own grant
    undone              INTEGER NOT NULL DEFAULT 0 CHECK (undone IN (0, 1)),
    -- NULL: hold
    take_over_within_us INTEGER CHECK (take_over_within_us > 0),
    attempt             INTEGER NOT NULL CHECK (attempt > 0),
    token               BLOB    NOT NULL CHECK (length(token) = 16),
    fence               INTEGER NOT NULL,
    owner               TEXT,
    -- NULL: every attempt promised to announce itself, and none did
    ran_since           INTEGER,
    created_us          INTEGER NOT NULL,
    claimed_us          INTEGER NOT NULL,
    lease_until_us      INTEGER NOT NULL,
    ended_us            INTEGER,
    expires_us          INTEGER NOT NULL,
    checkpoint_sequence INTEGER,
    checkpoint          BLOB,
    -- NULL: nothing recorded; a code without meta is a tombstone; an empty body is not an absent one
    code                INTEGER CHECK (code BETWEEN 0 AND 65535),
    meta                BLOB,
    body                BLOB,
    history             TEXT    NOT NULL DEFAULT '[]',
    PRIMARY KEY (scope, key),
    CHECK ((checkpoint_sequence IS NULL) = (checkpoint IS NULL)),
    CHECK (code IS NOT NULL OR meta IS NULL),
    CHECK (meta IS NOT NULL OR body IS NULL)
) STRICT;

-- Purge walks from the oldest of each state. Both indexes grow at their right end, so a group of claims shares pages.
CREATE INDEX main.idem_records_by_age ON idem_records (state, expires_us);
CREATE INDEX main.idem_records_with_response ON idem_records (expires_us) WHERE meta IS NOT NULL;
