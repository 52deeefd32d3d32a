-- +goose Up

-- Rows of the tables that have this trigger are never changed or removed one by
-- one; retention drops whole partitions.
-- +goose StatementBegin
CREATE FUNCTION append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are never changed', TG_TABLE_NAME;
END $$;
-- +goose StatementEnd

-- One row. Tokens and log-ins name the epoch in which they were made: after a
-- restore from a backup it grows, and they are void.
CREATE TABLE installation (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    epoch BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
INSERT INTO installation (id, epoch, created_at) VALUES (1, 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);

CREATE TABLE owners (
    name TEXT PRIMARY KEY,
    created_at BIGINT NOT NULL
);

CREATE TABLE nodes (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL REFERENCES owners (name),
    name TEXT NOT NULL,
    hostname TEXT NOT NULL,
    admission TEXT NOT NULL,
    intent TEXT NOT NULL,
    contact TEXT NOT NULL,
    version BIGINT NOT NULL,
    policy_version BIGINT NOT NULL,
    state TEXT NOT NULL,
    score DOUBLE PRECISION,
    score_low DOUBLE PRECISION,
    reasons TEXT NOT NULL,
    last_report TEXT NOT NULL,
    last_report_at BIGINT,
    inventory TEXT NOT NULL,
    inventory_sha256 TEXT NOT NULL,
    settings TEXT NOT NULL,
    settings_version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX nodes_owner ON nodes (owner, id);
CREATE INDEX nodes_admission ON nodes (admission);

-- Apart from nodes: written every 30 seconds for each node, and nothing else
-- waits for it. Without an index beside the key, so that an update stays on its
-- page.
CREATE TABLE beats (
    node TEXT PRIMARY KEY,
    seen_at BIGINT NOT NULL,
    version TEXT NOT NULL,
    running BIGINT NOT NULL,
    body TEXT NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE node_keys (
    id TEXT PRIMARY KEY,
    node TEXT NOT NULL REFERENCES nodes (id),
    public_key BYTEA NOT NULL,
    statement BYTEA NOT NULL,
    not_before BIGINT NOT NULL,
    not_after BIGINT NOT NULL,
    revoked_at BIGINT,
    created_at BIGINT NOT NULL
);
CREATE INDEX node_keys_node ON node_keys (node);
CREATE INDEX node_keys_revoked ON node_keys (revoked_at) WHERE revoked_at IS NOT NULL;

-- A row for each change of a card, so that its history is there.
CREATE TABLE gpus (
    node TEXT NOT NULL REFERENCES nodes (id),
    uuid TEXT NOT NULL,
    first_seen BIGINT NOT NULL,
    last_seen BIGINT NOT NULL,
    name TEXT NOT NULL,
    serial TEXT NOT NULL,
    vbios TEXT NOT NULL,
    pci_bus_id TEXT NOT NULL,
    pci_device_id TEXT NOT NULL,
    driver TEXT NOT NULL,
    memory_bytes BIGINT NOT NULL,
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
    version BIGINT NOT NULL,
    policy_version BIGINT NOT NULL,
    state TEXT NOT NULL,
    reasons TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_seen BIGINT NOT NULL,
    removed_at BIGINT,
    UNIQUE (node, name)
);

CREATE TABLE enrolment_tokens (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    owner TEXT NOT NULL REFERENCES owners (name),
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    revoked_at BIGINT,
    used_at BIGINT,
    used_by_key TEXT NOT NULL,
    used_by_node TEXT NOT NULL,
    epoch BIGINT NOT NULL
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
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    revoked_at BIGINT,
    epoch BIGINT NOT NULL
);
CREATE INDEX tokens_expires ON tokens (expires_at);
CREATE INDEX tokens_kind ON tokens (kind, id);

CREATE TABLE people (
    id TEXT PRIMARY KEY,
    created_at BIGINT NOT NULL
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
    expires_at BIGINT NOT NULL
);
CREATE INDEX nonces_expires ON nonces (expires_at);

-- Everything that must leave: statements and events for the ledger, webhooks.
-- Not partitioned: an id is unique for ever, and other bytes under it are refused.
CREATE TABLE outbox (
    seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    topic TEXT NOT NULL,
    node TEXT NOT NULL,
    kind TEXT NOT NULL,
    target TEXT NOT NULL,
    bytes BYTEA NOT NULL,
    sha256 TEXT NOT NULL,
    received_at BIGINT NOT NULL,
    published_at BIGINT,
    attempts BIGINT NOT NULL,
    next_attempt BIGINT NOT NULL,
    claimed_by TEXT NOT NULL,
    claimed_until BIGINT NOT NULL,
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
    at BIGINT NOT NULL
);
CREATE INDEX report_keys_at ON report_keys (at);

CREATE TABLE reports (
    id TEXT NOT NULL,
    at BIGINT NOT NULL,
    node TEXT NOT NULL,
    run TEXT NOT NULL,
    run_sha256 TEXT NOT NULL,
    statement TEXT NOT NULL,
    command TEXT NOT NULL,
    peer TEXT NOT NULL,
    confirmed_at BIGINT,
    scored_at BIGINT,
    verdict TEXT NOT NULL,
    score DOUBLE PRECISION,
    score_low DOUBLE PRECISION,
    because TEXT NOT NULL,
    summary TEXT NOT NULL,
    files TEXT NOT NULL,
    PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);
CREATE INDEX reports_node ON reports (node, id);

-- What decisions cite, copied: it outlives the reports' retention.
CREATE TABLE cited_reports (
    id TEXT NOT NULL,
    at BIGINT NOT NULL,
    node TEXT NOT NULL,
    run TEXT NOT NULL,
    run_sha256 TEXT NOT NULL,
    statement TEXT NOT NULL,
    command TEXT NOT NULL,
    peer TEXT NOT NULL,
    confirmed_at BIGINT,
    scored_at BIGINT,
    verdict TEXT NOT NULL,
    score DOUBLE PRECISION,
    score_low DOUBLE PRECISION,
    because TEXT NOT NULL,
    summary TEXT NOT NULL,
    files TEXT NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE citations (
    decision TEXT NOT NULL,
    decision_at BIGINT NOT NULL,
    report TEXT NOT NULL,
    PRIMARY KEY (decision, report)
);
CREATE INDEX citations_report ON citations (report);
CREATE INDEX citations_at ON citations (decision_at);

CREATE TABLE evidence (
    sha256 TEXT PRIMARY KEY,
    size BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    confirmed_at BIGINT
);
CREATE TABLE evidence_refs (
    sha256 TEXT NOT NULL REFERENCES evidence (sha256),
    report TEXT NOT NULL,
    report_at BIGINT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (report, name)
);
CREATE INDEX evidence_refs_sha256 ON evidence_refs (sha256);
CREATE INDEX evidence_refs_at ON evidence_refs (report_at);

CREATE TABLE baselines (
    peer TEXT NOT NULL,
    version BIGINT NOT NULL,
    at BIGINT NOT NULL,
    source TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (peer, version)
);

CREATE TABLE transitions (
    id TEXT NOT NULL,
    at BIGINT NOT NULL,
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
    policy_version BIGINT NOT NULL,
    node_version BIGINT NOT NULL,
    statement BYTEA NOT NULL,
    PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);
CREATE INDEX transitions_node ON transitions (node, id);
CREATE TRIGGER transitions_append_only BEFORE UPDATE OR DELETE ON transitions FOR EACH ROW EXECUTE FUNCTION append_only();

CREATE TABLE decisions (
    id TEXT NOT NULL,
    at BIGINT NOT NULL,
    node TEXT NOT NULL,
    replica TEXT NOT NULL,
    event TEXT NOT NULL,
    actor TEXT NOT NULL,
    why TEXT NOT NULL,
    cites TEXT NOT NULL,
    baseline TEXT NOT NULL,
    policy_version BIGINT NOT NULL,
    node_version BIGINT NOT NULL,
    breaker_version BIGINT NOT NULL,
    PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);
CREATE INDEX decisions_node ON decisions (node, id);
CREATE TRIGGER decisions_append_only BEFORE UPDATE OR DELETE ON decisions FOR EACH ROW EXECUTE FUNCTION append_only();

CREATE TABLE audit (
    id TEXT NOT NULL,
    at BIGINT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    node TEXT NOT NULL,
    owner TEXT NOT NULL,
    outcome TEXT NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);
CREATE INDEX audit_id ON audit (id);
CREATE INDEX audit_node ON audit (node, id);
CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION append_only();

CREATE TABLE rejections (
    minute BIGINT NOT NULL,
    kind TEXT NOT NULL,
    count BIGINT NOT NULL,
    PRIMARY KEY (minute, kind)
);

CREATE TABLE policies (
    version BIGINT PRIMARY KEY,
    bytes BYTEA NOT NULL,
    sha256 TEXT NOT NULL,
    applied_by TEXT NOT NULL,
    at BIGINT NOT NULL
);

CREATE TABLE breaker (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    version BIGINT NOT NULL,
    body TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);
INSERT INTO breaker (id, version, body, updated_at) VALUES (1, 0, '{}', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);

CREATE TABLE commands (
    id TEXT PRIMARY KEY,
    node TEXT NOT NULL REFERENCES nodes (id),
    kind TEXT NOT NULL,
    reason TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    acked_at BIGINT,
    outcome TEXT NOT NULL,
    detail TEXT NOT NULL,
    run TEXT NOT NULL,
    ended_at BIGINT
);
CREATE INDEX commands_waiting ON commands (node, id) WHERE acked_at IS NULL;
CREATE INDEX commands_created ON commands (created_at);

-- Who does a piece of work that only one process may do. The fence grows with
-- each new holder.
CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until BIGINT NOT NULL,
    fence BIGINT NOT NULL
);

-- What is to be done for something at a time: timers that survive a server.
CREATE TABLE due (
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    at BIGINT NOT NULL,
    claimed_by TEXT NOT NULL,
    claimed_until BIGINT NOT NULL,
    PRIMARY KEY (kind, subject)
);
CREATE INDEX due_at ON due (kind, at);
