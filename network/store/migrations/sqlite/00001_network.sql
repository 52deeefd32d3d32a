-- +goose Up

-- One row. Tokens and log-ins name the epoch in which they were made: after a
-- restore from a backup it grows, and they are void.
CREATE TABLE installation (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    epoch INTEGER NOT NULL,
    created_at INTEGER NOT NULL
);
INSERT INTO installation (id, epoch, created_at) VALUES (1, 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER));

CREATE TABLE owners (
    name TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL
);

CREATE TABLE nodes (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL REFERENCES owners (name),
    name TEXT NOT NULL,
    hostname TEXT NOT NULL,
    admission TEXT NOT NULL,
    intent TEXT NOT NULL,
    contact TEXT NOT NULL,
    version INTEGER NOT NULL,
    policy_version INTEGER NOT NULL,
    state TEXT NOT NULL,
    score REAL,
    score_low REAL,
    reasons TEXT NOT NULL,
    last_report TEXT NOT NULL,
    last_report_at INTEGER,
    inventory TEXT NOT NULL,
    inventory_sha256 TEXT NOT NULL,
    settings TEXT NOT NULL,
    settings_version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE INDEX nodes_owner ON nodes (owner, id);
CREATE INDEX nodes_admission ON nodes (admission);

-- Apart from nodes: written every 30 seconds for each node, and nothing else
-- waits for it. 
CREATE TABLE beats (
    node TEXT PRIMARY KEY,
    seen_at INTEGER NOT NULL,
    version TEXT NOT NULL,
    running INTEGER NOT NULL,
    body TEXT NOT NULL
);

CREATE TABLE node_keys (
    id TEXT PRIMARY KEY,
    node TEXT NOT NULL REFERENCES nodes (id),
    public_key BLOB NOT NULL,
    statement BLOB NOT NULL,
    not_before INTEGER NOT NULL,
    not_after INTEGER NOT NULL,
    revoked_at INTEGER,
    created_at INTEGER NOT NULL
);
CREATE INDEX node_keys_node ON node_keys (node);
CREATE INDEX node_keys_revoked ON node_keys (revoked_at) WHERE revoked_at IS NOT NULL;

-- A row for each change of a card, so that its history is there.
CREATE TABLE gpus (
    node TEXT NOT NULL REFERENCES nodes (id),
    uuid TEXT NOT NULL,
    first_seen INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    name TEXT NOT NULL,
    serial TEXT NOT NULL,
    vbios TEXT NOT NULL,
    pci_bus_id TEXT NOT NULL,
    pci_device_id TEXT NOT NULL,
    driver TEXT NOT NULL,
    memory_bytes INTEGER NOT NULL,
    PRIMARY KEY (node, uuid, first_seen)
);
CREATE INDEX gpus_uuid ON gpus (uuid);

CREATE TABLE replicas (
    id TEXT PRIMARY KEY,
    node TEXT NOT NULL REFERENCES nodes (id),
    name TEXT NOT NULL,
    engine TEXT NOT NULL,
    engine_version TEXT NOT NULL,
    model TEXT NOT NULL,
    serving_url TEXT NOT NULL,
    gpus TEXT NOT NULL,
    admission TEXT NOT NULL,
    intent TEXT NOT NULL,
    contact TEXT NOT NULL,
    version INTEGER NOT NULL,
    policy_version INTEGER NOT NULL,
    state TEXT NOT NULL,
    reasons TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    removed_at INTEGER,
    UNIQUE (node, name)
);

CREATE TABLE enrolment_tokens (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL REFERENCES owners (name),
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER,
    used_at INTEGER,
    used_by_key TEXT NOT NULL,
    used_by_node TEXT NOT NULL,
    epoch INTEGER NOT NULL
);

-- API tokens, sessions of people, log-ins of nodes: by kind.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    scope TEXT NOT NULL,
    person TEXT NOT NULL,
    node TEXT NOT NULL,
    node_key TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER,
    epoch INTEGER NOT NULL
);
CREATE INDEX tokens_expires ON tokens (expires_at);
CREATE INDEX tokens_kind ON tokens (kind, id);

