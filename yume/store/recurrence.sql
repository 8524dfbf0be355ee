-- name: watched_lessons
-- $1 series: the lessons of dreams that ever stood in the slot: since when, under which versions, from which batch they are, and
-- the kinds of the tasks of that batch that they cite
SELECT lessons.id, lessons.state, lessons.rule, min(injections.written_at) AS injected_at,
       array_agg(DISTINCT injections.platform_version) AS versions,
       coalesce(dream_runs.replay_of, lessons.dream_id) AS drafted_from,
       ARRAY (SELECT DISTINCT runs.task_kind FROM yume.signals JOIN yume.runs ON runs.id = signals.run_id
               WHERE signals.id = ANY (lessons.evidence) AND runs.dream_id = coalesce(dream_runs.replay_of, lessons.dream_id)) AS kinds,
       (SELECT move FROM jsonb_array_elements(lessons.history) WITH ORDINALITY AS moves (move, place)
         WHERE move ->> 'to' = 'retired' ORDER BY place DESC LIMIT 1) AS retired
  FROM yume.injections
  JOIN yume.lesson_sets ON lesson_sets.id = injections.lesson_set_id
  JOIN yume.lessons ON lessons.id = ANY (lesson_sets.lesson_ids)
  LEFT JOIN yume.dream_runs ON dream_runs.id = lessons.dream_id
 WHERE injections.series_id = $1 AND injections.status = 'written' AND lessons.origin <> 'owner'
 GROUP BY lessons.id, dream_runs.replay_of
 ORDER BY lessons.id;

-- name: lesson_hits
-- $1 series, $2 lessons, $3 finished before: settled runs that showed the failure a lesson was drafted from, summed up
SELECT lessons.id AS lesson, runs.dream_id AS batch, runs.memory_version AS version, runs.template_version, runs.agent_model,
       runs.task_kind, count(DISTINCT runs.id) AS runs, count(DISTINCT runs.id) FILTER (WHERE runs.outcome = 'failure') AS failed
  FROM yume.lessons
  JOIN yume.signals ON lessons.target -> 'fingerprints' ? signals.fingerprint
  JOIN yume.runs ON runs.id = signals.run_id
 WHERE lessons.id = ANY ($2::uuid[]) AND runs.series_id = $1 AND runs.finished_at < $3 AND runs.dream_id IS NOT NULL
   AND runs.memory_version IS NOT NULL AND runs.memory_version_source IN ('reported', 'inferred')
   AND runs.settled_at IS NOT NULL AND runs.outcome IN ('success', 'failure') AND runs.broken IS NULL
 GROUP BY lessons.id, runs.dream_id, runs.memory_version, runs.template_version, runs.agent_model, runs.task_kind
 ORDER BY lessons.id, runs.dream_id, runs.memory_version;

-- name: lesson_chains
-- $1 series, $2 lessons, $3 finished before: of the settled runs that started while a version with the lesson stood in the slot, how
-- many said that they read it, how many of those show their commands, and how many of those follow it; of each, how many failed
WITH stood AS (
  SELECT lesson_set_id, written_at, lead(written_at) OVER (ORDER BY written_at) AS until
    FROM yume.injections
   WHERE series_id = $1 AND status = 'written'
), held AS (
  SELECT lesson, stood.written_at, stood.until
    FROM stood
    JOIN yume.lesson_sets ON lesson_sets.id = stood.lesson_set_id
   CROSS JOIN LATERAL unnest(lesson_sets.lesson_ids) AS lesson
   WHERE lesson = ANY ($2::uuid[])
), carriers AS (
  SELECT DISTINCT lesson, injections.platform_version AS version
    FROM yume.injections
    JOIN yume.lesson_sets ON lesson_sets.id = injections.lesson_set_id
   CROSS JOIN LATERAL unnest(lesson_sets.lesson_ids) AS lesson
   WHERE injections.series_id = $1 AND injections.status = 'written'
), eligible AS (
  SELECT held.lesson, runs.outcome = 'failure' AS failed, runs.followed,
         carriers.version IS NOT NULL AND runs.memory_version_source = 'reported' AS injected
    FROM held
    JOIN yume.runs ON runs.series_id = $1 AND coalesce(runs.started_at, runs.finished_at) >= held.written_at
     AND (held.until IS NULL OR coalesce(runs.started_at, runs.finished_at) < held.until)
    LEFT JOIN carriers ON carriers.lesson = held.lesson AND carriers.version = runs.memory_version
   WHERE runs.finished_at < $3 AND runs.settled_at IS NOT NULL AND runs.outcome IN ('success', 'failure') AND runs.broken IS NULL
)
SELECT lesson, count(*) AS eligible, count(*) FILTER (WHERE failed) AS eligible_failed,
       count(*) FILTER (WHERE injected) AS injected, count(*) FILTER (WHERE injected AND failed) AS injected_failed,
       count(followed) FILTER (WHERE injected) AS shown, count(followed) FILTER (WHERE injected AND failed) AS shown_failed,
       count(*) FILTER (WHERE injected AND lesson = ANY (followed)) AS followed,
       count(*) FILTER (WHERE injected AND failed AND lesson = ANY (followed)) AS followed_failed
  FROM eligible
 GROUP BY lesson
 ORDER BY lesson;

-- name: checkpoints_reached
-- $1 series: the last checkpoint at which each lesson was judged
SELECT lesson_id, max((details ->> 'checkpoint')::integer) AS checkpoint
  FROM yume.measurements
 WHERE series_id = $1 AND scope = 'lesson' AND details ->> 'checkpoint' IS NOT NULL
 GROUP BY lesson_id;

-- name: save_lesson_looks
-- $1 series, $2 dream, $3 now, $4 since when the series' runs are counted, $5 method, then one array a column
INSERT INTO yume.measurements (
  series_id, dream_id, created_at, span, method, scope, id, lesson_id, runs, failures, infrastructure, rate, low, high, verdict,
  why, details)
SELECT $1, $2, $3, tstzrange($4, $3, '[]'), $5, 'lesson', new.id, new.lesson_id, new.runs, new.failures, 0, new.rate, new.low,
       new.high, new.verdict, new.why, new.details::jsonb
  FROM unnest($6::uuid[], $7::uuid[], $8::integer[], $9::integer[], $10::float8[], $11::float8[], $12::float8[], $13::text[],
              $14::text[], $15::text[])
    AS new (id, lesson_id, runs, failures, rate, low, high, verdict, why, details)
ON CONFLICT (id) DO NOTHING;

-- name: lesson_looks
-- $1 series: the newest look at each lesson, for display
SELECT DISTINCT ON (measurements.lesson_id) measurements.lesson_id, lessons.rule, lessons.state, dream_runs.number AS dream,
       measurements.runs, measurements.failures AS hits, measurements.rate, measurements.low, measurements.high,
       measurements.verdict, measurements.why, measurements.details
  FROM yume.measurements
  JOIN yume.lessons ON lessons.id = measurements.lesson_id
  JOIN yume.dream_runs ON dream_runs.id = measurements.dream_id
 WHERE measurements.series_id = $1 AND measurements.scope = 'lesson'
 ORDER BY measurements.lesson_id, dream_runs.number DESC;
