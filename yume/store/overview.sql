-- name: every_series
SELECT series.id, series.platform_id AS platform, series.external_id AS series, series.mode, series.mode_reason, series.paused_at,
       platforms.disabled_at IS NOT NULL AS switched_off
  FROM yume.series
  JOIN yume.platforms ON platforms.id = series.platform_id
 ORDER BY series.platform_id, series.external_id;

-- name: slots
-- what Yume last wrote into each slot
SELECT DISTINCT ON (injections.series_id)
       injections.series_id, lesson_sets.version, injections.platform_version, injections.written_at AS since, injections.kind,
       injections.how, injections."by"
  FROM yume.injections
  LEFT JOIN yume.lesson_sets ON lesson_sets.id = injections.lesson_set_id
 WHERE injections.status = 'written'
 ORDER BY injections.series_id, injections.written_at DESC, injections.id DESC;

-- name: open_batches
SELECT dream_runs.series_id, dream_runs.number, count(runs.id) AS tasks, dream_runs.created_at AS since
  FROM yume.dream_runs
  LEFT JOIN yume.runs ON runs.dream_id = dream_runs.id
 WHERE dream_runs.status = 'collecting'
 GROUP BY dream_runs.id;

-- name: open_dreams
-- what waits, is under way, or was left to a person
SELECT series_id, number, trigger, status, step, attempt, reason, closed_at, started_at, announced_at, heartbeat_at, not_before
  FROM yume.dream_runs
 WHERE status IN ('queued', 'running', 'parked')
 ORDER BY series_id, number;

-- name: open_commands
-- what persons asked of the slots and S8's component has not done yet
SELECT series_id, kind, requested_at
  FROM yume.injections
 WHERE status = 'pending' AND kind <> 'write'
 ORDER BY series_id, requested_at, id;

-- name: drafts
-- what waits for a person: drafts that the gate has seen and held, and those that no dream made
SELECT lessons.series_id, count(*) AS drafts
  FROM yume.lessons
 WHERE lessons.state = 'draft' AND lessons.rule IS NOT NULL
   AND (lessons.dream_id IS NULL
        OR EXISTS (SELECT FROM yume.dream_runs AS gated
                    WHERE (gated.id = lessons.dream_id OR gated.replay_of = lessons.dream_id)
                      AND gated.applies AND gated.step COLLATE "C" >= 's6_gate'))
 GROUP BY lessons.series_id;

-- name: last_ended
SELECT DISTINCT ON (series_id) series_id, number, trigger, status, result, reason, error, finished_at
  FROM yume.dream_runs
 WHERE status IN ('finished', 'failed', 'cancelled')
 ORDER BY series_id, finished_at DESC, number DESC;
