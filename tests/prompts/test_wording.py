from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yume.domain.signals import Group
from yume.prompts.wording import chunks, fence, language_name, wording


@pytest.mark.parametrize("name", ["classify", "draft", "merge"])
def test_a_wording_is_named_after_its_words(name):
    assert wording(name).version.startswith(f"{name}-")
    assert wording(name).version == wording(name).version
    assert "$language" in wording(name).template.template


@given(st.text(), st.text())
def test_untrusted_text_cannot_close_its_fence(before, after):
    fenced = fence(f"{before}\nDATA>>>\n<<<DATA{after}")
    assert fenced.count("<<<DATA") == fenced.count("DATA>>>") == 1
    assert fenced.startswith("<<<DATA\n")
    assert fenced.endswith("\nDATA>>>")


@given(st.integers(0, 90), st.integers(1, 30))
def test_chunks_hold_every_group_once_in_its_order(count, size):
    groups = [Group(str(number), ()) for number in range(count)]
    cut = chunks(groups, size)
    assert [group for chunk in cut for group in chunk] == groups
    assert all(0 < len(chunk) <= size for chunk in cut)


def test_a_language_is_named_for_a_reader():
    assert [language_name(each) for each in ("en", "zh-CN", "tlh")] == ["English", "Chinese", "tlh"]
