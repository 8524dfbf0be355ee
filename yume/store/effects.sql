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
-- $1 id, $2 series, $3 lesson set, $4 kind, $5 expected version, $6 by, $7 why, $8 now, $9 dream, $10 status, $11 sha256 of
-- the text that has to be there
INSERT INTO yume.injections (
  id, series_id, lesson_set_id, kind, expected_version, "by", why, requested_at, dream_id, status, text_sha256)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (id) DO NOTHING;

-- name: expect
-- $1 injection, $2 expected version: a pending write that met another version than it expected
UPDATE yume.injections SET expected_version = $2 WHERE id = $1 AND status = 'pending';

-- name: settle
-- $1 injection, $2 status, $3 platform version, $4 written at, $5 error, $6 lesson set, $7 how
UPDATE yume.injections
   SET status = $2, platform_version = $3, written_at = $4, error = $5, announced = false, how = $7,
       lesson_set_id = coalesce($6, lesson_set_id)
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

-- name: standing_of
-- $1 series: what the version in the slot has lived through, by the runs that were started with it
SELECT slot.kind, slot.requested_at, slot.written_at,
       count(DISTINCT runs.dream_id) FILTER (WHERE runs.outcome IN ('success', 'failure')) AS batches,
       count(runs.id) FILTER (WHERE runs.outcome IN ('success', 'failure')) AS runs,
       EXISTS (SELECT FROM yume.measurements
                WHERE measurements.series_id = $1 AND scope = 'version' AND verdict IN ('improved', 'regressed')
                  AND details ->> 'window' = 'cumulative' AND details ->> 'memory_version' = slot.platform_version) AS decided
  FROM (SELECT series_id, kind, requested_at, written_at, platform_version FROM yume.injections
         WHERE series_id = $1 AND status = 'written' ORDER BY written_at DESC, id DESC LIMIT 1) AS slot
  LEFT JOIN yume.runs ON runs.series_id = slot.series_id
       AND runs.memory_version = slot.platform_version AND runs.memory_version_source IN ('reported', 'inferred')
 GROUP BY slot.kind, slot.requested_at, slot.written_at, slot.platform_version;

-- name: was_in_slot
-- $1 series, $2 at: whether a version of Yume's stood in the slot by then
SELECT EXISTS (SELECT FROM yume.injections WHERE series_id = $1 AND status = 'written' AND written_at <= $2);

-- name: commands_of
-- $1 series, oldest first: what persons asked for, and what is still open of dreams that have ended; who had the lease of one
-- may still be at it
SELECT injections.id, injections.series_id, injections.lesson_set_id, injections.kind, injections.status,
       injections.expected_version, injections.platform_version, injections.text_sha256, injections."by", injections.why,
       injections.requested_at, injections.written_at, injections.how, injections.error,
       CASE WHEN dream_runs.lease_holder IS NOT NULL THEN dream_runs.lease_until END AS held_until
  FROM yume.injections
  LEFT JOIN yume.dream_runs ON dream_runs.id = injections.dream_id
 WHERE injections.series_id = $1 AND injections.status = 'pending'
   AND (injections.kind <> 'write' OR dream_runs.status IN ('finished', 'failed', 'cancelled'))
 ORDER BY injections.kind = 'write', injections.requested_at, injections.id;

-- name: was_overtaken
-- $1 command: whether one that was asked for later stands in the slot already
SELECT EXISTS (
  SELECT FROM yume.injections AS later
    JOIN yume.injections AS this ON this.id = $1
   WHERE later.series_id = this.series_id AND later.kind IN ('rollback', 'kill', 'adopted') AND later.status = 'written'
     AND later.requested_at > this.requested_at);

-- name: version_of_set
-- $1 series, $2 lesson set: under which of the platform's versions it last stood in the slot
SELECT platform_version
  FROM yume.injections
 WHERE series_id = $1 AND lesson_set_id = $2 AND status = 'written'
 ORDER BY written_at DESC
 LIMIT 1;

-- name: command_of
-- $1 command
SELECT id, series_id, lesson_set_id, kind, status, expected_version, platform_version, text_sha256, "by", why, requested_at,
       written_at, how, error, NULL::timestamptz AS held_until
  FROM yume.injections
 WHERE id = $1;

