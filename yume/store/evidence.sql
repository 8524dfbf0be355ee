-- name: announced_tasks
-- $1 dream
SELECT task_id FROM yume.runs WHERE dream_id = $1 ORDER BY task_id;

-- name: taken_tasks
-- $1 series, $2 dream, $3 tasks: those that another dream has; one that ended without pulling them has none
SELECT runs.task_id
  FROM yume.runs
  JOIN yume.dream_runs ON dream_runs.id = runs.dream_id
 WHERE runs.series_id = $1
   AND runs.task_id = ANY ($3::text[])
   AND runs.dream_id <> $2
   AND (runs.pulled_at IS NOT NULL OR dream_runs.status NOT IN ('collecting', 'finished', 'failed', 'cancelled'));

-- name: left_tasks
-- $1 series: tasks that a dream was to pull and did not
SELECT task_id
  FROM yume.runs
  JOIN yume.dream_runs ON dream_runs.id = runs.dream_id
 WHERE runs.series_id = $1 AND runs.pulled_at IS NULL
   AND dream_runs.status IN ('finished', 'failed', 'cancelled');

-- name: unsettled_tasks
-- $1 series, $2 dream, $3 finished since
SELECT task_id, finished_at
  FROM yume.runs
 WHERE series_id = $1 AND dream_id <> $2 AND pulled_at IS NOT NULL AND settled_at IS NULL AND finished_at >= $3
 ORDER BY finished_at, task_id;

-- name: save_pulled_runs
-- $1 series, $2 dream, $3 now, then one array a column; a run of an earlier dream stays that dream's, and a record that
-- cannot be read replaces none that could
INSERT INTO yume.runs AS known (
  series_id, dream_id, pulled_at, id, task_id, task_kind, template_version, agent_model, status, started_at, finished_at,
  attempts, inquiries, artifacts, raw_key, raw_sha256, raw_bytes, broken)
