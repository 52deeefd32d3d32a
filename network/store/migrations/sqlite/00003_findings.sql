-- +goose Up

-- What the server found out about a node by itself: one row for each verdict.
CREATE TABLE findings (
    id TEXT PRIMARY KEY,
    at INTEGER NOT NULL,
    node TEXT NOT NULL REFERENCES nodes (id),
    replica TEXT NOT NULL,
    kind TEXT NOT NULL,
    verdict TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX findings_node ON findings (node, id);
CREATE INDEX findings_at ON findings (at);

-- The last verdict of each check, and the serving URL that it is about.
ALTER TABLE replicas ADD COLUMN trust TEXT NOT NULL DEFAULT '{}';
