-- name: lock_series
-- $1 series: whoever collects, closes or starts takes this first, so one series is changed by one at a time
SELECT pg_advisory_xact_lock(hashtextextended('yume.series.' || $1::uuid::text, 0));

-- name: collecting
-- $1 series
SELECT id FROM yume.dream_runs WHERE series_id = $1 AND status = 'collecting';

-- name: open_dream
-- $1 id, $2 series, $3 trigger, $4 now
INSERT INTO yume.dream_runs (id, series_id, number, trigger, created_at)
SELECT $1, $2, coalesce(max(number), 0) + 1, $3, $4
  FROM yume.dream_runs
 WHERE series_id = $2
RETURNING id;

-- name: close_batch
-- $1 dream, $2 closed at, $3 batch id, $4 everything that finished before this instant belongs to the batch;
-- whatever the clock says, a span begins where the one before ended, and is not empty
UPDATE yume.dream_runs
   SET status = 'queued',
       closed_at = $2,
       batch_id = coalesce($3, batch_id),
       span = tstzrange(
         (SELECT upper(before.span) FROM yume.dream_runs AS before
           WHERE before.series_id = dream_runs.series_id AND before.number < dream_runs.number AND before.span IS NOT NULL
           ORDER BY before.number DESC LIMIT 1),
         greatest($4::timestamptz,
           (SELECT max(finished_at) + interval '1 microsecond' FROM yume.runs WHERE runs.dream_id = dream_runs.id),
           (SELECT upper(before.span) + interval '1 microsecond' FROM yume.dream_runs AS before
             WHERE before.series_id = dream_runs.series_id AND before.number < dream_runs.number AND before.span IS NOT NULL
             ORDER BY before.number DESC LIMIT 1)),
         '[)')
 WHERE id = $1 AND status = 'collecting';

-- name: start_next
-- $1 series, $2 now, $3 deadline
UPDATE yume.dream_runs
   SET status = 'running',
       started_at = $2,
       heartbeat_at = $2,
       deadline = $3,
       taxonomy_id = series.taxonomy_id,
       base_lesson_set_id = base.id,
       base_body_sha256 = base.body_sha256
  FROM yume.series
  LEFT JOIN LATERAL (
         SELECT id, body_sha256 FROM yume.lesson_sets
          WHERE lesson_sets.series_id = series.id ORDER BY version DESC LIMIT 1) AS base ON true
 WHERE series.id = $1
   AND series.paused_at IS NULL
   AND dream_runs.id = (
         SELECT id FROM yume.dream_runs WHERE series_id = $1 AND status = 'queued' ORDER BY number LIMIT 1)
   AND NOT EXISTS (SELECT FROM yume.dream_runs AS other WHERE other.series_id = $1 AND other.status = 'running')
RETURNING dream_runs.id;

-- name: waiting_series
-- series with a queued dream and none running
SELECT DISTINCT series_id
  FROM yume.dream_runs AS queued
 WHERE status = 'queued'
   AND NOT EXISTS (SELECT FROM yume.dream_runs AS running
                    WHERE running.series_id = queued.series_id AND running.status = 'running');

-- name: overdue_batches
-- $1 now
SELECT dream_runs.id, dream_runs.series_id
  FROM yume.dream_runs
  JOIN yume.series ON series.id = dream_runs.series_id
 WHERE dream_runs.status = 'collecting'
   AND dream_runs.created_at + series.batch_max_wait <= $1
   AND EXISTS (SELECT FROM yume.runs WHERE runs.dream_id = dream_runs.id);

-- name: unannounced
-- $1 now, $2 quiet since: dreams whose next event was never stored, or is due again; a worker that has just done a step
-- is about to tell so
SELECT dream_runs.id, platform_id, external_id, step, attempt
  FROM yume.dream_runs
  JOIN yume.series ON series.id = dream_runs.series_id
 WHERE dream_runs.status = 'running'
   AND announced IS DISTINCT FROM coalesce(step, 's0_requested')
   AND (not_before IS NULL OR not_before <= $1)
   AND (step IS NULL OR announced IS NULL OR heartbeat_at < $2)
 ORDER BY dream_runs.created_at;

-- name: untold_endings
-- $1 before: dreams that ended a while ago and whose last event was never stored
SELECT dream_runs.id, platform_id, external_id, step, attempt
  FROM yume.dream_runs
  JOIN yume.series ON series.id = dream_runs.series_id
 WHERE dream_runs.status IN ('finished', 'failed')
   AND announced IS DISTINCT FROM 's9_measure'
   AND dream_runs.finished_at < $1;

