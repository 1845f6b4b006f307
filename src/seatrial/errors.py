"""Every error Seatrial raises, in one place.

    SeatrialError
    ├── UsageError               the caller can fix it: exit code 2, never a traceback
    │   ├── UnknownArgumentError a keyword that nothing takes; also a TypeError
    │   ├── ArgumentValueError   a value that options cannot have; also a ValueError
    │   ├── TaskFormatError      a task folder cannot be read
    │   ├── OversizeError        a folder holds more than one like it may, so it is not read
    │   ├── DatasetNotFoundError no task where one was asked for
    │   ├── ArtifactsError       the folder or file to score is not there
    │   ├── RubricError          dimensions, weights or strategy make no sense
    │   ├── ImportSourceError    results of another program cannot be imported
    │   ├── JobError             a job cannot be planned, started or resumed as asked
    │   │   └── PreflightError   an agent was tried out before its first trial, and cannot work
    │   └── HostUnsupportedError this machine cannot do what was asked
    │       └── NodeUnfitError   a node of a cluster cannot run trials
    ├── StoreError               results cannot be written or read
    │   └── StoreFullError       there is no room for them
    └── TrialError               a trial could not be run; recorded, never scored
        ├── InfraError           the machinery failed
        │   ├── HostExhaustedError this machine ran out of disk, processes or memory
        │   ├── HostBusyError    its processors had too little time for the trial
        │   ├── SandboxError     the sandbox itself failed
        │   │   ├── NodeLostError the node of a cluster that it was on is gone
        │   │   │   └── NodeUnreachableError or does not answer just now
        │   │   └── ContentError what is in the sandbox cannot be taken out: the inhabitants' doing
        │   │       └── TooLargeError
        │   ├── GatewayError     the way to the model failed on our side
        │   ├── AgentSetupError  the agent cannot be started on this task
        │   │   └── AgentUnfitError  nor on any other with this image: its program does not run there
        │   ├── EntrypointError  the ENTRYPOINT of an image failed
        │   ├── HealthcheckError the environment did not become ready
        │   ├── ImageError       an image cannot be had or used
        │   │   ├── ImageFetchError nor could it be fetched just now; later may be different
        │   │   └── BuildError   its Dockerfile cannot be built
        │   │       └── BakeError the tree of an agent cannot be made
        │   └── VerifierStageError the verifier cannot be started on this task
        ├── ModelError           there is no usable answer of the model
        │   ├── ProviderError    its provider failed, or is out of what was asked for
        │   │   └── ModelSilentError it did not answer, or not to the end, in the time there was
        │   └── InvalidModelResponseError, EmptyModelResponseError
        ├── OverlongPromptError  the conversation no longer fits the model
        ├── ToolError            a tool of an environment: ToolParseError, ToolCallError
        └── HookError            a method or function that somebody wrote for an environment raised something
            └── RewardError      a reward function did

What strangers wrote (a reward file, an agent's output) never raises: it becomes data in an EvaluationResult.
"""

from collections.abc import Sequence


class SeatrialError(Exception):
    """Base of every error of ours."""


class UsageError(SeatrialError):
    """The request cannot be carried out as given; the message says what to change."""


class UnknownArgumentError(UsageError, TypeError):
    """A keyword argument that nothing takes; the message names the one that may have been meant."""


class ArgumentValueError(UsageError, ValueError):
    """Values that options cannot have; the message names each, with what was expected."""


class TaskFormatError(UsageError):
    """A task folder cannot be read; `reasons` has one line per problem, each with file and key."""

    def __init__(self, folder: str, reasons: Sequence[str]) -> None:
        self.folder = folder
        self.reasons = tuple(reasons)
        super().__init__("\n".join([f"{folder} is not a usable task:", *(f"  {reason}" for reason in reasons)]))


class OversizeError(UsageError):
    """A folder that strangers may have written holds more than one like it may; nothing of it has been read."""


class DatasetNotFoundError(UsageError):
    """The path holds no task and no folder of tasks."""


class ArtifactsError(UsageError):
    """The artifacts or the output to score are not where the caller said."""


