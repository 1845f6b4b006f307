"""Every error Seatrial raises, in one place.

    SeatrialError
    ├── UsageError               the caller can fix it: exit code 2, never a traceback
    │   ├── TaskFormatError      a task folder cannot be read
    │   ├── DatasetNotFoundError no task where one was asked for
    │   ├── ArtifactsError       the folder or file to score is not there
    │   ├── RubricError          dimensions, weights or strategy make no sense
    │   └── HostUnsupportedError this machine cannot do what was asked
    └── TrialError               a trial could not be run; recorded, never scored
        └── SandboxError         the sandbox itself failed

What strangers wrote (a reward file, an agent's output) never raises: it becomes data in an EvaluationResult.
"""

from collections.abc import Sequence


class SeatrialError(Exception):
    """Base of every error of ours."""


class UsageError(SeatrialError):
    """The request cannot be carried out as given; the message says what to change."""


class TaskFormatError(UsageError):
    """A task folder cannot be read; `reasons` has one line per problem, each with file and key."""

    def __init__(self, folder: str, reasons: Sequence[str]) -> None:
        self.folder = folder
        self.reasons = tuple(reasons)
        super().__init__("\n".join([f"{folder} is not a usable task:", *(f"  {reason}" for reason in reasons)]))


class DatasetNotFoundError(UsageError):
    """The path holds no task and no folder of tasks."""


class ArtifactsError(UsageError):
    """The artifacts or the output to score are not where the caller said."""


class RubricError(UsageError):
    """A rubric cannot be scored; `code` is stable, the message names the dimension."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class HostUnsupportedError(UsageError):
    """This machine cannot do what was asked; the message says why, and how it could."""


class TrialError(SeatrialError):
    """The machinery failed, not the agent: recorded as a failure of the trial, never as a reward."""


class SandboxError(TrialError):
    """The sandbox itself failed. A command that exits with an error is not one of these."""
