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
 WHERE dream_runs.status IN ('finished', 'failed', 'cancelled')
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

-- name: wait_until
-- $1 dream, $2 deadline: what it waits for is no failure, so its time is not over meanwhile
UPDATE yume.dream_runs SET deadline = greatest(deadline, $2) WHERE id = $1 AND status = 'running';

-- name: wake
-- $1 series, $2 now: a dream that waits to write is due at once
UPDATE yume.dream_runs
   SET not_before = $2
 WHERE series_id = $1 AND status = 'running' AND step = 's7_compile' AND not_before > $2;

-- name: take_lease
-- $1 dream, $2 holder, $3 now, $4 until: the fence tells this holder from those before it
UPDATE yume.dream_runs
   SET lease_holder = $2, lease_until = $4, fence = fence + 1, heartbeat_at = $3
 WHERE id = $1 AND status = 'running' AND (lease_holder IS NULL OR lease_holder = $2 OR lease_until <= $3)
RETURNING fence;

-- name: beat
-- $1 dream, $2 holder, $3 now, $4 until
UPDATE yume.dream_runs
   SET heartbeat_at = $3, lease_until = $4
 WHERE id = $1 AND status = 'running' AND lease_holder = $2;

-- name: give_lease_back
-- $1 dream, $2 holder
UPDATE yume.dream_runs
   SET lease_holder = NULL, lease_until = NULL
 WHERE id = $1 AND status = 'running' AND lease_holder = $2;

-- name: progress_of
-- $1 dream
SELECT platform_id AS platform, external_id AS series, number, status, step, announced, attempt, fence, lease_until, result,
       reason, error
  FROM yume.dream_runs
  JOIN yume.series ON series.id = dream_runs.series_id
 WHERE dream_runs.id = $1;

-- name: mark_step
-- $1 dream, $2 step, $3 counters, $4 usage, $5 now, $6 the fence under which the step was begun
UPDATE yume.dream_runs
   SET step = $2, counters = counters || $3, usage = usage || $4, heartbeat_at = $5, lease_holder = NULL, lease_until = NULL
 WHERE id = $1 AND status = 'running' AND (step IS NULL OR step COLLATE "C" < $2) AND fence = $6
RETURNING id;

-- name: dream_of
-- $1 dream: it reads on from where the last dream that pulled has stopped, and never from the future, whatever clock its
-- tasks had; one that failed before leaves its tasks; a replay has the batch of its original
SELECT dream_runs.id, dream_runs.number, dream_runs.trigger, dream_runs.status, dream_runs.step, dream_runs.announced,
       dream_runs.attempt, dream_runs.fence, dream_runs.applies, dream_runs.forced, dream_runs.asked_by, dream_runs.why,
       root.id AS root, root.number AS root_number, root.compiled AS root_compiled,
       CASE WHEN dream_runs.applies OR root.started_at IS NULL THEN dream_runs.started_at ELSE root.started_at END AS frozen_at,
       dream_runs.taxonomy_id, dream_runs.base_lesson_set_id,
       (SELECT least(upper(earlier.span), earlier.closed_at) FROM yume.dream_runs AS earlier
         WHERE earlier.series_id = root.series_id AND earlier.number < root.number
           AND earlier.step IS NOT NULL AND earlier.span IS NOT NULL
         ORDER BY earlier.number DESC LIMIT 1) AS after,
       coalesce(upper(root.span), dream_runs.started_at) AS before, dream_runs.started_at,
       dream_runs.result, dream_runs.reason, dream_runs.report_key, dream_runs.draft_ids, dream_runs.standing_ids,
       dream_runs.operations, dream_runs.gate, dream_runs.compiled, dream_runs.lesson_set_id,
       dream_runs.counters, dream_runs.usage, dream_runs.broken, dream_runs.error,
       series.id AS series_id, series.platform_id, series.external_id, series.mode, series.batch_max_runs,
       series.batch_max_wait, series.projection_budget_tokens, series.language, series.instructions,
       series.taxonomy_id AS series_taxonomy_id
  FROM yume.dream_runs
  JOIN yume.dream_runs AS root ON root.id = coalesce(dream_runs.replay_of, dream_runs.id)
  JOIN yume.series ON series.id = dream_runs.series_id
 WHERE dream_runs.id = $1;

-- name: save_pulled
-- $1 dream, $2 broken records, $3 proposals
UPDATE yume.dream_runs SET broken = $2, proposals = $3 WHERE id = $1;

-- name: save_drafts
-- $1 dream, $2 drafts
UPDATE yume.dream_runs SET draft_ids = $2 WHERE id = $1;

-- name: save_operations
-- $1 dream, $2 operations, $3 the lessons that were merged into
UPDATE yume.dream_runs SET operations = $2, standing_ids = $3 WHERE id = $1;

-- name: save_compiled
-- $1 dream, $2 the text, $3 the set that S8 has to see in the slot, $4 why there is none
UPDATE yume.dream_runs SET compiled = $2, lesson_set_id = $3, reason = $4 WHERE id = $1;

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

-- name: park
-- $1 dream, $2 reason: only a person lets it go on
UPDATE yume.dream_runs SET status = 'parked', reason = $2 WHERE id = $1 AND status = 'running' RETURNING id;

-- name: resume
-- $1 dream, $2 by, $3 why: its step is due again, as a new attempt
UPDATE yume.dream_runs
   SET status = 'queued', reason = NULL, asked_by = $2, why = $3, announced = NULL, attempt = attempt + 1
 WHERE id = $1 AND status = 'parked'
RETURNING id;

-- name: cancel
-- $1 dream, $2 now, $3 reason: the ending is told anew, so nothing counts as announced
UPDATE yume.dream_runs
   SET status = 'cancelled', result = 'cancelled', reason = $3, finished_at = $2, announced = NULL
 WHERE id = $1 AND status IN ('collecting', 'queued', 'running', 'parked')
RETURNING id;

-- name: running_dream
-- $1 series
SELECT id FROM yume.dream_runs WHERE series_id = $1 AND status = 'running';

-- name: dream_numbered
-- $1 series, $2 number
SELECT id, number, trigger, status, step, result, replay_of FROM yume.dream_runs WHERE series_id = $1 AND number = $2;

-- name: dream_named
-- $1 dream
SELECT id, number, trigger, status, step, result, replay_of FROM yume.dream_runs WHERE id = $1;

-- name: dreams_of_series
-- $1 series
SELECT id, number, trigger, status, result, reason, step, counters, usage, error, report_key, asked_by, why, replay_of,
       created_at, started_at, finished_at
  FROM yume.dream_runs
 WHERE series_id = $1
 ORDER BY number;
