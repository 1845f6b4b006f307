"""What a check tries: cases, each one verification of an end state, and the verdict that came of it.

A check is a module with two functions. `cases(subject)` says what to try, without trying it. `findings(subject,
verdicts)` says what the verdicts mean, by the ids of their cases; a case that was not tried has none. Both are pure.
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from seatrial.model.check import CheckFinding, CheckId, CheckOutcome
from seatrial.model.evaluation import EvaluationResult
from seatrial.model.loaded_task import Task
from seatrial.model.outcome import PASS_THRESHOLD, Outcome
from seatrial.model.output import OutputFormat
from seatrial.trial.end_state import Edit
from seatrial.trial.verification import USUAL_CONDITIONS, VerifierConditions

UNTOUCHED = "untouched"
ORACLE = "oracle"
"""Names of end states; those of golden answers are `golden/pass`, `golden/fail/NAME` and so on."""

_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9._/+-]+")


def case_id(check: CheckId, *parts: str) -> str:
    """An id that is short, the same in every run, and needs no quotes in a shell."""
    return "/".join([check, *(_NOT_IN_IDS.sub("_", part)[:60].strip("/") or "_" for part in parts)])


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to try. The verifier judges `state` after `edits`, under `conditions`."""

    id: str
    check: CheckId
    state: str = UNTOUCHED
    edits: tuple[Edit, ...] = ()
    conditions: VerifierConditions = USUAL_CONDITIONS
    command: str | None = None
    """Run by an agent in the untouched environment, after `edits`; its trial is judged as any other."""
    worth: int = 0
    """When time is short, higher ones go first."""


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """What a verifier said to a case."""

    case: str
    evaluation: EvaluationResult | None
    outcome: Outcome | None = None
    """What a trial would have been called."""
    duration_sec: float = 0.0
    exit_code: int | None = None
    timed_out: bool = False
    failure: str | None = None
    """Why the verifier could not be asked; then there is no evaluation."""
    log: str = ""
    """The end of what it printed."""
    remade: str | None = None
    """A file of the case that the verifier wrote again itself, so that it never judged the case's own."""

    @property
    def reward(self) -> float | None:
        """The reward, None where there was no verdict."""
        return self.evaluation.reward if self.evaluation else None

    @property
    def tags(self) -> frozenset[str]:
        return frozenset(tag.category for tag in (self.evaluation.error_taxonomy if self.evaluation else None) or ())


@dataclass(frozen=True, slots=True)
class AcceptedAnswer:
    """An output file that was accepted: whose it is, where it lies, what it says, and in which format."""

    state: str
    path: str
    content: bytes
    format: OutputFormat | None
    reward: float


@dataclass(frozen=True, slots=True)
class Subject:
    """A task as checks see it."""

    task: Task
    name: str
    """How a user calls it on the command line."""
    instruction: str
    tests: Mapping[str, bytes]
    """Its small test files."""
    states: Mapping[str, CaseVerdict]
    """Those that exist, each with its own verdict; of a task with steps those of the last one."""
    answers: tuple[AcceptedAnswer, ...] = ()
    """The accepted ones: the declared output first, then other files that the solution wrote."""
    pass_threshold: float = PASS_THRESHOLD
    repeats: int = 5
    options: Sequence[str] = field(default=())
    """Other words of the command line that a case needs to be tried again, such as `--image host`."""
    trials: Mapping[str, CaseVerdict] = field(default_factory=dict)
    """Verdicts on whole trials of a task with steps."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """States that could not be made, with the reason."""
    remarks: tuple[str, ...] = ()
    """What else was left out, and why."""

    def reproduce(self, case: str) -> str:
        """The command that tries one case again and shows what the verifier said."""
        return self.check_again("--case", case)

    def check_again(self, *words: str) -> str:
        """The command that checks the task once more, with some further words."""
        return shlex.join(["seatrial", "check", self.name, *self.options, *words])

    def whole_trial(self, state: str) -> CaseVerdict | None:
        """The verdict on all that was done for a state; in a task with steps, on all of them together."""
        return self.trials.get(state) or self.states.get(state)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What came of a check: how it went, and what it found."""

    outcome: CheckOutcome
    findings: Sequence[CheckFinding] = ()


class Check(Protocol):
    """A module of this package that tries one thing."""

    @property
    def CHECK(self) -> CheckId:  # noqa: N802 - a constant of the module
        """Which check it is."""
        ...

    @property
    def TITLE(self) -> str:  # noqa: N802 - as above
        """What it is about, in a few words."""
        ...

    def cases(self, subject: Subject) -> Iterable[Case]:
        """What to try."""
        ...

    def findings(self, subject: Subject, verdicts: Mapping[str, CaseVerdict]) -> CheckResult:
        """What came of it; the battery adds how many cases were tried and left out."""
        ...
