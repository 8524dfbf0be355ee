-- migrate:up
-- What S9 goes by: whether it may go back by itself, and an experiment's plan with its coins.

ALTER TABLE yume.series
  ADD COLUMN auto_rollback  boolean NOT NULL DEFAULT false; -- the owner lets the rollback alarm act
CREATE INDEX measurements_of_version ON yume.measurements (series_id, (details ->> 'memory_version'));
CREATE INDEX runs_by_version ON yume.runs (series_id, memory_version);
