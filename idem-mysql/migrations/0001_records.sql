-- 0001 records: the two tables of idem, and nothing else. Never edited after a release; a change is 0002.
-- MySQL commits before and after each DDL statement, so every one of them can be run again.

CREATE TABLE IF NOT EXISTS idem_schema (
    version    INT    NOT NULL PRIMARY KEY,
    applied_us BIGINT NOT NULL
) ENGINE = InnoDB;

-- Text is kept as the bytes of its UTF-8: every collation for text folds or pads something, and a connection's character
-- set converts nothing. Times are microseconds since 1970: DATETIME would depend on the session, TIMESTAMP ends in 2038.
CREATE TABLE IF NOT EXISTS idem_records (
    scope               VARBINARY(255)    NOT NULL,
    `key`               VARBINARY(255)    NOT NULL,
    operation           VARBINARY(255)    NOT NULL,
    fingerprint         BINARY(32)        NOT NULL,
    -- 1 processing, 2 succeeded, 3 failed, 4 unknown, 5 released
    state               TINYINT UNSIGNED  NOT NULL CHECK (state BETWEEN 1 AND 5),
    -- 1: unknown because a later attempt undid only its own grant
    undone              TINYINT UNSIGNED  NOT NULL DEFAULT 0 CHECK (undone IN (0, 1)),
    -- NULL: hold
    take_over_within_us BIGINT            NULL CHECK (take_over_within_us > 0),
    attempt             INT UNSIGNED      NOT NULL CHECK (attempt > 0),
    token               BINARY(16)        NOT NULL,
    fence               BIGINT            NOT NULL,
    owner               VARBINARY(255)    NULL,
    -- NULL: every attempt promised to announce itself, and none did
    ran_since           INT UNSIGNED      NULL,
    created_us          BIGINT            NOT NULL,
    claimed_us          BIGINT            NOT NULL,
    lease_until_us      BIGINT            NOT NULL,
    ended_us            BIGINT            NULL,
    expires_us          BIGINT            NOT NULL,
    checkpoint_sequence BIGINT            NULL,
    checkpoint          MEDIUMBLOB        NULL,
    -- NULL: nothing recorded; a code without meta is a tombstone; an empty body is not an absent one
    code                SMALLINT UNSIGNED NULL,
    meta                LONGBLOB          NULL,
    body                LONGBLOB          NULL,
    history             MEDIUMBLOB        NOT NULL,
    -- Until when a finished record's response is replayed; NULL when there is none. It is what a partial index would be.
    response_until_us   BIGINT GENERATED ALWAYS AS (IF(state IN (2, 3) AND meta IS NOT NULL, expires_us, NULL)) STORED,
    PRIMARY KEY (scope, `key`),
    -- Purge walks from the oldest of each state.
    KEY idem_records_by_age (state, expires_us),
    KEY idem_records_with_response (response_until_us),
    CHECK ((checkpoint_sequence IS NULL) = (checkpoint IS NULL)),
    CHECK (code IS NOT NULL OR meta IS NULL),
    CHECK (meta IS NOT NULL OR body IS NULL)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