CREATE TABLE people (
    id TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL
);

-- Who a person is. Erased on demand; what the person did stays under the id.
CREATE TABLE identities (
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    person TEXT NOT NULL UNIQUE REFERENCES people (id),
    PRIMARY KEY (issuer, subject)
);

CREATE TABLE nonces (
    hash TEXT PRIMARY KEY,
    node TEXT NOT NULL,
    expires_at INTEGER NOT NULL
);
CREATE INDEX nonces_expires ON nonces (expires_at);

-- Everything that must leave: statements and events for the ledger, webhooks.
-- Not partitioned: an id is unique for ever, and other bytes under it are refused.
CREATE TABLE outbox (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    topic TEXT NOT NULL,
    node TEXT NOT NULL,
    kind TEXT NOT NULL,
    target TEXT NOT NULL,
    bytes BLOB NOT NULL,
    sha256 TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    published_at INTEGER,
    attempts INTEGER NOT NULL,
    next_attempt INTEGER NOT NULL,
    claimed_by TEXT NOT NULL,
    claimed_until INTEGER NOT NULL,
    problem TEXT NOT NULL
);
CREATE INDEX outbox_waiting ON outbox (topic, seq) WHERE published_at IS NULL;
CREATE INDEX outbox_due ON outbox (topic, next_attempt) WHERE published_at IS NULL;
CREATE INDEX outbox_published ON outbox (published_at) WHERE published_at IS NOT NULL;

-- One report for a statement, whatever partition it lies in.
CREATE TABLE report_keys (
    id TEXT PRIMARY KEY,
    node TEXT NOT NULL,
    statement TEXT NOT NULL UNIQUE,
    at INTEGER NOT NULL
);
CREATE INDEX report_keys_at ON report_keys (at);

CREATE TABLE reports (
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    node TEXT NOT NULL,
    run TEXT NOT NULL,
    run_sha256 TEXT NOT NULL,
    statement TEXT NOT NULL,
    command TEXT NOT NULL,
    peer TEXT NOT NULL,
    confirmed_at INTEGER,
    scored_at INTEGER,
    verdict TEXT NOT NULL,
    score REAL,
    score_low REAL,
    because TEXT NOT NULL,
    summary TEXT NOT NULL,
    files TEXT NOT NULL,
    PRIMARY KEY (id, at)
);
CREATE INDEX reports_node ON reports (node, id);

