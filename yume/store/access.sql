-- name: platform_of
-- $1 platform
SELECT id, base_url, export_credential, slot_credential, capabilities, disabled_at
  FROM yume.platforms
 WHERE id = $1;

-- name: add_platform
-- $1 id, $2 base URL, $3 export credential, $4 slot credential (both encrypted)
INSERT INTO yume.platforms (id, base_url, export_credential, slot_credential)
VALUES ($1, $2, $3, $4)
ON CONFLICT (id) DO UPDATE
   SET base_url = excluded.base_url,
       export_credential = excluded.export_credential,
       slot_credential = excluded.slot_credential,
       disabled_at = NULL;

-- name: platforms
SELECT id, base_url, created_at, disabled_at FROM yume.platforms ORDER BY id;

-- name: series_named
-- $1 platform, $2 external id
SELECT id, platform_id, external_id, mode, batch_max_runs, batch_max_wait, projection_budget_tokens, language,
       instructions, taxonomy_id
  FROM yume.series
 WHERE platform_id = $1 AND external_id = $2;

-- name: all_series
SELECT platform_id, external_id, mode, mode_reason, language, batch_max_runs, projection_budget_tokens, paused_at, promotions
  FROM yume.series
 ORDER BY platform_id, external_id;

-- name: add_series
-- $1 id, $2 platform, $3 external id: with the newest version of Yume's own taxonomy
INSERT INTO yume.series (id, platform_id, external_id, taxonomy_id)
SELECT $1, $2, $3, taxonomies.id
  FROM yume.taxonomies
 WHERE name = 'yume'
 ORDER BY version DESC
 LIMIT 1
ON CONFLICT (platform_id, external_id) DO NOTHING;

-- name: promote
-- $1 series, $2 mode, $3 why, $4 the entry that says who, from what, to what and when
UPDATE yume.series
   SET mode = $2, mode_reason = $3, promotions = promotions || $4
 WHERE id = $1 AND mode <> $2;

-- name: demote
-- $1 series, $2 why, $3 the entry that says who, to what and when
UPDATE yume.series
   SET mode = 'report_only', mode_reason = $2, promotions = promotions || jsonb_build_array(jsonb_build_object('from', mode) || $3)
 WHERE id = $1 AND mode <> 'report_only';

-- name: policy_of
-- $1 series: for display; what was done to it by whom is in promotions, newest last
SELECT id, platform_id, external_id, mode, mode_reason, batch_max_runs, batch_max_wait, schedule, projection_budget_tokens,
       language, instructions, auto_rollback, boundary, paused_at, created_at, promotions
  FROM yume.series
 WHERE id = $1;

-- name: set_policy
-- $1 series, $2 batch max runs, $3 batch max wait, $4 budget tokens, $5 language, $6 instructions, $7 schedule, $8 no schedule,
-- $9 automatic rollback, $10 the boundary of verdicts, $11 the entry that says who, what, why and when; what is null stays as it is
UPDATE yume.series
   SET batch_max_runs = coalesce($2, batch_max_runs),
       batch_max_wait = coalesce($3, batch_max_wait),
       projection_budget_tokens = coalesce($4, projection_budget_tokens),
       language = coalesce($5, language),
       instructions = coalesce($6, instructions),
       schedule = CASE WHEN $8::boolean THEN NULL ELSE coalesce($7, schedule) END,
       auto_rollback = coalesce($9, auto_rollback),
       boundary = coalesce($10, boundary),
       promotions = promotions || $11
 WHERE id = $1;

-- name: pause
-- $1 series, $2 now, $3 the entry that says who, why and when
UPDATE yume.series SET paused_at = $2, promotions = promotions || $3 WHERE id = $1 AND paused_at IS NULL;

-- name: unpause
-- $1 series, $2 the entry that says who, why and when
UPDATE yume.series SET paused_at = NULL, promotions = promotions || $2 WHERE id = $1 AND paused_at IS NOT NULL;

-- name: taxonomy_of
-- $1 taxonomy
SELECT id, name, version, classes FROM yume.taxonomies WHERE id = $1;

-- name: experiment_of
-- $1 series
SELECT experiment FROM yume.series WHERE id = $1;

-- name: save_experiment
-- $1 series, $2 the experiment
UPDATE yume.series SET experiment = $2 WHERE id = $1;
