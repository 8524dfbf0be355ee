-- name: in_slot
-- $1 series: what Yume last wrote there
SELECT id, lesson_set_id, kind, status, expected_version, platform_version, written_at
  FROM yume.injections
 WHERE series_id = $1 AND status = 'written'
 ORDER BY written_at DESC, id DESC
 LIMIT 1;

-- name: injection_of
-- $1 injection
SELECT id, lesson_set_id, kind, status, expected_version, platform_version, written_at FROM yume.injections WHERE id = $1;

-- name: request
-- $1 id, $2 series, $3 lesson set, $4 kind, $5 expected version, $6 by, $7 why, $8 now, $9 dream, $10 status
INSERT INTO yume.injections (
  id, series_id, lesson_set_id, kind, expected_version, "by", why, requested_at, dream_id, status)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (id) DO NOTHING;

-- name: expect
-- $1 injection, $2 expected version: a pending write that met another version than it expected
UPDATE yume.injections SET expected_version = $2 WHERE id = $1 AND status = 'pending';

-- name: settle
-- $1 injection, $2 status, $3 platform version, $4 written at, $5 error
UPDATE yume.injections
   SET status = $2, platform_version = $3, written_at = $4, error = $5
 WHERE id = $1 AND status = 'pending';

-- name: replace_older
-- $1 series, $2 the injection that is in the slot now, $3 when
UPDATE yume.injections
   SET replaced_at = $3
 WHERE series_id = $1 AND id <> $2 AND status = 'written' AND replaced_at IS NULL;

-- name: injection_of_dream
-- $1 dream
SELECT id, lesson_set_id, kind, status, expected_version, platform_version, written_at
  FROM yume.injections
 WHERE dream_id = $1 AND kind = 'write';

-- name: written_before
-- $1 series, $2 injection: what stood in the slot before it
SELECT before.id, before.lesson_set_id, before.kind, before.status, before.expected_version, before.platform_version,
       before.written_at
  FROM yume.injections AS before
  JOIN yume.injections AS this ON this.id = $2
 WHERE before.series_id = $1 AND before.status = 'written' AND before.written_at < this.written_at
 ORDER BY before.written_at DESC
 LIMIT 1;

-- name: save_measurements
-- $1 series, $2 dream, $3 now, then one array a column
INSERT INTO yume.measurements (
  series_id, dream_id, created_at, scope, id, lesson_set_id, span, runs, failures, infrastructure, excluded, rate, low, high,
  verdict, why, method, details)
SELECT $1, $2, $3, 'version', new.id, new.lesson_set_id, tstzrange(new.first, new.last, '[]'), new.runs, new.failures,
       new.infrastructure, new.excluded::jsonb, new.rate, new.low, new.high, new.verdict, new.why, new.method,
       new.details::jsonb
  FROM unnest($4::uuid[], $5::uuid[], $6::timestamptz[], $7::timestamptz[], $8::integer[], $9::integer[], $10::integer[],
              $11::text[], $12::float8[], $13::float8[], $14::float8[], $15::text[], $16::text[], $17::text[], $18::text[])
    AS new (id, lesson_set_id, first, last, runs, failures, infrastructure, excluded, rate, low, high, verdict, why, method,
            details)
ON CONFLICT (id) DO NOTHING;

-- name: measurements_of
-- $1 dream
SELECT measurements.id, measurements.lesson_set_id, lesson_sets.version, lower(measurements.span) AS since,
       upper(measurements.span) AS until, runs, failures, infrastructure, excluded, rate, low, high, verdict, why, method,
       details
  FROM yume.measurements
  LEFT JOIN yume.lesson_sets ON lesson_sets.id = measurements.lesson_set_id
 WHERE measurements.dream_id = $1
 ORDER BY details ->> 'window', lesson_sets.version NULLS FIRST, details ->> 'memory_version';

-- name: texts_by_version
-- $1 series: what the slot held under each version that Yume wrote
SELECT injections.platform_version, lesson_sets.text
  FROM yume.injections
  JOIN yume.lesson_sets ON lesson_sets.id = injections.lesson_set_id
 WHERE injections.series_id = $1 AND injections.status = 'written';
