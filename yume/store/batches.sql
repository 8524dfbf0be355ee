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

-- name: queue_release
-- $1 id, $2 series, $3 now, $4 by, $5 why, $6 forced, $7 gate: it starts behind the gate
INSERT INTO yume.dream_runs (
  id, series_id, number, trigger, status, step, created_at, closed_at, asked_by, why, forced, gate)
SELECT $1, $2, coalesce(max(number), 0) + 1, 'release', 'queued', 's6_gate', $3, $3, $4, $5, $6, $7
  FROM yume.dream_runs
 WHERE series_id = $2
RETURNING id;

-- name: queue_replay
-- $1 id, $2 the original, $3 the step that it starts behind, $4 applies, $5 now, $6 by, $7 why: what the original's steps up
-- to there have left is taken over; asked twice under one id, it is one row
INSERT INTO yume.dream_runs (
  id, series_id, number, trigger, status, replay_of, step, applies, created_at, closed_at, asked_by, why, batch_id,
  base_lesson_set_id, base_body_sha256, taxonomy_id, proposals, broken, counters, draft_ids, standing_ids, operations, gate,
  compiled)
SELECT $1, original.series_id,
       (SELECT max(number) + 1 FROM yume.dream_runs WHERE series_id = original.series_id),
       'replay', 'queued', original.id, $3, $4, $5, $5, $6, $7, original.batch_id,
       CASE WHEN NOT $4::boolean THEN original.base_lesson_set_id END,
       CASE WHEN NOT $4 THEN original.base_body_sha256 END,
       CASE WHEN NOT $4 THEN original.taxonomy_id END,
       original.proposals,
       CASE WHEN $3::text IS NULL THEN '[]' ELSE original.broken END,
       CASE WHEN $3 IS NULL THEN '{}' ELSE original.counters END,
       CASE WHEN $3 COLLATE "C" >= 's4_draft' THEN original.draft_ids END,
       CASE WHEN NOT $4 THEN original.standing_ids END,
       CASE WHEN $3 COLLATE "C" >= 's5_merge' THEN original.operations ELSE '[]' END,
       CASE WHEN $3 COLLATE "C" >= 's6_gate' THEN original.gate END,
       CASE WHEN $3 COLLATE "C" >= 's7_compile' THEN original.compiled END
  FROM yume.dream_runs AS original
 WHERE original.id = $2
ON CONFLICT (id) DO NOTHING
RETURNING id;

-- name: close_batch
-- $1 dream, $2 closed at, $3 batch id, $4 everything that finished before this instant belongs to the batch, $5 what closed it,
-- $6 by, $7 why; whatever the clock says, a span begins where the one before ended, and is not empty
UPDATE yume.dream_runs
   SET status = 'queued',
       closed_at = $2,
       batch_id = coalesce($3, batch_id),
       trigger = coalesce($5, trigger),
       asked_by = coalesce($6, asked_by),
       why = coalesce($7, why),
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
-- $1 series, $2 now, $3 deadline: it stands on what the slot holds, or on the newest text where nothing was ever written; one
-- that was parked keeps what it stood on, a replay that only shows what its original did, if that ever started; a command of
-- a person comes first
UPDATE yume.dream_runs
   SET status = 'running',
       started_at = coalesce(started_at, $2),
       heartbeat_at = $2,
       deadline = $3,
       taxonomy_id = CASE WHEN kept.frozen THEN dream_runs.taxonomy_id ELSE series.taxonomy_id END,
       base_lesson_set_id = CASE WHEN kept.frozen THEN dream_runs.base_lesson_set_id ELSE base.id END,
       base_body_sha256 = CASE WHEN kept.frozen THEN dream_runs.base_body_sha256 ELSE base.body_sha256 END
  FROM yume.series
  LEFT JOIN LATERAL (
         SELECT lesson_set_id AS id FROM yume.injections
          WHERE injections.series_id = series.id AND injections.status = 'written'
          ORDER BY written_at DESC, id DESC LIMIT 1) AS slot ON true
  LEFT JOIN LATERAL (
         SELECT id, body_sha256 FROM yume.lesson_sets
          WHERE lesson_sets.series_id = series.id
          ORDER BY (lesson_sets.id = slot.id) DESC NULLS LAST, version DESC LIMIT 1) AS base ON true
 CROSS JOIN LATERAL (
         SELECT next.id, (next.started_at IS NOT NULL OR (NOT next.applies AND root.started_at IS NOT NULL)) AS frozen
           FROM yume.dream_runs AS next
           LEFT JOIN yume.dream_runs AS root ON root.id = next.replay_of
          WHERE next.series_id = series.id AND next.status = 'queued' ORDER BY next.number LIMIT 1) AS kept
 WHERE series.id = $1
   AND series.paused_at IS NULL
   AND dream_runs.id = kept.id
   AND NOT EXISTS (SELECT FROM yume.dream_runs AS other WHERE other.series_id = $1 AND other.status = 'running')
   AND NOT EXISTS (SELECT FROM yume.injections AS command
                    WHERE command.series_id = $1 AND command.status = 'pending' AND command.kind <> 'write')
RETURNING dream_runs.id;

