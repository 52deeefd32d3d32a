-- +goose Up

-- The host key that each machine showed when it first let us in, as in
-- authorized_keys. Whoever shows another one is not that machine.
CREATE TABLE host_keys (
    instance TEXT PRIMARY KEY,
    host_key TEXT NOT NULL,
    pinned_at BIGINT NOT NULL
);
