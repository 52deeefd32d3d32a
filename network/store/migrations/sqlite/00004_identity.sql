-- +goose Up

-- A card is found again on another node by what it is, however its UUID and its
-- serial number are spelt; empty: they tell no card from others.
ALTER TABLE gpus ADD COLUMN card TEXT NOT NULL DEFAULT '';
ALTER TABLE gpus ADD COLUMN board TEXT NOT NULL DEFAULT '';
ALTER TABLE gpus ADD COLUMN mig TEXT NOT NULL DEFAULT '';
ALTER TABLE gpus ADD COLUMN vgpu TEXT NOT NULL DEFAULT '';
-- When an inventory did not have it any more; null: the last one has it.
ALTER TABLE gpus ADD COLUMN gone_at INTEGER;
UPDATE gpus SET card = lower(replace(replace(replace(uuid, 'GPU-', ''), 'gpu-', ''), '-', ''));
UPDATE gpus SET card = '' WHERE length(card) NOT IN (16, 32);
UPDATE gpus SET board = lower(trim(serial)) WHERE length(trim(serial)) >= 8;
UPDATE gpus SET gone_at = last_seen WHERE EXISTS (SELECT 1 FROM gpus o WHERE o.node = gpus.node AND o.last_seen > gpus.last_seen);
CREATE INDEX gpus_card ON gpus (card, first_seen) WHERE card <> '';
CREATE INDEX gpus_board ON gpus (board, first_seen) WHERE board <> '';

-- The inventory that was looked at last for who the node is.
ALTER TABLE nodes ADD COLUMN examined_sha256 TEXT NOT NULL DEFAULT '';
CREATE INDEX nodes_unexamined ON nodes (id) WHERE examined_sha256 <> inventory_sha256;

-- The nonces of runs: one that comes again is an old run.
CREATE TABLE run_nonces (
    nonce TEXT PRIMARY KEY,
    node TEXT NOT NULL REFERENCES nodes (id),
    report TEXT NOT NULL,
    run_sha256 TEXT NOT NULL,
    at INTEGER NOT NULL
);
CREATE INDEX run_nonces_at ON run_nonces (at);

-- What a node was asked for, to find an answer to something older.
CREATE INDEX commands_node ON commands (node, id);
