"""What must not be there, looked for in the source; the looking is tested on planted faults."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import yume
from yume.local.practice import pitfalls
from yume.resources import HOLDINGS

PACKAGE = Path(yume.__file__).parent
LOCAL = PACKAGE / "local"
STAGES = PACKAGE / "stages"
SOURCES = {str(path.relative_to(PACKAGE)): path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
PRODUCT = {name: text for name, text in SOURCES.items() if not name.startswith("local/")}
STAGE_FILES = {name: text for name, text in SOURCES.items() if re.match(r"stages/s\d", name)}
COMMANDS = "stages/s8_commands.py"  # S8's other door: what persons ask for the slot
STEPS = {name: text for name, text in STAGE_FILES.items() if name != COMMANDS}

PLACE = re.compile(r"@[a-z]+@")
SPECIFIC = 6  # characters but blanks: `sort -n` is specific, `cat` and `>` are not


parsed = functools.cache(ast.parse)


def imported(source: str) -> set[str]:
    """Return every module or name that a source imports, wherever the import stands."""
    found: set[str] = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def imports(source: str, package: str) -> bool:
    """Say whether a source imports a package or anything in it."""
    return any(f"{name}.".startswith(f"{package}.") for name in imported(source))


def used(source: str, owner: str) -> set[str]:
    """Return the attributes that a source reads of a name, such as `resources`."""
    return {
        node.attr
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Attribute)
        and (
            (isinstance(node.value, ast.Name) and node.value.id == owner)
            or (isinstance(node.value, ast.Attribute) and node.value.attr == owner)
        )
    }


def functions(source: str) -> Iterator[tuple[str, int]]:
    """Return each function with its number of lines."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.end_lineno - node.lineno + 1


def using(attribute: str) -> set[str]:
    """Return the product's modules that read an attribute of `resources`."""
    return {name for name, text in PRODUCT.items() if attribute in used(text, "resources")}


def fragments() -> set[str]:
    """Return what is specific to the practice platform's tasks: their texts, cut at the places for values."""
    found = set()
    for each in pitfalls.load():
        texts = (each.title, each.setup, each.naive, each.remedy, each.check, each.answer)
        rows = [each.name, *(row for text in texts for row in text.splitlines())]
        found |= {part.strip() for row in rows for part in PLACE.split(row)}
    return {part for part in found if len(re.sub(r"\s", "", part)) >= SPECIFIC}


@pytest.mark.parametrize(
    "source",
    [
        "import yume.local",
        "from yume import local",
        "from yume.local.demo import run",
        "def f():\n import yume.local.up",
    ],
)
def test_a_planted_import_is_seen(source):
    assert imports(source, "yume.local")
    assert not imports(source.replace("local", "locality"), "yume.local")


def test_planted_uses_are_seen():
    source = "async def run(b, resources):\n await resources.model.answer(q)\n self.resources.slot(p)"
    assert used(source, "resources") == {"model", "slot"}
    assert dict(functions("async def f():\n pass\n\n\n pass")) == {"f": 5}


# The practice platform


@pytest.mark.parametrize("name", [name for name in PRODUCT if name != "commands/serving.py"])
def test_the_product_imports_nothing_of_the_embedded_default(name):
    assert not imports(PRODUCT[name], "yume.local")


