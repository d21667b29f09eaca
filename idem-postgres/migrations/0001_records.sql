-- 0001 records: the two tables of idem, and nothing else. Never edited after a release; a change is 0002.
-- {schema} stands for the schema's name. The version table is our own: nobody else's migrations meet it.

CREATE TABLE "{schema}".idem_schema (
    version    bigint NOT NULL PRIMARY KEY,
    -- the oldest version of the statements that still works on these tables: what lets two releases run side by side
    works_from bigint NOT NULL CHECK (works_from <= version),
    applied_us bigint NOT NULL
);

-- Keys are compared byte for byte: COLLATE "C", which no upgrade of an operating system reorders. Times are
-- microseconds since 1970, so that no session's time zone moves them.
CREATE TABLE "{schema}".idem_records (
    scope               text COLLATE "C" NOT NULL CHECK (octet_length(scope) BETWEEN 1 AND 255),
    key                 text COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 255),
    operation           text     NOT NULL,
    fingerprint         bytea    NOT NULL CHECK (octet_length(fingerprint) = 32),
    -- 1 processing, 2 succeeded, 3 failed, 4 unknown, 5 released
    state               smallint NOT NULL CHECK (state BETWEEN 1 AND 5),
    -- unknown because a later attempt undid only its own grant
    undone              boolean  NOT NULL DEFAULT false,
    -- finished, past its retention, and its response dropped
    remembered          boolean  NOT NULL DEFAULT false,
    -- NULL: hold
    take_over_within_us bigint   CHECK (take_over_within_us > 0),
    attempt             integer  NOT NULL CHECK (attempt > 0),
    token               bytea    NOT NULL CHECK (octet_length(token) = 16),
    fence               bigint   NOT NULL,
    owner               text,
    -- NULL: every attempt promised to announce itself, and none did
    ran_since           integer,
    created_us          bigint   NOT NULL,
    claimed_us          bigint   NOT NULL,
    lease_until_us      bigint   NOT NULL,
    ended_us            bigint,
    expires_us          bigint   NOT NULL,
    checkpoint_sequence bigint,
    checkpoint          bytea,
    -- NULL: nothing recorded; a code without meta is a tombstone; an empty body is not an absent one
    code                integer  CHECK (code BETWEEN 0 AND 65535),
    meta                bytea,
    body                bytea,
    history             text     NOT NULL DEFAULT '[]',
    PRIMARY KEY (scope, key),
    CHECK ((checkpoint_sequence IS NULL) = (checkpoint IS NULL)),
    CHECK (code IS NOT NULL OR meta IS NULL),
    CHECK (meta IS NOT NULL OR body IS NULL)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);

-- Purge walks from the oldest. No column of an index changes when an attempt is renewed or ends within its retention,
-- so those updates stay on their page (HOT): that is why neither state nor lease is indexed.
CREATE INDEX idem_records_by_age ON "{schema}".idem_records (remembered, expires_us);
