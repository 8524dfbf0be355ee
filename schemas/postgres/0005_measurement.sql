-- migrate:up
-- What S9 goes by: whether it may go back by itself. An experiment's arms, coins and batches lie in series.experiment.

ALTER TABLE yume.series
  ADD COLUMN auto_rollback  boolean NOT NULL DEFAULT false; -- the owner lets the rollback alarm act
CREATE INDEX measurements_of_version ON yume.measurements (series_id, (details ->> 'memory_version'));
CREATE INDEX runs_by_version ON yume.runs (series_id, memory_version);

-- An experiment goes back and forth, so a platform that points back names the same version again.
DROP INDEX yume.injections_one_a_version;
CREATE UNIQUE INDEX injections_one_a_version ON yume.injections (series_id, platform_version)
  WHERE status = 'written' AND kind NOT IN ('rollback', 'kill', 'experiment');