def test_the_command_line_imports_it_only_where_a_command_needs_it():
    at_the_top = [
        node
        for node in ast.parse(PRODUCT["commands/serving.py"]).body
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert not any(imports(ast.unparse(node), "yume.local") for node in at_the_top)
    assert imports(PRODUCT["commands/serving.py"], "yume.local")


def test_the_product_knows_nothing_of_the_practice_platforms_tasks():
    told = fragments()
    assert len(told) > 50
    for each in pitfalls.load():
        assert each.name in told
        assert each.plain or any(part in each.remedy for part in told), each.name
    files = [
        path
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and not path.is_relative_to(LOCAL)
    ]
    assert len(files) > 60
    for path in files:
        text = path.read_text("utf-8")
        assert not [part for part in told if part in text], path


def test_what_is_searched_for_is_found_where_it_belongs():
    text = "".join(path.read_text("utf-8") for path in LOCAL.rglob("*.toml"))
    missed = [part for part in fragments() if part not in text]
    assert not [part for part in missed if "\\" not in part and "\r" not in part]


# Who may do what


def test_a_model_is_asked_in_s3_s4_and_s5_only():
    questions = {
        "stages/s3_classify.py": "yume.asking.label",
        "stages/s4_draft.py": "yume.asking.draft_lessons",
        "stages/s5_merge.py": "yume.asking.merge_drafts",
    }
    assert using("model") == set(questions)
    assert using("held_model") == set()
    passing_on = {"clients/answers.py"}
    assert {name for name, text in PRODUCT.items() if ".answer(" in text} == {"asking.py"} | passing_on
    over_files = {"over_files.py"}
    assert {name for name, text in PRODUCT.items() if imports(text, "yume.asking")} == {
        *questions,
        *over_files,
    }
    for name, question in questions.items():
        asked = {each for each in imported(PRODUCT[name]) if each.startswith("yume.asking.")}
        assert asked == {question}


def test_a_dream_over_files_reaches_no_platform_no_database_and_no_slot():
    for name in ("over_files.py", "asking.py", "commands/files.py"):
        for package in ("yume.store", "yume.clients.platform", "yume.clients.slot", "yume.clients.export"):
            assert not imports(PRODUCT[name], package), (name, package)
        assert "open_resources" not in PRODUCT[name]


def test_an_implementation_of_the_model_is_known_to_resources_only():
    knowing = {name for name, text in PRODUCT.items() if imports(text, "yume.clients.rules")}
    assert {name for name in knowing if not name.startswith("clients/rules/")} == {"resources.py"}


def test_only_s8_opens_the_slot_and_only_s1_the_export():
    assert using("slot") == {"stages/s8_write.py", COMMANDS}
    assert using("export") == {"stages/s1_pull.py"}
    for opened in ("open_slot", "open_export"):
        opening = {
            name for name, text in PRODUCT.items() if opened in text and not name.startswith("clients/")
        }
        assert opening == {"resources.py"}


def test_no_zone_holds_both_a_model_and_a_platforms_credential():
    platform = {"export", "slot"}
    assert HOLDINGS["dream"] == {"archive", "model"}
    assert not HOLDINGS["dream"] & platform
    assert [zone for zone, held in HOLDINGS.items() if "model" in held] == ["dream"]
    assert [zone for zone, held in HOLDINGS.items() if "slot" in held] == ["slot"]
    assert [zone for zone, held in HOLDINGS.items() if "export" in held] == ["ingest"]
    assert all(len(held & platform) <= 1 for held in HOLDINGS.values())


def test_there_are_nine_steps():
    assert len(STEPS) == 9


def caught(source: str) -> set[str]:
    """Return the names of the exceptions that a source catches; a bare `except` catches `everything`."""
    types = [node.type for node in ast.walk(parsed(source)) if isinstance(node, ast.ExceptHandler)]
    return {
        ast.unparse(each) if each else "everything"
        for found in types
        for each in (found.elts if isinstance(found, ast.Tuple) else [found])
    }


# What this one meets is an outcome and no failure: a record that is no use.
OUTCOMES = {
    "stages/s1_pull.py": {"PermanentError", "BrokenRecord", "LostEvidence"},
}


@pytest.mark.parametrize("name", STAGE_FILES)
def test_a_step_catches_no_error(name):
    assert caught(STAGE_FILES[name]) <= OUTCOMES.get(name, set())


def test_a_planted_except_is_seen():
    source = "try:\n pass\nexcept (OSError, a.B):\n pass\nexcept KeyError as e:\n pass\nexcept:\n pass"
    assert caught(source) == {"OSError", "a.B", "KeyError", "everything"}


@pytest.mark.parametrize("name", STAGE_FILES)
def test_a_step_publishes_nothing_and_knows_no_other(name):
    source = STAGE_FILES[name]
    for package in ("faststream", "nats", "yume.stages", "yume.jetstream", "yume.worker", "yume.settle"):
        assert not imports(source, package), package
    assert not re.search(r"\.(store|publish)\(", source)


@pytest.mark.parametrize("name", SOURCES)
def test_nothing_is_imported_from_the_contract_folders(name):
    for folder in ("streams", "schemas", "yume.contracts"):
        assert not imports(SOURCES[name], folder)


def _reads_environment(source: str) -> bool:
    names = {"environ", "environb", "getenv", "putenv", "unsetenv"}
    return bool(names & used(source, "os")) or any(f"os.{name}" in imported(source) for name in names)


def test_the_environment_is_read_in_settings_only():
    assert {name for name, text in SOURCES.items() if _reads_environment(text)} == {"settings.py"}
    assert _reads_environment("from os import environ")


@pytest.mark.parametrize("name", SOURCES)
def test_files_and_functions_stay_short_enough_to_read(name):
    assert len(SOURCES[name].splitlines()) < 300
    assert not [found for found in functions(SOURCES[name]) if found[1] > 70]
