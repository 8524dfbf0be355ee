-- migrate:up
-- Rounds, releases, slot commands, replays: what the parts in between have to remember.

-- A batch that its platform names is open from its first task until one of its tasks says that it is finished.
ALTER TABLE yume.runs
  ADD COLUMN batch_id    text CHECK (length(batch_id) BETWEEN 1 AND 512),
  ADD COLUMN ends_batch  boolean NOT NULL DEFAULT false;
CREATE INDEX runs_of_batch ON yume.runs (series_id, batch_id) WHERE batch_id IS NOT NULL;

ALTER TABLE yume.dream_runs
  ADD COLUMN asked_by       text,                            -- a person's act: who, and why
  ADD COLUMN why            text,
  ADD COLUMN forced         boolean NOT NULL DEFAULT false,  -- a release that does not wait for the end of the dwell
  ADD COLUMN applies        boolean NOT NULL DEFAULT true,   -- false: a replay that shows and releases nothing
  ADD COLUMN standing_ids   uuid[],                          -- the lessons that S5 merged into
  ADD COLUMN draft_ids      uuid[],                          -- what S4 staged for S5
  ADD COLUMN compiled       jsonb,                           -- the text that S7 made, released or not
  ADD COLUMN lesson_set_id  uuid REFERENCES yume.lesson_sets, -- the set that S8 has to see in the slot; null: none
  ADD COLUMN fence          integer NOT NULL DEFAULT 0,      -- grows with every lease: an older holder saves nothing
  ADD COLUMN lease_holder   uuid,
  ADD COLUMN lease_until    timestamptz,
  ADD CHECK ((trigger = 'replay') = (replay_of IS NOT NULL)),
  ADD CHECK (applies OR trigger = 'replay'),
  ADD CHECK (NOT forced OR trigger = 'release');
CREATE INDEX dream_runs_replays ON yume.dream_runs (replay_of) WHERE replay_of IS NOT NULL;

-- The sha256 of the text that a command found in the slot, or expects there.
ALTER TABLE yume.injections
  ADD COLUMN text_sha256  text CHECK (text_sha256 ~ '^[0-9a-f]{64}$'),
  ADD COLUMN how          text CHECK (how IN ('posted', 'restored', 'current'));
CREATE INDEX injections_open ON yume.injections (series_id, requested_at) WHERE status = 'pending';
CREATE INDEX injections_untold ON yume.injections (series_id) WHERE kind <> 'write' AND NOT announced;

-- A platform that points back at an old version answers with that version's number; so does one that needs no change.
DROP INDEX yume.injections_one_a_version;
CREATE UNIQUE INDEX injections_one_a_version ON yume.injections (series_id, platform_version)
  WHERE status = 'written' AND kind NOT IN ('rollback', 'kill');
