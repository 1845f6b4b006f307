"""Reading a TOML table key by key: typed values out, problems with file, key and reason collected, nothing dropped.

A wrong value is reported and its default used, so that one reading finds every problem of a file.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from seatrial.model.base import plain
from seatrial.model.loaded_task import Problem, Severity

Choice = TypeVar("Choice", bound=str)
Value = TypeVar("Value")
_HUGE = 1e300
_NUMBERS = (int, float)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def is_huge(value: object) -> bool:
    """Whether a value is an integer with more digits than Python agrees to print."""
    return isinstance(value, int) and value.bit_length() > 4096


def show(value: object) -> str:
    """A value for a message, whatever it is."""
    try:
        return repr(plain(value))
    except (ValueError, RecursionError):
        return "a value too large to show"


class Report:
    """What reading one file brought to light."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.extra: dict[str, Any] = {}

    def add(self, code: str, severity: Severity, key: str | None, message: str, fix: str | None = None) -> None:
        self.problems.append(Problem(code=code, severity=severity, file=self.file, key=key, message=message, fix=fix))

    def wrong(self, key: str, expected: str, found: object) -> None:
        """Keep the problem of a value that is not what its key asks for."""
        shown = show(found)
        message = f"found {shown if len(shown) <= 60 else shown[:60] + '…'}, expected {expected}"
        self.add("bad-value", "error", key, message, f"set `{key}` to {expected}")

    @contextmanager
    def forgiving(self) -> Iterator[None]:
        """A block that reads what only describes the task: what is wrong there is no reason not to run it."""
        start = len(self.problems)
        yield
        for index, problem in enumerate(self.problems[start:], start):
            if problem.severity == "error":
                self.problems[index] = problem.model_copy(update={"severity": "warning"})


class Table:
    """One table of the file; `done` reports the keys nobody asked for.

    The typed readers below repeat the two lines of `take`: they run some fifty times per task, mostly on absent keys.
    """

    def __init__(self, values: dict[str, Any], path: str, report: Report) -> None:
        self._values = values
        self._path = path
        self._asked: set[str] = set()
        self.report = report

    def key(self, name: str) -> str:
        """The full name of a key, for messages."""
        bare = (name.isascii() and name.isidentifier()) or _BARE_KEY.fullmatch(name)
        quoted = name if bare else f'"{name}"'
        return f"{self._path}.{quoted}" if self._path else quoted

    def take(self, name: str) -> Any:
        """The raw value, None when absent; the key counts as known from now on."""
        self._asked.add(name)
        return self._values.get(name)

    def peek(self, name: str) -> Any:
        """The raw value without making the key known."""
        return self._values.get(name)

    def text(self, name: str) -> str | None:
        self._asked.add(name)
        value = self._values.get(name)
        if value is None or isinstance(value, str):
            return value
        self.report.wrong(self.key(name), "text", value)
        return None

    def number(self, name: str, *, above: float | None = None, least: float | None = None) -> float | None:
        """A finite number, whole or not, optionally above or at least a bound."""
        self._asked.add(name)
        value = self._values.get(name)
        if value is None:
            return None
        # Written as a range because math.isfinite fails on an integer too large for a float.
        fits = isinstance(value, _NUMBERS) and not isinstance(value, bool) and -_HUGE < value < _HUGE
        if fits and (above is None or value > above) and (least is None or value >= least):
            return float(value)
        bound = f" above {above:g}" if above is not None else f" of at least {least:g}" if least is not None else ""
        self.report.wrong(self.key(name), f"a number{bound}", value)
        return None

    def whole(self, name: str, *, least: int) -> int | None:
        """A whole number; 2.0 is one too."""
        self._asked.add(name)
        value = self._values.get(name)
        if value is None:
            return None
        if isinstance(value, _NUMBERS) and not isinstance(value, bool) and least <= value < _HUGE and value % 1 == 0:
            return int(value)
        self.report.wrong(self.key(name), f"a whole number of at least {least}", value)
        return None

    def flag(self, name: str) -> bool | None:
        self._asked.add(name)
        value = self._values.get(name)
        if value is None or isinstance(value, bool):
            return value
        self.report.wrong(self.key(name), "true or false", value)
        return None

    def choice(self, name: str, options: Sequence[Choice], aliases: dict[str, Choice] | None = None) -> Choice | None:
        """One of a few words, whatever its case."""
        self._asked.add(name)
        value = self._values.get(name)
        if value is None:
            return None
        word = value.lower() if isinstance(value, str) else value
        word = (aliases or {}).get(word, word) if isinstance(word, str) else word
        if word in options:
            return options[options.index(word)]
        self.report.wrong(self.key(name), f"one of {', '.join(options)}", value)
        return None

    def texts(self, name: str) -> tuple[str, ...]:
        self._asked.add(name)
        value = self._values.get(name)
        if value is None:
            return ()
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        self.report.wrong(self.key(name), "a list of texts", value)
        return ()

    def variables(self, name: str) -> dict[str, str]:
        """A table of environment variables; numbers and booleans are written out."""
        found: dict[str, str] = {}
        if self.take(name) in (None, {}):
            return found
        table = self.table(name)
        for key in table.names():
            value = table.take(key)
            if isinstance(value, str | int | float) and not is_huge(value):
                found[key] = str(value).lower() if isinstance(value, bool) else str(value)
            else:
                self.report.wrong(table.key(key), "text", value)
        return found

    def names(self) -> Iterable[str]:
        return self._values.keys()

    def has(self, name: str) -> bool:
        return name in self._values

    def table(self, name: str) -> "Table":
        """A table within; an absent one is empty."""
        value = self.take(name)
        if value is not None and not isinstance(value, dict):
            self.report.wrong(self.key(name), "a table", value)
            value = None
        return Table(value or {}, self.key(name), self.report)

    def read(self, name: str, reader: Callable[["Table"], Value]) -> Value | None:
        """What `reader` makes of a table within, None when it is absent."""
        if name not in self._values:
            self._asked.add(name)
            return None
        return reader(self.table(name))

    def tables(self, name: str) -> list["Table"]:
        """A list of tables within."""
        value = self.take(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.report.wrong(self.key(name), "a list of tables", value)
            return []
        return [Table(item, f"{self.key(name)}[{index}]", self.report) for index, item in enumerate(value)]

    def done(self) -> None:
        """Keep and report every key nobody asked for."""
        if self._values.keys() <= self._asked:
            return
        for name in [name for name in self._values if name not in self._asked]:
            self.report.extra[self.key(name)] = plain(self._values[name])
            near = difflib.get_close_matches(name, self._asked - self._values.keys(), n=1, cutoff=0.8)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            fix = f"rename it to `{near[0]}`" if near else "remove it, or move it into [metadata]"
            self.report.add("unknown-key", "warning", self.key(name), f"unknown key, kept but not used{hint}", fix)


def given(**values: Any) -> dict[str, Any]:
    """The values that were given; the rest keep the type's defaults."""
    return {name: value for name, value in values.items() if value is not None}
