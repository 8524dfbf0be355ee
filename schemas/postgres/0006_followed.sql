-- migrate:up
-- Which lessons a run was seen to follow: null where its record names no command of the agent's.

ALTER TABLE yume.runs
  ADD COLUMN followed  uuid[];