-- name: revive_stalled
-- $1 silent since, $2 now: whoever had the step is gone, and so may be its message
UPDATE yume.dream_runs
   SET announced = NULL, attempt = attempt + 1, heartbeat_at = $2
 WHERE status = 'running' AND heartbeat_at < $1 AND (not_before IS NULL OR not_before < $1)
   AND announced IS NOT NULL
RETURNING id;

-- name: past_deadline
-- $1 now
SELECT id FROM yume.dream_runs WHERE status = 'running' AND deadline <= $1;

-- name: mark_announced
-- $1 dream, $2 the step whose event is stored, $3 now
UPDATE yume.dream_runs
   SET announced = $2, announced_at = $3, heartbeat_at = $3, not_before = NULL
 WHERE id = $1
   AND (announced IS NULL OR announced COLLATE "C" < $2)
   AND ($2 = 's9_measure' OR coalesce(step, 's0_requested') COLLATE "C" = $2);

-- name: put_off
-- $1 dream, $2 until
UPDATE yume.dream_runs
   SET not_before = $2, announced = NULL, attempt = attempt + 1
 WHERE id = $1 AND status = 'running';

-- name: beat
-- $1 dream, $2 now
UPDATE yume.dream_runs SET heartbeat_at = $2 WHERE id = $1 AND status = 'running';

-- name: progress_of
-- $1 dream
SELECT platform_id AS platform, external_id AS series, status, step, announced, attempt, error
  FROM yume.dream_runs
  JOIN yume.series ON series.id = dream_runs.series_id
 WHERE dream_runs.id = $1;

-- name: mark_step
-- $1 dream, $2 step, $3 counters, $4 usage, $5 now
UPDATE yume.dream_runs
   SET step = $2, counters = counters || $3, usage = usage || $4, heartbeat_at = $5
 WHERE id = $1 AND status = 'running' AND (step IS NULL OR step COLLATE "C" < $2)
RETURNING id;

-- name: dream_of
-- $1 dream: it reads on from where the last dream that pulled has stopped, and never from the future, whatever clock its
-- tasks had; one that failed before leaves its tasks
SELECT dream_runs.id, dream_runs.number, dream_runs.trigger, dream_runs.status, dream_runs.step, dream_runs.announced,
       dream_runs.attempt, dream_runs.taxonomy_id, dream_runs.base_lesson_set_id,
       (SELECT least(upper(earlier.span), earlier.closed_at) FROM yume.dream_runs AS earlier
         WHERE earlier.series_id = dream_runs.series_id AND earlier.number < dream_runs.number
           AND earlier.step IS NOT NULL AND earlier.span IS NOT NULL
         ORDER BY earlier.number DESC LIMIT 1) AS after, upper(dream_runs.span) AS before, dream_runs.started_at,
       dream_runs.result, dream_runs.reason, dream_runs.report_key, dream_runs.operations, dream_runs.gate,
       dream_runs.counters, dream_runs.usage, dream_runs.broken, dream_runs.error,
       series.id AS series_id, series.platform_id, series.external_id, series.mode, series.batch_max_runs,
       series.batch_max_wait, series.projection_budget_tokens, series.language, series.instructions,
       series.taxonomy_id AS series_taxonomy_id
  FROM yume.dream_runs
  JOIN yume.series ON series.id = dream_runs.series_id
 WHERE dream_runs.id = $1;

-- name: save_pulled
-- $1 dream, $2 broken records, $3 proposals
UPDATE yume.dream_runs SET broken = $2, proposals = $3 WHERE id = $1;

-- name: save_operations
-- $1 dream, $2 operations
UPDATE yume.dream_runs SET operations = $2 WHERE id = $1;

-- name: save_gate
-- $1 dream, $2 gate
UPDATE yume.dream_runs SET gate = $2 WHERE id = $1;

-- name: save_result
-- $1 dream, $2 result, $3 reason, $4 report key
UPDATE yume.dream_runs SET result = $2, reason = $3, report_key = $4 WHERE id = $1;

-- name: finish
-- $1 dream, $2 now
UPDATE yume.dream_runs SET status = 'finished', finished_at = $2 WHERE id = $1 AND status = 'running';

-- name: fail
-- $1 dream, $2 now, $3 error: the ending is told anew, so nothing counts as announced
UPDATE yume.dream_runs
   SET status = 'failed', finished_at = $2, error = $3, announced = NULL
 WHERE id = $1 AND status = 'running'
RETURNING id;

-- name: dreams_of_series
-- $1 series
SELECT id, number, status, result, reason, step, counters, usage, error, report_key, started_at, finished_at
  FROM yume.dream_runs
 WHERE series_id = $1
 ORDER BY number;