SELECT $1, $2, $3, new.id, new.task_id, new.task_kind, new.template_version, new.agent_model, new.status, new.started_at,
       new.finished_at, new.attempts::jsonb, new.inquiries::jsonb, new.artifacts::jsonb, new.raw_key, new.raw_sha256,
       new.raw_bytes, new.broken
  FROM unnest($4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::timestamptz[],
              $11::timestamptz[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::bigint[], $18::text[])
    AS new (id, task_id, task_kind, template_version, agent_model, status, started_at, finished_at, attempts, inquiries,
            artifacts, raw_key, raw_sha256, raw_bytes, broken)
ON CONFLICT (series_id, task_id) DO UPDATE
   SET dream_id = CASE WHEN known.pulled_at IS NULL THEN excluded.dream_id ELSE known.dream_id END,
       pulled_at = excluded.pulled_at,
       task_kind = excluded.task_kind,
       template_version = excluded.template_version,
       agent_model = excluded.agent_model,
       status = excluded.status,
       started_at = excluded.started_at,
       finished_at = coalesce(excluded.finished_at, known.finished_at),
       attempts = excluded.attempts,
       inquiries = excluded.inquiries,
       artifacts = excluded.artifacts,
       raw_key = excluded.raw_key,
       raw_sha256 = excluded.raw_sha256,
       raw_bytes = excluded.raw_bytes,
       broken = excluded.broken
 WHERE excluded.broken IS NULL OR known.pulled_at IS NULL OR known.broken IS NOT NULL;

-- name: runs_to_extract
-- $1 series, $2 dream, $3 the dream's start: its own runs, and older ones that it pulled again
SELECT id, task_id, raw_key, raw_sha256
  FROM yume.runs
 WHERE series_id = $1
   AND raw_key IS NOT NULL
   AND broken IS NULL
   AND (dream_id = $2 OR (settled_at IS NULL AND pulled_at >= $3))
 ORDER BY task_id;

-- name: save_outcomes
-- $1 now, then one array a column
UPDATE yume.runs
   SET outcome = new.outcome,
       verdict = new.verdict,
       rescued = new.rescued,
       settled_at = CASE WHEN new.settled THEN coalesce(runs.settled_at, $1::timestamptz) END,
       memory_version = new.memory_version,
       memory_version_source = new.memory_version_source,
       followed = CASE WHEN new.followed IS NOT NULL
                       THEN ARRAY (SELECT jsonb_array_elements_text(new.followed::jsonb)::uuid) END,
       lesson_set_id = (
         SELECT injections.lesson_set_id FROM yume.injections
          WHERE injections.series_id = runs.series_id
            AND injections.status = 'written'
            AND injections.platform_version = new.memory_version
          ORDER BY injections.written_at DESC LIMIT 1)
  FROM unnest($2::uuid[], $3::text[], $4::text[], $5::boolean[], $6::boolean[], $7::text[], $8::text[], $9::text[])
    AS new (id, outcome, verdict, rescued, settled, memory_version, memory_version_source, followed)
 WHERE runs.id = new.id;

-- name: save_signals
-- $1 dream, $2 extractor, then one array a column
INSERT INTO yume.signals (
  dream_id, extractor, id, run_id, ordinal, kind, source_class, pointer, raw_sha256, excerpt, fingerprint)
SELECT $1, $2, new.id, new.run_id, new.ordinal, new.kind, new.source_class, new.pointer::jsonb, new.raw_sha256,
       new.excerpt, new.fingerprint
  FROM unnest($3::uuid[], $4::uuid[], $5::integer[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[])
    AS new (id, run_id, ordinal, kind, source_class, pointer, raw_sha256, excerpt, fingerprint)
ON CONFLICT (id) DO NOTHING;

-- name: signals_of
-- $1 dreams, $2 taxonomy: of a run that was extracted anew, what the newest extractor found
SELECT signals.id, signals.run_id, runs.task_id, signals.ordinal, signals.kind, signals.source_class, signals.pointer,
       signals.excerpt, signals.fingerprint, signals.labels -> $2 ->> 'code' AS code
  FROM yume.signals
  JOIN yume.runs ON runs.id = signals.run_id
 WHERE signals.dream_id = ANY ($1::uuid[])
   AND signals.extractor = (
         SELECT newest.extractor FROM yume.signals AS newest
          WHERE newest.run_id = signals.run_id AND newest.dream_id = ANY ($1::uuid[])
          ORDER BY newest.created_at DESC LIMIT 1)
 ORDER BY runs.task_id, signals.raw_sha256, signals.ordinal;

-- name: signals_by_id
-- $1 series, $2 signals
SELECT signals.id, signals.run_id, runs.task_id, signals.ordinal, signals.kind, signals.source_class, signals.pointer,
       signals.excerpt, signals.fingerprint, NULL AS code
  FROM yume.signals
  JOIN yume.runs ON runs.id = signals.run_id
 WHERE runs.series_id = $1 AND signals.id = ANY ($2::uuid[])
 ORDER BY runs.task_id, signals.raw_sha256, signals.ordinal;

-- name: save_labels
-- $1 dreams, $2 taxonomy, $3 fingerprints, $4 labels: a label that was given stays
UPDATE yume.signals
   SET labels = labels || jsonb_build_object($2::text, new.label::jsonb)
  FROM unnest($3::text[], $4::text[]) AS new (fingerprint, label)
 WHERE signals.dream_id = ANY ($1::uuid[])
   AND signals.fingerprint = new.fingerprint
   AND NOT signals.labels ? $2::text;

-- name: run_facts
-- $1 series, $2 finished before: what counts of the runs, summed up by all that tells them apart
SELECT runs.memory_version, runs.memory_version_source, runs.outcome, runs.settled_at IS NOT NULL AS settled, runs.lesson_set_id,
       runs.dream_id, runs.template_version, runs.agent_model, runs.task_kind, dream_runs.taxonomy_id,
       count(*) AS runs, min(runs.finished_at) AS first_at, max(runs.finished_at) AS last_at
  FROM yume.runs
  LEFT JOIN yume.dream_runs ON dream_runs.id = runs.dream_id
 WHERE runs.series_id = $1 AND runs.pulled_at IS NOT NULL AND runs.broken IS NULL AND runs.finished_at < $2
 GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
 ORDER BY first_at, runs.dream_id, runs.memory_version, runs.outcome;

-- name: experiment_facts
-- $1 series, $2 finished before, $3 the batches of an experiment, $4 how many runs at the start of each are washed out: as
-- run_facts, those apart from the others; what never started comes last
SELECT ranked.memory_version, ranked.memory_version_source, ranked.outcome, ranked.settled, ranked.lesson_set_id, ranked.dream_id,
       ranked.template_version, ranked.agent_model, ranked.task_kind, dream_runs.taxonomy_id, ranked.place <= $4 AS washed_out,
       count(*) AS runs, min(ranked.finished_at) AS first_at, max(ranked.finished_at) AS last_at
  FROM (SELECT runs.memory_version, runs.memory_version_source, runs.outcome, runs.settled_at IS NOT NULL AS settled,
               runs.lesson_set_id, runs.dream_id, runs.template_version, runs.agent_model, runs.task_kind, runs.finished_at,
               row_number() OVER (PARTITION BY runs.dream_id ORDER BY runs.started_at NULLS LAST, runs.id) AS place
          FROM yume.runs
         WHERE runs.series_id = $1 AND runs.pulled_at IS NOT NULL AND runs.broken IS NULL AND runs.finished_at < $2
           AND runs.dream_id = ANY ($3::uuid[])) AS ranked
  JOIN yume.dream_runs ON dream_runs.id = ranked.dream_id
 GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
 ORDER BY first_at, ranked.dream_id, ranked.memory_version, ranked.outcome;

-- name: trail_of
-- $1 lesson: down to the raw record that each piece of its evidence was taken from, not the run's newest one
SELECT signals.id, signals.run_id, runs.task_id, signals.ordinal, signals.kind, signals.source_class, signals.pointer,
       signals.excerpt, signals.fingerprint, NULL AS code, signals.raw_sha256 AS signal_raw_sha256,
       replace(runs.raw_key, runs.raw_sha256, signals.raw_sha256) AS raw_key, runs.outcome, series.platform_id, series.external_id
  FROM yume.lessons
  JOIN yume.signals ON signals.id = ANY (lessons.evidence)
  JOIN yume.runs ON runs.id = signals.run_id
  JOIN yume.series ON series.id = lessons.series_id
 WHERE lessons.id = $1
 ORDER BY array_position(lessons.evidence, signals.id);