-- name: waiting_series
-- series with a queued dream and none running
SELECT DISTINCT series_id
  FROM yume.dream_runs AS queued
  JOIN yume.series ON series.id = queued.series_id
 WHERE status = 'queued'
   AND series.paused_at IS NULL
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

-- name: to_look_at
-- $1 now, $2 this series alone, or null: series that may have to look at the export without a callback, and when they last
-- did; an open batch all of whose tasks another dream has taken waits for nothing
SELECT series.id, series.schedule, series.batch_max_wait, looked.at AS looked_at, collecting.id AS collecting
  FROM yume.series
  JOIN yume.platforms ON platforms.id = series.platform_id AND platforms.disabled_at IS NULL
  LEFT JOIN yume.dream_runs AS collecting ON collecting.series_id = series.id AND collecting.status = 'collecting'
       AND EXISTS (SELECT FROM yume.runs WHERE runs.dream_id = collecting.id)
 CROSS JOIN LATERAL (
         SELECT coalesce(max(closed_at), series.created_at) AS at FROM yume.dream_runs
          WHERE dream_runs.series_id = series.id AND trigger IN ('callback', 'schedule', 'manual')) AS looked
 WHERE series.paused_at IS NULL
   AND ($2::uuid IS NULL OR series.id = $2)
   AND (series.schedule IS NOT NULL OR (collecting.id IS NULL AND looked.at + series.batch_max_wait <= $1))
   AND NOT EXISTS (SELECT FROM yume.dream_runs AS queued WHERE queued.series_id = series.id AND queued.status = 'queued');

-- name: may_release
-- $1 lessons left alone since, $2 now, $3 this series alone, or null: series that write, are idle, and whose approved lessons
-- are not those of the text in the slot; where a release failed, the next one is not opened at once
SELECT series.id, series.platform_id, series.external_id
  FROM yume.series
  JOIN yume.platforms ON platforms.id = series.platform_id AND platforms.disabled_at IS NULL
  LEFT JOIN LATERAL (
         SELECT sets.lesson_ids FROM yume.injections
           JOIN yume.lesson_sets AS sets ON sets.id = injections.lesson_set_id
          WHERE injections.series_id = series.id AND injections.status = 'written'
          ORDER BY written_at DESC, injections.id DESC LIMIT 1) AS slot ON true
 WHERE series.mode <> 'report_only'
   AND ($3::uuid IS NULL OR series.id = $3)
   AND series.paused_at IS NULL
   AND NOT EXISTS (SELECT FROM yume.dream_runs
                    WHERE dream_runs.series_id = series.id AND dream_runs.status IN ('queued', 'running'))
   AND NOT EXISTS (SELECT FROM yume.dream_runs AS failed
                    WHERE failed.series_id = series.id AND failed.trigger = 'release' AND failed.status IN ('failed', 'cancelled')
                      AND failed.finished_at + series.batch_max_wait > $2)
   AND NOT EXISTS (SELECT FROM yume.injections AS command
                    WHERE command.series_id = series.id AND command.status = 'pending')
   AND (SELECT coalesce(array_agg(lessons.id ORDER BY lessons.id), '{}') FROM yume.lessons
         WHERE lessons.series_id = series.id AND lessons.state = 'approved')
       <> (SELECT coalesce(array_agg(held.id ORDER BY held.id), '{}') FROM unnest(slot.lesson_ids) AS held (id))
   AND NOT EXISTS (SELECT FROM yume.lessons, jsonb_array_elements(lessons.history) AS move
                    WHERE lessons.series_id = series.id AND (move ->> 'at')::timestamptz > $1);

-- name: announce_run
-- $1 id, $2 series, $3 dream, $4 task, $5 status, $6 finished at, $7 now, $8 batch, $9 it is the batch's last
INSERT INTO yume.runs (id, series_id, dream_id, task_id, status, finished_at, announced_at, batch_id, ends_batch)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (series_id, task_id) DO NOTHING
RETURNING id;

-- name: note_batch
-- $1 series, $2 task, $3 batch, $4 it is the batch's last, $5 now: what a copy of a callback says beyond the first one
UPDATE yume.runs
   SET announced_at = coalesce(announced_at, $5), batch_id = coalesce(batch_id, $3), ends_batch = ends_batch OR $4
 WHERE series_id = $1 AND task_id = $2
   AND (announced_at IS NULL OR batch_id IS DISTINCT FROM coalesce(batch_id, $3) OR ($4 AND NOT ends_batch));

-- name: open_batches
-- $1 series: the batches that the platform named and has not called finished, and when the first of their tasks was heard of
SELECT batch_id AS id, min(announced_at) AS since, false AS finished
  FROM yume.runs
 WHERE series_id = $1 AND batch_id IS NOT NULL AND announced_at IS NOT NULL
 GROUP BY batch_id
HAVING NOT bool_or(ends_batch)
 ORDER BY 2, 1;

-- name: batch_of_task
-- $1 series, $2 task
SELECT runs.dream_id, dream_runs.status AS dream_status
  FROM yume.runs
  LEFT JOIN yume.dream_runs ON dream_runs.id = runs.dream_id
 WHERE runs.series_id = $1 AND runs.task_id = $2;

-- name: batch_size
-- $1 dream
SELECT count(*) FROM yume.runs WHERE dream_id = $1;
