r"""Filters: which trials somebody wants, as `outcome=fail,task=sort-*` says it.

Conditions with a comma between them must all hold, and `|` in a value means one or the other; `\,` and `\|` are the
characters themselves. Words are compared as patterns (`*`, `?`, `[ab]`), numbers as numbers.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import get_args

from seatrial.errors import UsageError
from seatrial.model.job import TaskLabels
from seatrial.model.record import Outcome
from seatrial.store.index import TrialEntry

NO_LABELS = TaskLabels()

_Words = Callable[[TrialEntry, TaskLabels], Iterable[str | None]]
_Number = Callable[[TrialEntry], float | None]


def _tokens(trial: TrialEntry) -> int | None:
    if trial.input_tokens is None and trial.output_tokens is None:
        return None
    return (trial.input_tokens or 0) + (trial.output_tokens or 0)


_PLANNED_WORDS: Mapping[str, _Words] = {
    "task": lambda trial, _: (trial.task_id,),
    "agent": lambda trial, _: (trial.agent,),
    "trial": lambda trial, _: (trial.trial_id,),
    "task_tag": lambda _, labels: labels.tags,
    "category": lambda _, labels: (labels.category,),
    "difficulty": lambda _, labels: (labels.difficulty,),
    "family": lambda _, labels: (labels.family,),
}
_WORDS: Mapping[str, _Words] = {
    **_PLANNED_WORDS,
    "outcome": lambda trial, _: (trial.outcome,),
    "tag": lambda trial, _: (*trial.tags, *(tag.partition(":")[2] for tag in trial.tags)),
    "step": lambda trial, _: (trial.failed_step,),
    "warning": lambda trial, _: trial.warnings,
    "disputed": lambda trial, _: ("no" if trial.disputed_reward is None else "yes",),
}
_NUMBERS: Mapping[str, _Number] = {
    "attempt": lambda trial: trial.attempt,
    "reward": lambda trial: trial.reward,
    "cost": lambda trial: trial.cost_usd,
    "time": lambda trial: trial.duration_sec,
    "tokens": _tokens,
    "tries": lambda trial: trial.tries,
    "revision": lambda trial: trial.revision,
}
_CLOSED: Mapping[str, tuple[str, ...]] = {"outcome": get_args(Outcome), "disputed": ("yes", "no")}
_PLANNED = frozenset({*_PLANNED_WORDS, "attempt"})
KEYS = (*_WORDS, *_NUMBERS)
"""By what trials can be chosen."""

_ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_CONDITION = re.compile(r"\s*([A-Za-z_-]*)\s*(!=|<=|>=|=|<|>)(.*)", re.DOTALL)
_PIECE = re.compile(r"(?:\\[,|\\]|[^,])+")
_CHOICE = re.compile(r"(?:\\[,|\\]|[^|])+")
_ESCAPED = re.compile(r"\\([,|\\])")


@dataclass(frozen=True, slots=True)
class TrialCondition:
    """What one key of a trial has to be like: one of `values`, or with `!=` none of them."""

    key: str
    relation: str
    values: tuple[str, ...]
    text: str

    @property
    def is_planned(self) -> bool:
        """Whether it can be told of a trial that has not run yet."""
        return self.key in _PLANNED

    def fits(self, trial: TrialEntry, labels: TaskLabels = NO_LABELS) -> bool:
        """Whether a trial is like that. What is not known is like nothing, and neither less nor more than a number."""
        if self.relation in _ORDERS:
            number = _NUMBERS[self.key](trial)
            return number is not None and _ORDERS[self.relation](number, float(self.values[0]))
        return self._is_like(trial, labels) == (self.relation == "=")

    def _is_like(self, trial: TrialEntry, labels: TaskLabels) -> bool:
        if self.key in _WORDS:
            found = [word for word in _WORDS[self.key](trial, labels) if word is not None]
            return any(value == word or fnmatchcase(word, value) for value in self.values for word in found)
        number = _NUMBERS[self.key](trial)
        return number is not None and any(_is_number_like(number, value) for value in self.values)


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions that must all hold. Without any, every trial fits."""

    conditions: tuple[TrialCondition, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.conditions)

    def __str__(self) -> str:
        return ",".join(condition.text for condition in self.conditions)

    @property
    def is_planned(self) -> bool:
        """Whether it can be told of trials that have not run yet: it asks which they are, and for labels of tasks."""
        return all(condition.is_planned for condition in self.conditions)

    def fits(self, trial: TrialEntry, labels: TaskLabels = NO_LABELS) -> bool:
        """Whether a trial of a task with these labels is wanted."""
        return all(condition.fits(trial, labels) for condition in self.conditions)


EVERY_TRIAL = Filter()


def parse_filter(*texts: str) -> Filter:
    """Read filters such as `outcome=fail,task=x*`, all of which must hold. Raises UsageError for anything else."""
    return Filter(tuple(_parse_condition(piece) for text in texts for piece in _pieces(text)))


def _pieces(text: str) -> list[str]:
    pieces = _PIECE.findall(text)
    commas = len(_PIECE.sub("", text))
    if len(pieces) != commas + 1 or not all(map(str.strip, pieces)):
        raise UsageError(f"{text!r}: a condition is empty; write KEY=PATTERN, with a comma between two of them")
    return pieces


def _parse_condition(text: str) -> TrialCondition:
    found = _CONDITION.fullmatch(text)
    if not found:
        raise UsageError(
            f"{text.strip()!r} is no condition; write KEY=PATTERN, and KEY=ONE|OTHER for one or the other; "
            rf"a comma in a name is written \,; keys are {', '.join(KEYS)}"
        )
    key, relation, rest = found.groups()
    if key not in KEYS:
        raise UsageError(f"{text.strip()!r}: there is no key {key!r}{_near(key, KEYS)}; keys are {', '.join(KEYS)}")
    values = tuple(_ESCAPED.sub(r"\1", value.strip()) for value in _CHOICE.findall(rest))
    if not values or not all(values):
        raise UsageError(f"{text.strip()!r}: there is nothing after {relation!r}; write {key}{relation}VALUE")
    for value in values:
        _check(text.strip(), key, relation, value)
    if relation in _ORDERS and len(values) > 1:
        raise UsageError(f"{text.strip()!r}: {relation!r} takes one number, found {len(values)}")
    return TrialCondition(key, relation, values, text.strip())


def _check(text: str, key: str, relation: str, value: str) -> None:
    if key in _NUMBERS:
        is_pattern = relation not in _ORDERS and any(sign in value for sign in "*?[")
        if not is_pattern and _number(value) is None:
            raise UsageError(f"{text!r}: {key} is a number, found {value!r}")
    elif relation in _ORDERS:
        more = ", ".join(_NUMBERS)
        raise UsageError(f"{text!r}: {key} is a word, so write {key}=PATTERN; {relation!r} is for {more}")
    elif key in _CLOSED and not any(fnmatchcase(word, value) for word in _CLOSED[key]):
        known = _CLOSED[key]
        raise UsageError(f"{text!r}: no {key} is like {value!r}{_near(value, known)}; there are {', '.join(known)}")


def _near(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word.lower(), [*known], n=1)
    return f"; did you mean {near[0]!r}" if near else ""


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _is_number_like(number: float, value: str) -> bool:
    wanted = _number(value)
    return fnmatchcase(f"{number:.15g}", value) if wanted is None else number == wanted
