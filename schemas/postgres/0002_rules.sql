-- migrate:up
-- What may happen to a row. These rules hold whoever writes: a step, the API, or a person with psql.

CREATE FUNCTION yume.refuse_change() RETURNS trigger LANGUAGE plpgsql SET search_path = yume, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '% of %: rows of this table never change', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE FUNCTION yume.refuse_removal() RETURNS trigger LANGUAGE plpgsql SET search_path = yume, pg_temp AS $$
BEGIN
  RAISE EXCEPTION '% of %: nothing is ever deleted', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER never_changes BEFORE UPDATE OR DELETE OR TRUNCATE ON yume.taxonomies
  FOR EACH STATEMENT EXECUTE FUNCTION yume.refuse_change();
CREATE TRIGGER never_changes BEFORE UPDATE OR DELETE OR TRUNCATE ON yume.lesson_sets
  FOR EACH STATEMENT EXECUTE FUNCTION yume.refuse_change();
CREATE TRIGGER never_changes BEFORE UPDATE OR DELETE OR TRUNCATE ON yume.measurements
  FOR EACH STATEMENT EXECUTE FUNCTION yume.refuse_change();

CREATE TRIGGER never_removed BEFORE DELETE OR TRUNCATE ON yume.platforms
  FOR EACH STATEMENT EXECUTE FUNCTION yume.refuse_removal();
CREATE TRIGGER never_removed BEFORE DELETE OR TRUNCATE ON yume.series
  FOR EACH STATEMENT EXECUTE FUNCTION yume.refuse_removal();
CREATE TRIGGER never_removed BEFORE DELETE OR TRUNCATE ON yume.dream_runs
  FOR EACH STATEMENT EXECUTE FUNCTION yume.refuse_removal();
CREATE TRIGGER never_removed BEFORE DELETE OR TRUNCATE ON yume.runs
  FOR EACH STATEMENT EXECUTE FUNCTION yume.refuse_removal();
CREATE TRIGGER never_removed BEFORE DELETE OR TRUNCATE ON yume.signals
  FOR EACH STATEMENT EXECUTE FUNCTION yume.refuse_removal();
CREATE TRIGGER never_removed BEFORE DELETE OR TRUNCATE ON yume.lessons
  FOR EACH STATEMENT EXECUTE FUNCTION yume.refuse_removal();
CREATE TRIGGER never_removed BEFORE DELETE OR TRUNCATE ON yume.injections
  FOR EACH STATEMENT EXECUTE FUNCTION yume.refuse_removal();

-- A dream that ended stays ended, and its steps only go forward.
CREATE FUNCTION yume.check_dream() RETURNS trigger LANGUAGE plpgsql SET search_path = yume, pg_temp AS $$
BEGIN
  IF NEW.status IS DISTINCT FROM OLD.status AND NOT (OLD.status, NEW.status) IN (
       ('collecting', 'queued'), ('collecting', 'cancelled'),
       ('queued', 'running'), ('queued', 'cancelled'),
       ('running', 'parked'), ('running', 'finished'), ('running', 'failed'), ('running', 'cancelled'),
       ('parked', 'queued'), ('parked', 'running'), ('parked', 'failed'), ('parked', 'cancelled')) THEN
    RAISE EXCEPTION 'dream %: % -> % is no legal transition', OLD.id, OLD.status, NEW.status
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF OLD.status IN ('finished', 'failed', 'cancelled')
     AND to_jsonb(NEW) - '{announced,announced_at,heartbeat_at,not_before}'::text[]
         IS DISTINCT FROM to_jsonb(OLD) - '{announced,announced_at,heartbeat_at,not_before}'::text[] THEN
    RAISE EXCEPTION 'dream %: it is % and only its last announcement may still be noted', OLD.id, OLD.status
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF OLD.step IS NOT NULL AND (NEW.step IS NULL OR NEW.step COLLATE "C" < OLD.step COLLATE "C") THEN
    RAISE EXCEPTION 'dream %: step % cannot go back to %', OLD.id, OLD.step, NEW.step
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF OLD.gate IS NOT NULL AND NEW.gate IS DISTINCT FROM OLD.gate THEN
    RAISE EXCEPTION 'dream %: its gate was written and cannot change', OLD.id
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER legal BEFORE UPDATE ON yume.dream_runs FOR EACH ROW EXECUTE FUNCTION yume.check_dream();

-- A signal is append-only: labels may be added, never changed.
CREATE FUNCTION yume.check_signal() RETURNS trigger LANGUAGE plpgsql SET search_path = yume, pg_temp AS $$
BEGIN
  IF to_jsonb(NEW) - 'labels' IS DISTINCT FROM to_jsonb(OLD) - 'labels' THEN
    RAISE EXCEPTION 'signal %: only labels may be added', OLD.id USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF EXISTS (SELECT FROM jsonb_each(OLD.labels) AS given (taxonomy, label)
              WHERE NEW.labels -> given.taxonomy IS DISTINCT FROM given.label) THEN
    RAISE EXCEPTION 'signal %: a label that was given never changes', OLD.id
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER append_only BEFORE UPDATE ON yume.signals FOR EACH ROW EXECUTE FUNCTION yume.check_signal();

-- A lesson is born a draft with evidence of its own series; only an owner's rule is born approved.
CREATE FUNCTION yume.check_new_lesson() RETURNS trigger LANGUAGE plpgsql SET search_path = yume, pg_temp AS $$
DECLARE
  found integer;
