-- +goose Up

-- What each judged report says in figures: the history that trends are found in. It
-- is small, and read as a whole for each new report.
CREATE TABLE points (
    report TEXT PRIMARY KEY,
    node TEXT NOT NULL REFERENCES nodes (id),
    at INTEGER NOT NULL,
    peer TEXT NOT NULL,
    model TEXT NOT NULL,
    config TEXT NOT NULL,
    traits TEXT NOT NULL,
    figures TEXT NOT NULL,
    levels TEXT NOT NULL
);
CREATE INDEX points_node ON points (node, at);
CREATE INDEX points_at ON points (at);

-- What was found in them. A report shows a thing once.
CREATE TABLE anomalies (
    id TEXT PRIMARY KEY,
    at INTEGER NOT NULL,
    node TEXT NOT NULL REFERENCES nodes (id),
    kind TEXT NOT NULL,
    metric TEXT NOT NULL,
    subject TEXT NOT NULL,
    report TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (report, kind, metric, subject)
);
CREATE INDEX anomalies_subject ON anomalies (subject, kind, metric, at);
CREATE INDEX anomalies_node ON anomalies (node, id);
CREATE INDEX anomalies_at ON anomalies (at);

-- How many requests were under way, every quarter of an hour. The model is empty
-- where a node serves several.
CREATE TABLE demand (
    at INTEGER NOT NULL,
    owner TEXT NOT NULL,
    model TEXT NOT NULL,
    running INTEGER NOT NULL,
    nodes INTEGER NOT NULL,
    unknown INTEGER NOT NULL,
    PRIMARY KEY (at, owner, model)
);
