"""Each named query is used where it belongs, and Postgres takes it on the schema as it is."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import yume.store
from yume.store import queries

STORE = Path(yume.store.__file__).parent
GROUPS = sorted(path.stem for path in STORE.glob("*.sql"))
NAMED = [
    pytest.param(group, name, id=f"{group}.{name}")
    for group in GROUPS
    for name in queries.load(f"{group}.sql")
]


def used_in(source: str) -> set[str]:
    """Return the names that a module looks up in its `SQL`."""
    return {
        node.slice.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "SQL"
        and isinstance(node.slice, ast.Constant)
    }


def test_every_group_of_tables_has_its_queries_and_its_module():
    groups = [
        "access",
        "batches",
        "dreams",
        "effects",
        "evidence",
        "lessons",
        "measured",
        "overview",
        "recurrence",
    ]
    assert groups == GROUPS
    assert all((STORE / f"{group}.py").is_file() for group in GROUPS)


@pytest.mark.parametrize("group", GROUPS)
def test_a_module_uses_each_of_its_queries_and_no_other(group):
    used = used_in((STORE / f"{group}.py").read_text("utf-8"))
    assert used == set(queries.load(f"{group}.sql"))


def test_a_lookup_is_seen():
    assert used_in('async def f(db): await db.fetch(SQL["one"], OTHER["two"])') == {"one"}


@pytest.mark.parametrize("group", GROUPS)
def test_a_name_stands_for_one_query(group):
    names = re.findall(r"^-- name: (.+)$", (STORE / f"{group}.sql").read_text("utf-8"), re.MULTILINE)
    assert len(names) == len(set(names)) == len(queries.load(f"{group}.sql"))


@pytest.mark.parametrize(("group", "name"), NAMED)
async def test_postgres_prepares_the_query(prepared, group, name):
    await prepared(queries.load(f"{group}.sql")[name])


async def test_a_query_that_names_no_column_of_ours_is_noticed(prepared):
    with pytest.raises(AssertionError, match="no_such_column"):
        await prepared("SELECT no_such_column FROM yume.runs")


@pytest.mark.parametrize(("group", "name"), NAMED)
def test_a_query_says_what_each_of_its_arguments_is(group, name):
    sql = queries.load(f"{group}.sql")[name]
    comment, _, statement = re.match(r"((?:--[^\n]*\n)*)()(.*)", sql, re.DOTALL).groups()
    numbers = sorted({int(number) for number in re.findall(r"\$(\d+)", statement)})
    assert numbers == list(range(1, len(numbers) + 1))
    told = {int(number) for number in re.findall(r"\$(\d+)", comment)}
    arrays = "then one array a column" in comment
    assert told == set(numbers) or (arrays and told < set(numbers))
