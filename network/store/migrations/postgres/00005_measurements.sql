-- +goose Up

-- What a command says besides its kind, as JSON of the server's.
ALTER TABLE commands ADD COLUMN params TEXT NOT NULL DEFAULT '{}';

-- Campaigns over nodes of the network: one load on chosen nodes. The version is
-- compared and set by whoever takes the next step.
CREATE TABLE measurements (
    id TEXT PRIMARY KEY,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    reason TEXT NOT NULL,
    mode TEXT NOT NULL,
    profile TEXT NOT NULL,
    scenario TEXT NOT NULL,
    start_at BIGINT,
    timeout BIGINT NOT NULL,
    version BIGINT NOT NULL,
    cancelled_at BIGINT,
    ended_at BIGINT,
    result TEXT NOT NULL
);
CREATE INDEX measurements_open ON measurements (id) WHERE ended_at IS NULL;
CREATE INDEX measurements_created ON measurements (created_at);

-- One row a node, in the order in which they were named.
CREATE TABLE measurement_nodes (
    measurement TEXT NOT NULL REFERENCES measurements (id),
    place BIGINT NOT NULL,
    node TEXT NOT NULL REFERENCES nodes (id),
    state TEXT NOT NULL,
    cause TEXT NOT NULL,
    command TEXT NOT NULL,
    asked_at BIGINT,
    started_at BIGINT,
    ended_at BIGINT,
    report TEXT NOT NULL,
    figures TEXT NOT NULL,
    share TEXT NOT NULL,
    PRIMARY KEY (measurement, place),
    UNIQUE (measurement, node)
);
CREATE INDEX measurement_nodes_command ON measurement_nodes (command) WHERE command <> '';
CREATE INDEX measurement_nodes_open ON measurement_nodes (node) WHERE ended_at IS NULL;
