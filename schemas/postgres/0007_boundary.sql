-- migrate:up
-- By which boundary S9 gives its verdicts: one that may be looked at for ever, or one for fifteen planned looks at a version.

ALTER TABLE yume.series
  ADD COLUMN boundary  text NOT NULL DEFAULT 'always_valid' CHECK (boundary IN ('always_valid', 'pocock'));
