-- name: save_measurements
-- $1 series, $2 dream, $3 now, then one array a column
INSERT INTO yume.measurements (
  series_id, dream_id, created_at, scope, id, lesson_set_id, span, runs, failures, infrastructure, excluded, rate, low, high,
  verdict, why, method, details, baseline_set_id, effect, effect_low, effect_high, evidence_against_no_effect)
SELECT $1, $2, $3, 'version', new.id, new.lesson_set_id, tstzrange(new.first, new.last, '[]'), new.runs, new.failures,
       new.infrastructure, new.excluded::jsonb, new.rate, new.low, new.high, new.verdict, new.why, new.method,
       new.details::jsonb, new.baseline_set_id, new.effect, new.effect_low, new.effect_high, new.evidence
  FROM unnest($4::uuid[], $5::uuid[], $6::timestamptz[], $7::timestamptz[], $8::integer[], $9::integer[], $10::integer[],
              $11::text[], $12::float8[], $13::float8[], $14::float8[], $15::text[], $16::text[], $17::text[], $18::text[],
              $19::uuid[], $20::float8[], $21::float8[], $22::float8[], $23::float8[])
    AS new (id, lesson_set_id, first, last, runs, failures, infrastructure, excluded, rate, low, high, verdict, why, method,
            details, baseline_set_id, effect, effect_low, effect_high, evidence)
ON CONFLICT (id) DO NOTHING;

-- name: decided
-- $1 series: the first verdict on each version, which stays in the book whatever later looks show
SELECT DISTINCT ON (details ->> 'memory_version') details ->> 'memory_version' AS version, verdict, created_at,
       (details ->> 'look')::integer AS look
  FROM yume.measurements
 WHERE series_id = $1 AND scope = 'version' AND details ->> 'window' = 'cumulative' AND verdict IN ('improved', 'regressed')
 ORDER BY details ->> 'memory_version', created_at, id;

-- name: looks_before
-- $1 series: how often each version was looked at so far
SELECT details ->> 'memory_version' AS version, count(*) AS looks
  FROM yume.measurements
 WHERE series_id = $1 AND scope = 'version' AND details ->> 'window' = 'cumulative' AND details ? 'look'
 GROUP BY 1;

-- name: looks_of
-- $1 series, newest first: every look at a version, for display
SELECT measurements.id, lesson_sets.version, dream_runs.number AS dream, lower(measurements.span) AS since,
       upper(measurements.span) AS until, measurements.runs, measurements.failures, measurements.infrastructure,
       measurements.excluded, measurements.rate, measurements.low, measurements.high, measurements.effect,
       measurements.effect_low, measurements.effect_high, measurements.evidence_against_no_effect, measurements.verdict,
       measurements.why, measurements.method, measurements.details, measurements.created_at
  FROM yume.measurements
  JOIN yume.dream_runs ON dream_runs.id = measurements.dream_id
  LEFT JOIN yume.lesson_sets ON lesson_sets.id = measurements.lesson_set_id
 WHERE measurements.series_id = $1 AND measurements.scope = 'version' AND measurements.details ->> 'window' <> 'batch'
 ORDER BY dream_runs.number DESC, lesson_sets.version DESC NULLS LAST;

-- name: measurements_of
-- $1 dream
SELECT measurements.id, measurements.scope, measurements.lesson_id, measurements.lesson_set_id, lesson_sets.version, lower(measurements.span) AS since,
       upper(measurements.span) AS until, runs, failures, infrastructure, excluded, rate, low, high, effect, effect_low,
       effect_high, evidence_against_no_effect, verdict, why, method, details
  FROM yume.measurements
  LEFT JOIN yume.lesson_sets ON lesson_sets.id = measurements.lesson_set_id
 WHERE measurements.dream_id = $1
 ORDER BY scope DESC, details ->> 'window', lesson_sets.version NULLS FIRST, details ->> 'memory_version', lesson_id;

-- name: save_experiment_look
-- $1 id, $2 series, $3 dream, $4 now, $5 the new set, $6 the reference set, $7 since, $8 runs, $9 failures, $10 rate, $11 low,
-- $12 high, $13 effect, $14 its low end, $15 its high end, $16 verdict, $17 why, $18 method, $19 details
INSERT INTO yume.measurements (
  id, series_id, dream_id, created_at, scope, lesson_set_id, baseline_set_id, span, runs, failures, infrastructure, rate, low,
  high, effect, effect_low, effect_high, verdict, why, method, details)
VALUES ($1, $2, $3, $4, 'version', $5, $6, tstzrange($7, $4, '[]'), $8, $9, 0, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
ON CONFLICT (id) DO NOTHING;
