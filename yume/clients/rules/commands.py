"""What several commands have in common, with the parts in which they differ left open."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Final

OPEN: Final = "…"
LONGEST: Final = 400  # a longer command is a program, not an advice
SHARE: Final = 0.5  # of the shorter command that both must have in common

_WORD: Final = re.compile(r"""(?:'[^']*'|"[^"]*"|[^\s'"])+|['"]""")
_PROMPT: Final = re.compile(r"^\s*(?:\$|#|>)\s+")
_OPERATOR: Final = re.compile(r"\d?[<>|&;]+\d?")
_REDIRECTED: Final = re.compile(r"\d?(?:>>?|<)")
# Looks like one task's own: a figure, a path, a file. An option does not, nor does a quoted program.
_FIGURE: Final = r"[\w.,:+-]*\d[\w.,:+-]*"
_PATH: Final = r"[\w.~-]*/[\w./~-]*"
_FILE: Final = r"[\w-]+\.\w{1,8}"
_FILES: Final = re.compile(rf"""(?!-)(['"]?)(?:{_PATH}|{_FILE})\1""")
_OWN: Final = re.compile(rf"""(?!-)(['"]?)(?:{_FIGURE}|{_PATH}|{_FILE})\1""")


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A command with open places, and the tasks that used it."""

    words: tuple[str, ...]
    tasks: tuple[int, ...]

    @property
    def fixed(self) -> int:
        """Return how many words it prescribes; operators between commands do not count."""
        return sum(1 for word in self.words if word != OPEN and not _OPERATOR.fullmatch(word))

    def __str__(self) -> str:
        """Return it as one would type it."""
        return " ".join(self.words)


def skeleton(commands: Mapping[int, Sequence[str]]) -> Skeleton | None:
    """Return the command that most tasks share and that prescribes most; None without any command."""
    by_task = {task: [words for each in texts if (words := _words(each))] for task, texts in commands.items()}
    found = [_shared(task, words, by_task) for task, texts in by_task.items() for words in texts]
    return max(found, key=lambda each: (min(len(each.tasks), 2), each.fixed * len(each.tasks)), default=None)


def common(left: Sequence[str], right: Sequence[str]) -> tuple[str, ...]:
    """Return the words that both have in this order, with one open place wherever one of them has others."""
    made: list[str] = []
    at_left = at_right = 0
    for block in SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks():
        if block.a > at_left or block.b > at_right:
            made.append(OPEN)
        made += left[block.a : block.a + block.size]
        at_left, at_right = block.a + block.size, block.b + block.size
    return _closed_up(made)


def open_up(words: Sequence[str]) -> tuple[str, ...]:
    """Leave open what looks like one task's own; the first word names the program and stays."""
    return open_targets([*words[:1], *(OPEN if _OWN.fullmatch(word) else word for word in words[1:])])


def open_files(words: Sequence[str]) -> tuple[str, ...]:
    """Leave open the files of a command: two tasks with one file name are a coincidence."""
    return open_targets([*words[:1], *(OPEN if _FILES.fullmatch(word) else word for word in words[1:])])


def open_targets(words: Sequence[str]) -> tuple[str, ...]:
    """Leave open where a command reads from and writes to."""
    made = list(words[:1])
    for before, word in pairwise(words):
        made.append(OPEN if _REDIRECTED.fullmatch(before) else word)
    return _closed_up(made)


def _shared(task: int, words: tuple[str, ...], by_task: Mapping[int, Sequence[tuple[str, ...]]]) -> Skeleton:
    shared, tasks = words, [task]
    for other, texts in by_task.items():
        if other == task:
            continue
        nearest = max((common(shared, each) for each in texts if _near(shared, each)), key=len, default=None)
        if nearest is not None:
            shared = nearest
            tasks.append(other)
    return Skeleton(open_up(words) if len(tasks) == 1 else open_files(shared), tuple(sorted(tasks)))


def _near(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    both = sum(1 for word in common(left, right) if word != OPEN)
    return left[0] == right[0] and both >= SHARE * min(len(left), len(right))


def _words(command: str) -> tuple[str, ...]:
    """Split as a shell would, quotes kept; a command that a code span cannot hold gives nothing."""
    if "`" in command or "\n" in command.strip() or len(command) > LONGEST:
        return ()
    return tuple(_WORD.findall(_PROMPT.sub("", command)))


def _closed_up(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        word for place, word in enumerate(words) if word != OPEN or place == 0 or words[place - 1] != OPEN
    )