BEGIN
  IF NEW.state <> 'draft' AND NOT (NEW.state = 'approved' AND NEW.origin = 'owner') THEN
    RAISE EXCEPTION 'lesson %: origin % cannot be born %', NEW.id, NEW.origin, NEW.state
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF NEW.origin <> 'owner' AND cardinality(NEW.evidence) = 0 THEN
    RAISE EXCEPTION 'lesson %: a lesson without evidence cannot be stored', NEW.id
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  SELECT count(DISTINCT signals.id) INTO found
    FROM signals JOIN runs ON runs.id = signals.run_id
   WHERE signals.id = ANY (NEW.evidence) AND runs.series_id = NEW.series_id;
  IF found <> cardinality(NEW.evidence) THEN
    RAISE EXCEPTION 'lesson %: % of its % signals exist in its series', NEW.id, found, cardinality(NEW.evidence)
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER born_legal BEFORE INSERT ON yume.lessons FOR EACH ROW EXECUTE FUNCTION yume.check_new_lesson();

-- Its content never changes, its state moves along legal ways, and each move is one entry of its history.
CREATE FUNCTION yume.check_lesson() RETURNS trigger LANGUAGE plpgsql SET search_path = yume, pg_temp AS $$
DECLARE
  entry jsonb;
BEGIN
  IF to_jsonb(NEW) - '{state,history}'::text[] IS DISTINCT FROM to_jsonb(OLD) - '{state,history}'::text[] THEN
    RAISE EXCEPTION 'lesson %: its content never changes; write a new revision', OLD.id
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF jsonb_array_length(NEW.history) < jsonb_array_length(OLD.history)
     OR EXISTS (SELECT FROM jsonb_array_elements(OLD.history) WITH ORDINALITY AS earlier (entry, place)
                 WHERE NEW.history -> (earlier.place - 1)::integer IS DISTINCT FROM earlier.entry) THEN
    RAISE EXCEPTION 'lesson %: history is only added to', OLD.id USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF NEW.state = OLD.state THEN
    RETURN NEW;
  END IF;
  IF NOT (OLD.state, NEW.state) IN (
       ('draft', 'approved'), ('draft', 'archived'),
       ('approved', 'superseded'), ('approved', 'retired'),
       ('superseded', 'approved'), ('superseded', 'archived'),
       ('retired', 'approved'), ('retired', 'archived'),
       ('archived', 'draft')) THEN
    RAISE EXCEPTION 'lesson %: % -> % is no legal transition', OLD.id, OLD.state, NEW.state
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  entry := NEW.history -> -1;
  IF jsonb_array_length(NEW.history) <> jsonb_array_length(OLD.history) + 1
     OR entry ->> 'from' IS DISTINCT FROM OLD.state OR entry ->> 'to' IS DISTINCT FROM NEW.state
     OR jsonb_typeof(entry -> 'by') IS DISTINCT FROM 'string' OR entry ->> 'by' !~ '\S'
     OR coalesce(entry ->> 'why', '') !~ '\S' OR coalesce(entry ->> 'at', '') = '' THEN
    RAISE EXCEPTION 'lesson %: % -> % needs one history entry that says from, to, by, why and at', OLD.id, OLD.state, NEW.state
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF OLD.origin = 'owner' AND entry ->> 'by' ~* '^\W*yume($|[^a-z])' THEN
    RAISE EXCEPTION 'lesson %: an owner''s rule is not changed by Yume', OLD.id
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER moves_legally BEFORE UPDATE ON yume.lessons FOR EACH ROW EXECUTE FUNCTION yume.check_lesson();

-- Who let a series write stays on its row.
CREATE FUNCTION yume.check_series() RETURNS trigger LANGUAGE plpgsql SET search_path = yume, pg_temp AS $$
BEGIN
  IF jsonb_array_length(NEW.promotions) < jsonb_array_length(OLD.promotions)
     OR EXISTS (SELECT FROM jsonb_array_elements(OLD.promotions) WITH ORDINALITY AS earlier (entry, place)
                 WHERE NEW.promotions -> (earlier.place - 1)::integer IS DISTINCT FROM earlier.entry) THEN
    RAISE EXCEPTION 'series %: promotions are only added to', OLD.id USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  IF NEW.mode <> OLD.mode AND jsonb_array_length(NEW.promotions) = jsonb_array_length(OLD.promotions) THEN
    RAISE EXCEPTION 'series %: % -> % needs an entry in promotions that says who and why', OLD.id, OLD.mode, NEW.mode
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER promoted_on_record BEFORE UPDATE ON yume.series FOR EACH ROW EXECUTE FUNCTION yume.check_series();

-- A slot write is settled once; afterwards only its replacement and its announcement are noted.
CREATE FUNCTION yume.check_injection() RETURNS trigger LANGUAGE plpgsql SET search_path = yume, pg_temp AS $$
BEGIN
  IF OLD.status <> 'pending'
     AND to_jsonb(NEW) - '{replaced_at,announced}'::text[] IS DISTINCT FROM to_jsonb(OLD) - '{replaced_at,announced}'::text[] THEN
    RAISE EXCEPTION 'injection %: it is % and cannot change', OLD.id, OLD.status
      USING ERRCODE = 'integrity_constraint_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER settled_once BEFORE UPDATE ON yume.injections FOR EACH ROW EXECUTE FUNCTION yume.check_injection();