class RubricError(UsageError):
    """A rubric cannot be scored; `code` is stable, the message names the dimension."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class ImportSourceError(UsageError):
    """Results of another program cannot be imported as asked; the message names the file, and the line where known."""


class JobError(UsageError):
    """A job cannot be planned, started, resumed or read as asked; the message says what stands in the way."""


class PreflightError(JobError):
    """An agent or its model was tried out before anything was spent, and cannot work; the message says what to do."""


class HostUnsupportedError(UsageError):
    """This machine cannot do what was asked; the message says why, and how it could."""


class NodeUnfitError(HostUnsupportedError):
    """A node of a cluster cannot run trials; the message says why."""


class TrialError(SeatrialError):
    """The machinery failed, not the agent: recorded as a failure of the trial, never as a reward."""

    retryable = False


class InfraError(TrialError):
    """The machinery itself failed: sandbox, gateway, staging."""


class HostExhaustedError(InfraError):
    """This machine ran out of something that trials need: disk, inodes, processes or memory."""

    retryable = True


class HostBusyError(InfraError):
    """The processors of this machine were used by others for so long that what the trial did tells nothing."""

    retryable = True


class SandboxError(InfraError):
    """The sandbox itself failed. A command that exits with an error is not one of these."""

    retryable = True


class ContentError(SandboxError):
    """Something in the sandbox is too large, too deep or of the wrong kind to be taken out of it."""

    retryable = False


class TooLargeError(ContentError):
    """Something in the sandbox is larger than whoever asked for it was ready to take."""


class NodeLostError(SandboxError):
    """A node of a cluster, or our process on it, is gone, and with it the trials that ran there."""


class NodeUnreachableError(NodeLostError):
    """A node does not answer just now; its trials may still be running."""


class ImageError(InfraError):
    """An image cannot be had or used; the message names it, says what was tried, and what to do."""


class ImageFetchError(ImageError):
    """Whoever has the image could not be reached or did not answer properly, however often we asked."""

    retryable = True


class BuildError(ImageError):
    """A Dockerfile cannot be read or built; the message begins with its file and line."""


class BakeError(BuildError):
    """The packages of an agent cannot be made into a tree; the message has the end of what was said meanwhile."""


class GatewayError(InfraError):
    """The gateway itself failed."""

    retryable = True


class ModelError(TrialError):
    """The model gave no usable answer."""


class ProviderError(ModelError):
    """The provider of the model gave no usable answer, and trying again at once did not help."""

    retryable = True

    def __init__(self, message: str, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class ListenerError(ProviderError):
    """Calls came too late to the gateway, or not at all: whoever can connect to it may be the reason."""


class ModelSilentError(ProviderError):
    """The model did not answer, or fell silent in the middle, for longer than anybody need wait."""


class AgentSetupError(InfraError):
    """The agent cannot be started on this task, however often one tries."""


class AgentUnfitError(AgentSetupError):
    """The agent's program does not run in an image; the message says what it said, and what to do."""


class EntrypointError(InfraError):
    """The ENTRYPOINT of an image failed before the environment of the task was ready."""

    retryable = True


class HealthcheckError(InfraError):
    """The environment of the task did not become ready."""

    retryable = True


class VerifierStageError(InfraError):
    """The verifier cannot be started on this task."""


class VerifierModelError(ModelError):
    """A verifier got no answer of its model, for a reason that another try would meet again."""


class InvalidModelResponseError(ModelError):
    """The model's answer cannot be read as one."""


class EmptyModelResponseError(InvalidModelResponseError):
    """The model answered with nothing at all."""


class OverlongPromptError(TrialError):
    """The conversation is longer than the model can take."""


class ToolError(TrialError):
    """A tool of an environment failed; for environments to raise and to catch."""


class ToolParseError(ToolError):
    """A call of a tool cannot be read."""


class ToolCallError(ToolError):
    """A tool was called and failed."""


class HookError(TrialError):
    """A method that somebody wrote for an environment raised something; the message names both."""


class RewardError(HookError):
    """A reward function raised something or returned no number, so that there is no reward."""


class StoreError(SeatrialError):
    """Results cannot be written or read: a full disk, a missing right, a record that is not one."""


class StoreFullError(StoreError):
    """The file system of the results has no room; later there may be."""


Error = SeatrialError
"""The name by which authors of environments know the base of all errors."""
