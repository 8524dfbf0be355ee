-- name: add_lessons
-- $1 series, $2 dream, $3 written by, $4 origin, $5 history, then one array a column; the same lesson twice is one row
INSERT INTO yume.lessons (
  series_id, dream_id, written_by, origin, history, state, id, lineage_id, revision, symptom, root_cause, rule, category,
  scope, advice, confidence, target, evidence, quotes, trust, supersedes)
SELECT $1, $2, $3, $4, $5, 'draft', new.id, new.lineage_id, new.revision, new.symptom, new.root_cause, new.rule,
       new.category, new.scope, new.advice, new.confidence, new.target::jsonb,
       new.evidence::uuid[], new.quotes::jsonb, new.trust, new.supersedes::uuid[]
  FROM unnest($6::uuid[], $7::uuid[], $8::integer[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[],
              $14::text[], $15::float8[], $16::text[], $17::text[], $18::text[], $19::text[], $20::text[])
    AS new (id, lineage_id, revision, symptom, root_cause, rule, category, scope, advice, confidence, target, evidence,
            quotes, trust, supersedes)
ON CONFLICT (id) DO NOTHING;

-- name: lessons_in
-- $1 series, $2 states
SELECT id, lineage_id, revision, origin, state, symptom, root_cause, rule, category, scope, advice, confidence, target,
       evidence, quotes, trust
  FROM yume.lessons
 WHERE series_id = $1 AND state = ANY ($2::text[]) AND rule IS NOT NULL
 ORDER BY id;

-- name: lessons_by_id
-- $1 series, $2 lessons
SELECT id, lineage_id, revision, origin, state, symptom, root_cause, rule, category, scope, advice, confidence, target,
       evidence, quotes, trust
  FROM yume.lessons
 WHERE series_id = $1 AND id = ANY ($2::uuid[]) AND rule IS NOT NULL
 ORDER BY id;

-- name: move
-- $1 lesson, $2 from, $3 to, $4 the history entry
UPDATE yume.lessons SET state = $3, history = history || $4 WHERE id = $1 AND state = $2;

-- name: archive_drafts
-- $1 dream, $2 the history entry
UPDATE yume.lessons SET state = 'archived', history = history || $2 WHERE dream_id = $1 AND state = 'draft';

-- name: add_owners_rule
-- $1 id, $2 series, $3 rule, $4 written by, $5 history: a person's own, approved by being written
INSERT INTO yume.lessons (
  id, series_id, lineage_id, revision, symptom, root_cause, rule, category, scope, confidence, evidence, origin, state, history,
  written_by)
VALUES ($1, $2, $1, 1, '', '', $3, 'other', 'all', 1, '{}', 'owner', 'approved', $5, $4)
ON CONFLICT (id) DO NOTHING;

-- name: moved_since
-- $1 series, $2 since, $3 but not at: whether a lesson came to be approved, or ceased to be; what moved with the slot, by this
-- command or by one that was asked for before it and carried out after, is nothing new
SELECT EXISTS (
  SELECT FROM yume.lessons, jsonb_array_elements(history) AS move
   WHERE series_id = $1 AND (move ->> 'to' = 'approved' OR move ->> 'from' = 'approved')
     AND (move ->> 'at')::timestamptz > $2 AND (move ->> 'at')::timestamptz <> $3
     AND NOT EXISTS (SELECT FROM yume.injections AS command
                      WHERE command.series_id = $1 AND command.kind IN ('rollback', 'kill')
                        AND command.written_at = (move ->> 'at')::timestamptz));

-- name: newest_set
-- $1 series
SELECT id, version, lesson_ids, body, body_sha256, text, text_sha256, tokens, dream_id
  FROM yume.lesson_sets
 WHERE series_id = $1
 ORDER BY version DESC
 LIMIT 1;

-- name: set_by_id
-- $1 lesson set
SELECT id, version, lesson_ids, body, body_sha256, text, text_sha256, tokens, dream_id
  FROM yume.lesson_sets
 WHERE id = $1;

-- name: set_numbered
-- $1 series, $2 version
SELECT id, version, lesson_ids, body, body_sha256, text, text_sha256, tokens, dream_id
  FROM yume.lesson_sets
 WHERE series_id = $1 AND version = $2;

-- name: set_with_text
-- $1 series, $2 sha256 of the whole text
SELECT id, version, lesson_ids, body, body_sha256, text, text_sha256, tokens, dream_id
  FROM yume.lesson_sets
 WHERE series_id = $1 AND text_sha256 = $2
 ORDER BY version DESC
 LIMIT 1;

-- name: add_set
-- $1 id, $2 series, $3 version, $4 parent, $5 lessons, $6 left out, $7 body, $8 its sha256, $9 text, $10 its sha256, $11 tokens,
-- $12 token counter, $13 gate, $14 dream, $15 now
INSERT INTO yume.lesson_sets (
  id, series_id, version, parent_id, lesson_ids, left_out, body, body_sha256, text, text_sha256, tokens, token_counter, gate,
  dream_id, created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (id) DO NOTHING;
