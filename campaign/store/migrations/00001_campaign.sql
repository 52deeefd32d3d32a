-- +goose Up

-- The same text for SQLite and PostgreSQL. Times are microseconds since 1970, UTC;
-- amounts are billionths of a US dollar; 0 and 1 are no and yes.

-- Which labels are ours. The first row's id was made with the database; the others
-- are of databases that were lost and whose machines this one took over. place says
-- where the database lay when it was made or adopted: a copy lies elsewhere.
CREATE TABLE campaign_installations (
    id TEXT PRIMARY KEY,
    own BIGINT NOT NULL,
    place TEXT NOT NULL,
    adopted_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX campaign_installations_own ON campaign_installations (own) WHERE own = 1;

CREATE TABLE campaigns (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    matrix TEXT NOT NULL,
    settings TEXT NOT NULL,
    status TEXT NOT NULL,
    cell_cap BIGINT NOT NULL,
    campaign_cap BIGINT NOT NULL,
    day_cap BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    ended_at BIGINT
);

CREATE TABLE cells (
    id TEXT PRIMARY KEY,
    campaign TEXT NOT NULL REFERENCES campaigns (id),
    number BIGINT NOT NULL,
    gpu TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    engine TEXT NOT NULL,
    spec TEXT NOT NULL,
    status TEXT NOT NULL,
    stage TEXT NOT NULL,
    cause TEXT NOT NULL,
    message TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (campaign, number)
);

-- What is reserved and spent, for a cell, a campaign and a UTC day (of the whole
-- installation). Caps are the campaign's.
CREATE TABLE budgets (
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    reserved BIGINT NOT NULL,
    spent BIGINT NOT NULL,
    PRIMARY KEY (scope, name)
);

-- An instance that was intended, from before its creation until its end is proved
-- and its money settled. Cell and campaign are empty for what was adopted.
CREATE TABLE intents (
    label TEXT PRIMARY KEY,
    campaign TEXT NOT NULL,
    cell TEXT NOT NULL,
    provider TEXT NOT NULL,
    offer TEXT NOT NULL,
    machine TEXT NOT NULL,
    location TEXT NOT NULL,
    state TEXT NOT NULL,
    why TEXT NOT NULL,
    declined BIGINT NOT NULL,
    day TEXT NOT NULL,
    hour BIGINT NOT NULL,
    extra BIGINT NOT NULL,
    reserved BIGINT NOT NULL,
    spent BIGINT NOT NULL,
    made_at BIGINT NOT NULL,
    called_at BIGINT,
    lease_at BIGINT NOT NULL,
    life BIGINT NOT NULL,
    longest_at BIGINT NOT NULL,
    ending_at BIGINT,
    absent_at BIGINT,
    ended_at BIGINT,
    proof TEXT NOT NULL
);
CREATE INDEX intents_cell ON intents (cell, made_at);
CREATE INDEX intents_campaign ON intents (campaign, made_at);
CREATE INDEX intents_open ON intents (provider, state) WHERE state <> 'ended';

-- Instances that were seen. A label has one, unless a provider made two.
CREATE TABLE instances (
    provider TEXT NOT NULL,
    id TEXT NOT NULL,
    label TEXT NOT NULL REFERENCES intents (label),
    host TEXT NOT NULL,
    port BIGINT NOT NULL,
    first_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL,
    destroyed_at BIGINT,
    refused_at BIGINT,
    refusal TEXT NOT NULL,
    gone_at BIGINT,
    ended_at BIGINT,
    proof TEXT NOT NULL,
    PRIMARY KEY (provider, id)
);
CREATE INDEX instances_label ON instances (label);

-- A provider: when each of its calls may next be made, by whichever process, and
-- what the last look at its list was worth.
CREATE TABLE providers (
    name TEXT PRIMARY KEY,
    any_next BIGINT NOT NULL,
    offers_next BIGINT NOT NULL,
    create_next BIGINT NOT NULL,
    list_next BIGINT NOT NULL,
    destroy_next BIGINT NOT NULL,
    get_next BIGINT NOT NULL,
    balance_next BIGINT NOT NULL,
    looked_at BIGINT NOT NULL,
    distrust TEXT NOT NULL
);

-- How often a location gave what it offered; old tries count less.
CREATE TABLE locations (
    provider TEXT NOT NULL,
    location TEXT NOT NULL,
    good DOUBLE PRECISION NOT NULL,
    bad DOUBLE PRECISION NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (provider, location)
);

-- Machines that are not rented again.
CREATE TABLE bad_machines (
    provider TEXT NOT NULL,
    machine TEXT NOT NULL,
    reason TEXT NOT NULL,
    marked_at BIGINT NOT NULL,
    PRIMARY KEY (provider, machine)
);

-- Results. What best, cheapest and compare ask for are columns; the rest is in the
-- summary.
CREATE TABLE benchmarks (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    gpu_type TEXT NOT NULL,
    gpu_count BIGINT NOT NULL,
    provider TEXT NOT NULL,
    location TEXT NOT NULL,
    model TEXT NOT NULL,
    engine TEXT NOT NULL,
    tokens_per_second DOUBLE PRECISION,
    price_per_hour BIGINT,
    directory TEXT NOT NULL,
    summary TEXT NOT NULL
);
CREATE INDEX benchmarks_model ON benchmarks (model, gpu_type);

-- Each attempt to measure. Names and values of its columns are fixed by the
-- document that asked for it.
CREATE TABLE benchmark_manifest (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    gpu_type TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    session_id TEXT,
    instance_ip TEXT,
    ssh_port BIGINT,
    status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'success', 'partial', 'failed', 'skipped')),
    started_at BIGINT,
    completed_at BIGINT,
    benchmark_id TEXT REFERENCES benchmarks (id),
    tokens_per_second DOUBLE PRECISION,
    total_requests BIGINT,
    error_count BIGINT,
    failure_reason TEXT,
    failure_stage TEXT CHECK (failure_stage IN ('provision', 'setup', 'load', 'benchmark', 'collect')),
    error_message TEXT,
    notes TEXT
);
CREATE INDEX benchmark_manifest_run ON benchmark_manifest (run_id, created_at);
