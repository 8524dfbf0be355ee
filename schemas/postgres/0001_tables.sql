-- migrate:up
-- The ten tables. What a row may hold stands in CHECK and UNIQUE; what may happen to it stands in 0002_rules.sql.

CREATE SCHEMA IF NOT EXISTS yume;

-- Access ---------------------------------------------------------------------------------------------------

CREATE TABLE yume.taxonomies (
  id          uuid PRIMARY KEY,
  name        text NOT NULL,
  version     integer NOT NULL CHECK (version > 0),
  classes     jsonb NOT NULL CHECK (jsonb_typeof(classes) = 'array'),
  created_at  timestamptz NOT NULL DEFAULT now(),
  UNIQUE (name, version)
);
COMMENT ON TABLE yume.taxonomies IS 'Failure classes, immutable and versioned.';

CREATE TABLE yume.platforms (
  id                 text PRIMARY KEY CHECK (id ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
  base_url           text NOT NULL,
  export_credential  bytea,
  slot_credential    bytea,
  callback_secret    bytea,
  capabilities       jsonb NOT NULL DEFAULT '{}',
  tokens             jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(tokens) = 'array'),
  created_at         timestamptz NOT NULL DEFAULT now(),
  disabled_at        timestamptz
);
COMMENT ON TABLE yume.platforms IS 'One row a platform; the three secrets are encrypted, each held by another component.';

CREATE TABLE yume.series (
  id                        uuid PRIMARY KEY,
  platform_id               text NOT NULL REFERENCES yume.platforms,
  external_id               text NOT NULL CHECK (length(external_id) BETWEEN 1 AND 512),
  mode                      text NOT NULL DEFAULT 'report_only' CHECK (mode IN ('report_only', 'gated', 'auto')),
  mode_reason               text,
  batch_max_runs            integer NOT NULL DEFAULT 40 CHECK (batch_max_runs BETWEEN 1 AND 10000),
  batch_max_wait            interval NOT NULL DEFAULT '24 hours' CHECK (batch_max_wait >= '1 second'),
  schedule                  jsonb,
  projection_budget_tokens  integer NOT NULL DEFAULT 1500 CHECK (projection_budget_tokens BETWEEN 50 AND 100000),
  model_budget              jsonb NOT NULL DEFAULT '{}',
  instructions              text NOT NULL DEFAULT '' CHECK (length(instructions) <= 4096),
  language                  text NOT NULL DEFAULT 'en' CHECK (language IN ('en', 'zh')),
  taxonomy_id               uuid NOT NULL REFERENCES yume.taxonomies,
  experiment                jsonb,
  promotions                jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(promotions) = 'array'),
  four_eyes                 boolean NOT NULL DEFAULT false,
  notify                    jsonb,
  breaker                   jsonb NOT NULL DEFAULT '{"state": "closed"}',
  paused_at                 timestamptz,
  created_at                timestamptz NOT NULL DEFAULT now(),
  UNIQUE (platform_id, external_id)
);
COMMENT ON TABLE yume.series IS 'One row a task series: its policy, and who changed its mode.';

-- Evidence -------------------------------------------------------------------------------------------------

CREATE TABLE yume.dream_runs (
  id                   uuid PRIMARY KEY,
  series_id            uuid NOT NULL REFERENCES yume.series,
  number               integer NOT NULL CHECK (number > 0),
  trigger              text NOT NULL CHECK (trigger IN ('callback', 'schedule', 'manual', 'release', 'replay')),
  replay_of            uuid REFERENCES yume.dream_runs,
  status               text NOT NULL DEFAULT 'collecting' CHECK (status IN
                         ('collecting', 'queued', 'running', 'parked', 'finished', 'failed', 'cancelled')),
  result               text CHECK (result IN
                         ('published', 'no_change', 'report_only', 'held', 'no_signal', 'replayed', 'cancelled')),
  reason               text,
  step                 text CHECK (step ~ '^s[1-9]_[a-z]+$'),
  attempt              integer NOT NULL DEFAULT 1 CHECK (attempt > 0),
  announced            text,
  announced_at         timestamptz,
  base_lesson_set_id   uuid,
  base_body_sha256     text,
  taxonomy_id          uuid REFERENCES yume.taxonomies,
  span                 tstzrange,
  batch_id             text,
  proposals            jsonb NOT NULL DEFAULT '[]',
  operations           jsonb NOT NULL DEFAULT '[]',
  gate                 jsonb,
  report_key           text,
  counters             jsonb NOT NULL DEFAULT '{}',
  usage                jsonb NOT NULL DEFAULT '{}',
  breaker              jsonb NOT NULL DEFAULT '{}',
  broken               jsonb NOT NULL DEFAULT '[]',
  error                text,
  not_before           timestamptz,
  deadline             timestamptz,
  heartbeat_at         timestamptz,
  created_at           timestamptz NOT NULL DEFAULT now(),
  closed_at            timestamptz,
  started_at           timestamptz,
  finished_at          timestamptz,
  UNIQUE (series_id, number),
  CHECK ((status IN ('finished', 'failed', 'cancelled')) = (finished_at IS NOT NULL))
);
CREATE UNIQUE INDEX dream_runs_one_collecting ON yume.dream_runs (series_id) WHERE status = 'collecting';
CREATE UNIQUE INDEX dream_runs_one_running ON yume.dream_runs (series_id) WHERE status = 'running';
CREATE INDEX dream_runs_open ON yume.dream_runs (status, created_at)
  WHERE status IN ('collecting', 'queued', 'running', 'parked');
