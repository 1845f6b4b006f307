"""The other conditions under which a verifier is asked again, one by one and all together, and what each would mean."""

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.check import python_start
from seatrial.trial.verification import USUAL_CONDITIONS, VerifierConditions

if TYPE_CHECKING:
    from seatrial.check.python_start import Order


_LATER_SEC = 400 * 86400
_ZONE = "Pacific/Kiritimati"  # 14 hours before UTC: another day most of the time
_LOCALE = "C.UTF-8"  # there in every image; a locale that is missing makes some programs complain


@lru_cache(maxsize=8)
def startup_file(shift_sec: int = 0, order: "Order" = "usual") -> bytes:
    """A sitecustomize.py. With neither a shift nor an order it changes nothing, and shows what it does by itself."""
    source = Path(python_start.__file__).read_text(encoding="utf-8")
    return f"{source}\n\ninstall({shift_sec!r}, {order!r})\n".encode()


@dataclass(frozen=True, slots=True)
class PythonStart:
    """What Pythons find another one: the date, so many seconds later, and the order of directories."""

    shift_sec: int = 0
    order: "Order" = "usual"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition, and how to get rid of the dependence on it."""

    code: str
    """Names its finding, and with `variant` its case."""
    words: str
    """What follows a reward in the finding."""
    fix: str
    worth: int
    others: VerifierConditions = USUAL_CONDITIONS
    python: PythonStart | None = None
    """Set by a file that Pythons load at their start."""
    variant: str = ""
    rare: bool = False
    """The same in all trials of a task, so that rewards depend on it only later or elsewhere."""

    @property
    def name(self) -> str:
        return f"{self.code}-{self.variant}" if self.variant else self.code

    @property
    def conditions(self) -> VerifierConditions:
        if self.python is None:
            return self.others
        return replace(self.others, python_start=startup_file(self.python.shift_sec, self.python.order))


def _hash_seed(seed: int) -> Condition:
    return Condition(
        code="hash-seed",
        variant=str(seed),
        words=f"with PYTHONHASHSEED={seed}",
        fix="sort what comes out of a set before it is compared, or set PYTHONHASHSEED in [verifier.env] of task.toml",
        others=VerifierConditions(unset_env={"PYTHONHASHSEED": str(seed)}),
        worth=45,
    )


_ORDER_FIX = "sort the names of files before they are used"
NETWORK = Condition(
    code="network",
    words="without a network",
    fix="bring what tests need with the image, or say in [verifier] of task.toml which hosts they need",
    others=VerifierConditions(network="none"),
    worth=40,
)
CONTROL = Condition(
    code="python-start",
    words="with a file that Python loads at its start, which changes nothing",
    fix="have the verifier not depend on how its Python starts",
    python=PythonStart(),
    worth=36,
    rare=True,
)
"""If this makes a difference by itself, nothing that is tried by such a file says anything."""

ONE_BY_ONE = (
    _hash_seed(1),
    _hash_seed(2),
    NETWORK,
    Condition(
        code="one-cpu",
        words="on one processor",
        fix="leave tests more time, and do not count on what runs at the same time",
        others=VerifierConditions(one_cpu=True),
        worth=40,
    ),
    Condition(
        code="directory-order",
        variant="sorted",
        words="where Python lists directories from A to Z",
        fix=_ORDER_FIX,
        python=PythonStart(order="sorted"),
        worth=37,
    ),
    Condition(
        code="directory-order",
        variant="reversed",
        words="where Python lists directories from Z to A",
        fix=_ORDER_FIX,
        python=PythonStart(order="reversed"),
        worth=37,
    ),
    Condition(
        code="date",
        words="with a date 400 days later",
        fix="compare with a date that the task fixes; if it is meant to depend on the day, accept this finding",
        python=PythonStart(_LATER_SEC),
        worth=37,
        rare=True,
    ),
    Condition(
        code="time-zone",
        words=f"with TZ={_ZONE}",
        fix="compare times in UTC, or set TZ in [verifier.env] of task.toml",
        others=VerifierConditions(unset_env={"TZ": _ZONE}),
        worth=30,
        rare=True,
    ),
    Condition(
        code="locale",
        words=f"with LANG={_LOCALE}",
        fix="name the encoding wherever files are read, or set LANG in [verifier.env] of task.toml",
        others=VerifierConditions(unset_env={"LANG": _LOCALE}),
        worth=30,
        rare=True,
    ),
)
ALL_TOGETHER = Condition(
    code="all-together",
    words=f"with another hash seed, TZ={_ZONE}, LANG={_LOCALE}, a date 400 days later, directories listed from Z to A, "
    "and on one processor",
    fix="have the verdict follow from the work that is judged alone",
    others=VerifierConditions(
        unset_env={"PYTHONHASHSEED": "1", "TZ": _ZONE, "LANG": _LOCALE},
        one_cpu=True,
    ),
    python=PythonStart(_LATER_SEC, "reversed"),
    worth=20,
    rare=True,
)
NOT_VARIED = (
    "the date and the order of directories are other ones for Python programs only; variables that the task or its "
    "image sets stay as they are; one processor needs taskset in the image"
)