-- What decisions cite, copied: it outlives the reports' retention.
CREATE TABLE cited_reports (
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    node TEXT NOT NULL,
    run TEXT NOT NULL,
    run_sha256 TEXT NOT NULL,
    statement TEXT NOT NULL,
    command TEXT NOT NULL,
    peer TEXT NOT NULL,
    confirmed_at INTEGER,
    scored_at INTEGER,
    verdict TEXT NOT NULL,
    score REAL,
    score_low REAL,
    because TEXT NOT NULL,
    summary TEXT NOT NULL,
    files TEXT NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE citations (
    decision TEXT NOT NULL,
    decision_at INTEGER NOT NULL,
    report TEXT NOT NULL,
    PRIMARY KEY (decision, report)
);
CREATE INDEX citations_report ON citations (report);
CREATE INDEX citations_at ON citations (decision_at);

CREATE TABLE evidence (
    sha256 TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    confirmed_at INTEGER
);
CREATE TABLE evidence_refs (
    sha256 TEXT NOT NULL REFERENCES evidence (sha256),
    report TEXT NOT NULL,
    report_at INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (report, name)
);
CREATE INDEX evidence_refs_sha256 ON evidence_refs (sha256);
CREATE INDEX evidence_refs_at ON evidence_refs (report_at);

CREATE TABLE baselines (
    peer TEXT NOT NULL,
    version INTEGER NOT NULL,
    at INTEGER NOT NULL,
    source TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (peer, version)
);

CREATE TABLE transitions (
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    node TEXT NOT NULL,
    replica TEXT NOT NULL,
    decision TEXT NOT NULL,
    fact TEXT NOT NULL,
    from_value TEXT NOT NULL,
    to_value TEXT NOT NULL,
    event TEXT NOT NULL,
    actor TEXT NOT NULL,
    reasons TEXT NOT NULL,
    evidence TEXT NOT NULL,
    policy_version INTEGER NOT NULL,
    node_version INTEGER NOT NULL,
    statement BLOB NOT NULL,
    PRIMARY KEY (id, at)
);
CREATE INDEX transitions_node ON transitions (node, id);
-- +goose StatementBegin
CREATE TRIGGER transitions_append_only BEFORE UPDATE ON transitions BEGIN SELECT RAISE(ABORT, 'rows of this table are never changed'); END;
-- +goose StatementEnd

CREATE TABLE decisions (
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    node TEXT NOT NULL,
    replica TEXT NOT NULL,
    event TEXT NOT NULL,
    actor TEXT NOT NULL,
    why TEXT NOT NULL,
    cites TEXT NOT NULL,
    baseline TEXT NOT NULL,
    policy_version INTEGER NOT NULL,
    node_version INTEGER NOT NULL,
    breaker_version INTEGER NOT NULL,
    PRIMARY KEY (id, at)
);
CREATE INDEX decisions_node ON decisions (node, id);
-- +goose StatementBegin
CREATE TRIGGER decisions_append_only BEFORE UPDATE ON decisions BEGIN SELECT RAISE(ABORT, 'rows of this table are never changed'); END;
-- +goose StatementEnd

CREATE TABLE audit (
    id TEXT NOT NULL,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    node TEXT NOT NULL,
    owner TEXT NOT NULL,
    outcome TEXT NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (id, at)
);
CREATE INDEX audit_id ON audit (id);
CREATE INDEX audit_node ON audit (node, id);
-- +goose StatementBegin
CREATE TRIGGER audit_append_only BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'rows of this table are never changed'); END;
-- +goose StatementEnd

CREATE TABLE rejections (
    minute INTEGER NOT NULL,
    kind TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (minute, kind)
);

CREATE TABLE policies (
    version INTEGER PRIMARY KEY,
    bytes BLOB NOT NULL,
    sha256 TEXT NOT NULL,
    applied_by TEXT NOT NULL,
    at INTEGER NOT NULL
);

CREATE TABLE breaker (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL,
    body TEXT NOT NULL,
    updated_at INTEGER NOT NULL
);
INSERT INTO breaker (id, version, body, updated_at) VALUES (1, 0, '{}', CAST(unixepoch('subsec') * 1000000 AS INTEGER));

CREATE TABLE commands (
    id TEXT PRIMARY KEY,
    node TEXT NOT NULL REFERENCES nodes (id),
    kind TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    acked_at INTEGER,
    outcome TEXT NOT NULL,
    detail TEXT NOT NULL,
    run TEXT NOT NULL,
    ended_at INTEGER
);
CREATE INDEX commands_waiting ON commands (node, id) WHERE acked_at IS NULL;
CREATE INDEX commands_created ON commands (created_at);

-- Who does a piece of work that only one process may do. The fence grows with
-- each new holder.
CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until INTEGER NOT NULL,
    fence INTEGER NOT NULL
);

-- What is to be done for something at a time: timers that survive a server.
CREATE TABLE due (
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    at INTEGER NOT NULL,
    claimed_by TEXT NOT NULL,
    claimed_until INTEGER NOT NULL,
    PRIMARY KEY (kind, subject)
);
CREATE INDEX due_at ON due (kind, at);
