"""The reference cases, and that a figure that differs is seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from yume.bench.cases import FUNCTIONS, check
from yume.errors import PermanentError

CASES = Path(__file__).parents[3] / "shared" / "cases" / "measurement.json"


def test_every_figure_of_the_reference_cases_is_reproduced():
    if not CASES.is_file():
        pytest.skip("the reference cases (../shared/cases) are not on this machine")
    checked = check(CASES)
    assert [each for each in checked if each.differences] == []
    assert {each.function for each in checked} == set(FUNCTIONS)


@pytest.fixture
def one(tmp_path):
    def run(**case):
        path = tmp_path / "cases.json"
        path.write_text(
            json.dumps(
                {
                    "cases": [
                        {
                            "fn": "wilson",
                            "name": "n",
                            "input": {"x": 12, "n": 40, "alpha": 0.05},
                            "expected": {},
                        }
                        | case
                    ]
                }
            )
        )
        (checked,) = check(path)
        return checked.differences

    return run


@pytest.mark.parametrize(
    "expected", [{"lo": 0.18076}, {"lo": None}, {"nothing": 1.0}, {"rate": True}, {"lo": [0.180748]}]
)
def test_a_figure_that_differs_is_named(one, expected):
    assert one(expected={"lo": 0.180748, "hi": 0.4543}) == ()
    (difference,) = one(expected=expected)
    assert difference.startswith(next(iter(expected)))


def test_an_unknown_function_is_a_difference(one):
    assert one(fn="magic") == ("no such function",)


@pytest.mark.parametrize("content", ["", "{}", '{"cases": [{}]}', "[1]"])
def test_a_file_without_cases_is_refused(tmp_path, content):
    path = tmp_path / "cases.json"
    path.write_text(content)
    with pytest.raises(PermanentError, match="holds no cases"):
        check(path)
    with pytest.raises(PermanentError, match="cannot be read"):
        check(tmp_path / "none.json")