COMMENT ON TABLE yume.dream_runs IS 'One row a dream; announced makes the row its own outbox.';

CREATE TABLE yume.runs (
  id                     uuid PRIMARY KEY,
  series_id              uuid NOT NULL REFERENCES yume.series,
  dream_id               uuid REFERENCES yume.dream_runs,
  task_id                text NOT NULL CHECK (length(task_id) BETWEEN 1 AND 512),
  task_kind              text,
  template_version       text,
  agent_model            text,
  status                 text,
  outcome                text CHECK (outcome IN ('success', 'failure', 'infrastructure', 'cancelled', 'unknown')),
  rescued                boolean NOT NULL DEFAULT false,
  settled_at             timestamptz,
  verdict                text CHECK (verdict IN ('pass', 'fail')),
  attempts               jsonb NOT NULL DEFAULT '[]',
  inquiries              jsonb NOT NULL DEFAULT '[]',
  artifacts              jsonb NOT NULL DEFAULT '[]',
  memory_version         text,
  memory_version_source  text CHECK (memory_version_source IN ('reported', 'inferred', 'unknown', 'mixed')),
  lesson_set_id          uuid,
  raw_key                text,
  raw_sha256             text CHECK (raw_sha256 ~ '^[0-9a-f]{64}$'),
  raw_bytes              bigint CHECK (raw_bytes >= 0),
  broken                 text,
  announced_at           timestamptz,
  pulled_at              timestamptz,
  started_at             timestamptz,
  finished_at            timestamptz,
  UNIQUE (series_id, task_id),
  CHECK ((raw_key IS NULL) = (raw_sha256 IS NULL))
);
CREATE INDEX runs_of_dream ON yume.runs (dream_id);
CREATE INDEX runs_unsettled ON yume.runs (series_id, finished_at) WHERE settled_at IS NULL;
COMMENT ON TABLE yume.runs IS 'One row a task, made when it is announced: that is also the dedup of callbacks.';

CREATE TABLE yume.signals (
  id            uuid PRIMARY KEY,
  run_id        uuid NOT NULL REFERENCES yume.runs,
  dream_id      uuid NOT NULL REFERENCES yume.dream_runs,
  ordinal       integer NOT NULL CHECK (ordinal >= 0),
  extractor     text NOT NULL,
  kind          text NOT NULL,
  source_class  text NOT NULL CHECK (source_class IN
                  ('exit_code', 'verifier', 'platform_reason', 'human_answer', 'agent_text', 'external_text')),
  pointer       jsonb NOT NULL,
  raw_sha256    text NOT NULL CHECK (raw_sha256 ~ '^[0-9a-f]{64}$'),
  excerpt       text NOT NULL CHECK (length(excerpt) <= 4000),
  fingerprint   text NOT NULL,
  labels        jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object'),
  created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX signals_of_run ON yume.signals (run_id, ordinal);
CREATE INDEX signals_of_dream ON yume.signals (dream_id, fingerprint);
COMMENT ON TABLE yume.signals IS 'One row a piece of evidence: an exact place in one raw record.';

-- Lessons --------------------------------------------------------------------------------------------------

CREATE TABLE yume.lessons (
  id           uuid PRIMARY KEY,
  series_id    uuid NOT NULL REFERENCES yume.series,
  lineage_id   uuid NOT NULL,
  revision     integer NOT NULL CHECK (revision > 0),
  symptom      text NOT NULL,
  root_cause   text NOT NULL,
  rule         text CHECK (length(rule) BETWEEN 1 AND 300),
  category     text NOT NULL,
  scope        text NOT NULL,
  advice       text NOT NULL DEFAULT 'remedy' CHECK (advice IN ('remedy', 'answer', 'warning')),
  confidence   double precision NOT NULL CHECK (confidence BETWEEN 0 AND 1),
  target       jsonb NOT NULL DEFAULT '{}',
  evidence     uuid[] NOT NULL,
  quotes       jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(quotes) = 'array'),
  proposal_id  text,
  origin       text NOT NULL CHECK (origin IN ('owner', 'dream', 'agent_proposal')),
  trust        text CHECK (trust IN
                 ('exit_code', 'verifier', 'platform_reason', 'human_answer', 'agent_text', 'external_text')),
  state        text NOT NULL CHECK (state IN ('draft', 'approved', 'superseded', 'retired', 'archived')),
  history      jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(history) = 'array'),
  supersedes   uuid[] NOT NULL DEFAULT '{}',
  dream_id     uuid REFERENCES yume.dream_runs,
  written_by   text NOT NULL,
  created_at   timestamptz NOT NULL DEFAULT now(),
  UNIQUE (lineage_id, revision),
  CHECK (origin = 'owner' OR trust IS NOT NULL)
);
CREATE INDEX lessons_of_series ON yume.lessons (series_id, state);
COMMENT ON TABLE yume.lessons IS 'One row a lesson revision: its content never changes, its state moves by the rules of 0002.';

