from __future__ import annotations

from yume.domain.question import Question


def test_the_same_question_has_the_same_key_whatever_its_wording():
    one = Question("draft", "draft-1", {"items": [1], "language": "en"}, "long text")
    other = Question("draft", "draft-1", {"language": "en", "items": [1]}, "other text")
    assert one.key == other.key


def test_another_body_version_or_step_is_another_question():
    asked = Question("draft", "draft-1", {"items": [1]}, "")
    others = [
        Question("draft", "draft-1", {"items": [2]}, ""),
        Question("draft", "draft-2", {"items": [1]}, ""),
        Question("merge", "draft-1", {"items": [1]}, ""),
    ]
    assert len({asked.key, *(each.key for each in others)}) == 4