-- name: untold_commands
-- $1 series: what was done or not done, and nobody has been told
SELECT id, series_id, lesson_set_id, kind, status, expected_version, platform_version, text_sha256, "by", why, requested_at,
       written_at, how, error, NULL::timestamptz AS held_until
  FROM yume.injections
 WHERE series_id = $1 AND kind <> 'write' AND status <> 'pending' AND NOT announced
 ORDER BY requested_at, id;

-- name: to_announce
-- $1 asked for before: series with a command that S8's component has not heard of, has not dealt with, or has not told
SELECT injections.id, series.platform_id, series.external_id, injections.requested_at
  FROM yume.injections
  JOIN yume.series ON series.id = injections.series_id
  LEFT JOIN yume.dream_runs ON dream_runs.id = injections.dream_id
 WHERE (injections.kind <> 'write' AND NOT injections.announced)
    OR (injections.kind <> 'write' AND injections.status = 'pending' AND injections.requested_at < $1)
    OR (injections.kind = 'write' AND injections.status = 'pending' AND dream_runs.status IN ('finished', 'failed', 'cancelled'))
 ORDER BY injections.requested_at, injections.id;

-- name: mark_requested
-- $1 command: its request is stored
UPDATE yume.injections SET announced = true WHERE id = $1 AND status = 'pending';

-- name: mark_told
-- $1 command: what became of it is told
UPDATE yume.injections SET announced = true WHERE id = $1 AND status <> 'pending';

-- name: saw
-- $1 command, $2 platform version, $3 sha256 of the text that stands there, $4 what it is: a look changes nothing
UPDATE yume.injections
   SET status = 'withheld', platform_version = $2, text_sha256 = $3, error = $4, announced = false
 WHERE id = $1 AND status = 'pending';

-- name: slot_writes
-- $1 series, newest first
SELECT injections.id, injections.kind, injections.status, injections.platform_version, injections.text_sha256, injections."by",
       injections.why, injections.requested_at, injections.written_at, injections.replaced_at, injections.error,
       injections.lesson_set_id, lesson_sets.version, lesson_sets.tokens, cardinality(lesson_sets.lesson_ids) AS lessons
  FROM yume.injections
  LEFT JOIN yume.lesson_sets ON lesson_sets.id = injections.lesson_set_id
 WHERE injections.series_id = $1
 ORDER BY coalesce(written_at, requested_at) DESC, injections.id DESC;

-- name: switches
-- $1 series, oldest first: when its slot was written, and under which version
SELECT written_at, platform_version FROM yume.injections WHERE series_id = $1 AND status = 'written' ORDER BY written_at, id;

-- name: injected_versions
-- $1 series, oldest first: every version that stood in the slot, the batch of the dream that made it, and whether a person or
-- the alarm went back from it
SELECT DISTINCT ON (this.platform_version) this.platform_version, this.kind, this.written_at, this.lesson_set_id,
       coalesce(dream_runs.replay_of, dream_runs.id) AS made_from,
       EXISTS (SELECT FROM yume.injections AS back
                WHERE back.series_id = this.series_id AND back.status = 'written' AND back.kind IN ('rollback', 'kill')
                  AND this.kind NOT IN ('rollback', 'kill') AND back.written_at = this.replaced_at) AS rolled_back
  FROM yume.injections AS this
  LEFT JOIN yume.dream_runs ON dream_runs.id = this.dream_id
 WHERE this.series_id = $1 AND this.status = 'written'
 ORDER BY this.platform_version, this.written_at DESC;

-- name: rules_by_version
-- $1 series: the lessons that the slot held under each version that Yume wrote
SELECT DISTINCT injections.platform_version, lessons.id, lessons.rule
  FROM yume.injections
  JOIN yume.lesson_sets ON lesson_sets.id = injections.lesson_set_id
  JOIN yume.lessons ON lessons.id = ANY (lesson_sets.lesson_ids)
 WHERE injections.series_id = $1 AND injections.status = 'written';

-- name: texts_by_version
-- $1 series: what the slot held under each version that Yume wrote
SELECT injections.platform_version, lesson_sets.text
  FROM yume.injections
  JOIN yume.lesson_sets ON lesson_sets.id = injections.lesson_set_id
 WHERE injections.series_id = $1 AND injections.status = 'written';