CREATE TABLE yume.lesson_sets (
  id             uuid PRIMARY KEY,
  series_id      uuid NOT NULL REFERENCES yume.series,
  version        integer NOT NULL CHECK (version > 0),
  parent_id      uuid REFERENCES yume.lesson_sets,
  lesson_ids     uuid[] NOT NULL,
  left_out       jsonb NOT NULL DEFAULT '[]',
  body           text NOT NULL,
  body_sha256    text NOT NULL CHECK (body_sha256 ~ '^[0-9a-f]{64}$'),
  text           text NOT NULL,
  text_sha256    text NOT NULL CHECK (text_sha256 ~ '^[0-9a-f]{64}$'),
  tokens         integer NOT NULL CHECK (tokens >= 0),
  token_counter  text NOT NULL,
  gate           jsonb,
  dream_id       uuid REFERENCES yume.dream_runs,
  created_at     timestamptz NOT NULL DEFAULT now(),
  UNIQUE (series_id, version)
);
ALTER TABLE yume.dream_runs ADD FOREIGN KEY (base_lesson_set_id) REFERENCES yume.lesson_sets;
ALTER TABLE yume.runs ADD FOREIGN KEY (lesson_set_id) REFERENCES yume.lesson_sets;
COMMENT ON TABLE yume.lesson_sets IS 'One row a compiled snapshot of approved lessons; it never changes.';

-- Effect ---------------------------------------------------------------------------------------------------

CREATE TABLE yume.injections (
  id                uuid PRIMARY KEY,
  series_id         uuid NOT NULL REFERENCES yume.series,
  lesson_set_id     uuid REFERENCES yume.lesson_sets,
  kind              text NOT NULL CHECK (kind IN ('write', 'rollback', 'kill', 'experiment', 'adopted')),
  status            text NOT NULL DEFAULT 'pending' CHECK (status IN
                      ('pending', 'written', 'conflict', 'failed', 'withheld')),
  expected_version  text,
  platform_version  text,
  "by"              text NOT NULL,
  why               text,
  requested_at      timestamptz NOT NULL,
  written_at        timestamptz,
  replaced_at       timestamptz,
  announced         boolean NOT NULL DEFAULT false,
  dream_id          uuid REFERENCES yume.dream_runs,
  error             text,
  CHECK ((status = 'written') = (written_at IS NOT NULL)),
  CHECK (status <> 'written' OR platform_version IS NOT NULL)
);
CREATE INDEX injections_of_series ON yume.injections (series_id, requested_at);
CREATE UNIQUE INDEX injections_one_a_dream ON yume.injections (dream_id) WHERE kind = 'write';
CREATE UNIQUE INDEX injections_one_a_version ON yume.injections (series_id, platform_version) WHERE status = 'written';
COMMENT ON TABLE yume.injections IS 'One row a slot write, asked for or done: which set, which version the platform answered, when.';

CREATE TABLE yume.measurements (
  id                          uuid PRIMARY KEY,
  series_id                   uuid NOT NULL REFERENCES yume.series,
  dream_id                    uuid NOT NULL REFERENCES yume.dream_runs,
  lesson_set_id               uuid REFERENCES yume.lesson_sets,
  baseline_set_id             uuid REFERENCES yume.lesson_sets,
  scope                       text NOT NULL CHECK (scope IN ('version', 'lesson')),
  lesson_id                   uuid REFERENCES yume.lessons,
  span                        tstzrange NOT NULL,
  runs                        integer NOT NULL CHECK (runs >= 0),
  failures                    integer NOT NULL CHECK (failures BETWEEN 0 AND runs),
  infrastructure              integer NOT NULL CHECK (infrastructure >= 0),
  excluded                    jsonb NOT NULL DEFAULT '{}',
  rate                        double precision,
  low                         double precision NOT NULL,
  high                        double precision NOT NULL,
  effect                      double precision,
  effect_low                  double precision,
  effect_high                 double precision,
  evidence_against_no_effect  double precision,
  verdict                     text NOT NULL CHECK (verdict IN ('improved', 'regressed', 'no_evidence', 'not_comparable')),
  why                         text NOT NULL,
  method                      text NOT NULL,
  details                     jsonb NOT NULL DEFAULT '{}',
  created_at                  timestamptz NOT NULL DEFAULT now(),
  CHECK (0 <= low AND low <= high AND high <= 1),
  CHECK ((scope = 'lesson') = (lesson_id IS NOT NULL))
);
CREATE INDEX measurements_of_series ON yume.measurements (series_id, created_at);
CREATE INDEX measurements_of_dream ON yume.measurements (dream_id);
COMMENT ON TABLE yume.measurements IS 'One row a look at one version or lesson: failures of runs, with an interval and a verdict.';
