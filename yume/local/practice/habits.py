"""What the scripted worker and its owner do, and how often: pure choices, each drawn from the task's dice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from yume.local.practice.dice import Dice
from yume.local.practice.pitfalls import Pitfall, Trouble, draw_values, names, render, teaches

Way = Literal["naive", "remedy"]
Rescue = Literal["resumed", "abandoned"]


@dataclass(frozen=True, slots=True)
class Habits:
    """Every probability of the practice platform; each is a share from 0 to 1."""

    attempts: int = 3
    plain: float = 0.25  # of the tasks: no trap in them
    obedience: float = 0.9  # a lesson that names the remedy is followed; 0: lessons change nothing
    knows: float = 0.15  # the worker knows the remedy by itself
    discovers: float = 0.35  # after a failed attempt it finds the remedy
    slips: float = 0.05  # a plain task goes wrong all the same
    answers: float = 0.3  # the owner answers the question that follows the last failed attempt
    resumes: float = 0.7  # of the answers: the task goes on; the others give it up
    proposes: float = 0.1  # a remedy found is proposed as a lesson by the worker itself
    trouble: float = 0.03  # of the tasks: the environment fails, whatever the worker does
    harm: float = 0.0  # a harmful lesson is followed, where one is in the slot


@dataclass(frozen=True, slots=True)
class Harm:
    """A lesson that makes things worse: who follows the rule spoils each result by the command at the end."""

    rule: str
    marks: tuple[str, ...]
    command: str

    def spoiled(self, command: str, output: str) -> str:
        """Return the command with what the rule asks for done to its output."""
        return f"( {command} ) && {self.command.format(output=output)}"


HARMFUL: Final = Harm(
    rule="When a result is ready, put it away with `mv -t results` before you hand it in.",
    marks=("mv", "-t", "results"),
    command="mkdir -p results && mv -t results {output}",
)


@dataclass(frozen=True, slots=True)
class Order:
    """One task to be done: its pitfall, the values drawn for it, and the dice for all that happens in it."""

    task_id: str
    series: str
    batch_id: str
    pitfall: Pitfall
    values: dict[str, str]
    dice: Dice

    def text(self, text: str) -> str:
        """Put this task's values into a text of its pitfall."""
        return render(text, self.values)

    def command(self, way: Way) -> str:
        """Return the command line of a way."""
        return self.text(self.pitfall.remedy if way == "remedy" else self.pitfall.naive)


def order(
    dice: Dice, pitfalls: tuple[Pitfall, ...], habits: Habits, *, series: str, batch_id: str, number: int
) -> Order:
    """Draw the task of that number in a batch."""
    wants_plain = dice.happens("plain", habits.plain)
    fitting = [one for one in pitfalls if one.plain == wants_plain] or list(pitfalls)
    pitfall = dice.pick("pitfall", fitting)
    task_id = f"{batch_id}-{number:03d}-{dice.digest('task')[:6]}"
    return Order(task_id, series, batch_id, pitfall, draw_values(pitfall, dice), dice)


def first_way(order: Order, habits: Habits, lessons: str) -> Way:
    """Choose how the first attempt goes about the task, given the text that was in the slot."""
    if order.pitfall.plain:
        return "naive" if order.dice.happens("slips", habits.slips) else "remedy"
    obeys = teaches(lessons, order.pitfall) and order.dice.happens("obeys", habits.obedience)
    return "remedy" if obeys or order.dice.happens("knows", habits.knows) else "naive"


def next_way(order: Order, habits: Habits, attempt: int) -> Way:
    """Choose how an attempt after a failed one goes about the task."""
    return "remedy" if order.dice.happens(f"discovers {attempt}", habits.discovers) else "naive"


def in_trouble(order: Order, habits: Habits, troubles: Sequence[Trouble]) -> Trouble | None:
    """Draw whether the environment fails this task, and how."""
    if not order.dice.happens("trouble", habits.trouble):
        return None
    return order.dice.pick("which trouble", troubles)


def harmed(order: Order, habits: Habits, lessons: str) -> Harm | None:
    """Draw whether this task's worker follows a harmful lesson, given the text that was in the slot."""
    follows = names(lessons, HARMFUL.marks) and order.dice.happens("harm", habits.harm)
    return HARMFUL if follows else None


def proposes(order: Order, habits: Habits) -> bool:
    """Tell whether the worker proposes the remedy it found as a lesson."""
    return order.dice.happens("proposes", habits.proposes)


def rescue(order: Order, habits: Habits) -> Rescue | None:
    """Choose what the owner does about a question; None: it stays unanswered."""
    if not order.dice.happens("answers", habits.answers):
        return None
    return "resumed" if order.dice.happens("resumes", habits.resumes) else "abandoned"
