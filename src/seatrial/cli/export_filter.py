"""Which trials somebody wants: `--where task=easy-*`."""

from fnmatch import fnmatchcase
from typing import NamedTuple

import click

from seatrial.store.index import TrialEntry

_KEYS = {"task": "task_id", "trial": "trial_id", "agent": "agent", "outcome": "outcome", "attempt": "attempt"}


class Where(NamedTuple):
    """A key of a trial and the pattern that its value has to be like."""

    key: str
    pattern: str

    def fits(self, entry: TrialEntry) -> bool:
        """Whether a trial is like that."""
        return fnmatchcase(str(getattr(entry, _KEYS[self.key])), self.pattern)


def parse_where(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[Where, ...]:
    """Words like `outcome=pass`. Raises click's BadParameter for anything else."""
    pairs = [value.partition("=") for value in values]
    for key, equals, pattern in pairs:
        if key not in _KEYS or not equals or not pattern:
            known = ", ".join(_KEYS)
            raise click.BadParameter(f"{key + equals + pattern!r}: write KEY=PATTERN; keys are {known}", param=option)
    return tuple(Where(key, pattern) for key, _equals, pattern in pairs)
