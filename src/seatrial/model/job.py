"""What a job is: which tasks, by which agents, how often and how; and the lock that pins down what that meant.

`JobSpec` is what people write, on the command line or in a file. `JobFile` is what is stored: the spec beside the exact
content of every task, so that a resumed job is the same job or says what is different.
"""

import posixpath
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from seatrial.model.base import Fraction01, JsonObject, NonNegative, NonNegativeInt, Sha256, StrictModel, Timestamp
from seatrial.model.config import Positive
from seatrial.model.imported import ImportedJob
from seatrial.model.output import RewardPolicy

JOB_SCHEMA_VERSION: Literal[1] = 1

Isolation = Literal["guarded", "kill", "separate", "keep"]
"""What happens to the agent's processes while its work is judged: kept apart, ended first, or in another sandbox.

`keep` lets them run on even where they cannot be kept apart; where they can, it is `guarded`.
"""

ImageFallback = Literal["python", "host", "refuse"]
"""For which images that cannot be had this machine's own system stands in: those that only have Python, all, none."""

Layout = Literal["harbor", "verifiers"]
"""Where a verifier is started and finds the solution: as Harbor has it, or as the library verifiers had it.

`harbor` runs `/tests/test.sh` in the task's own directory, with a staged solution in `/tests/solution`. `verifiers`
runs it by bash in `/tests`, with a staged solution in `/oracle` too, and with nothing there otherwise.
"""

VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Count = Annotated[int, Field(ge=1)]

AGENT_FILES_DIR = "/agent"
"""Where an agent's own files lie in its sandbox, unless another folder is named."""

WITHOUT_MODEL = frozenset({"noop", "nop", "oracle"})
"""The agents that come with Seatrial and ask no model anything."""

_NOT_FOR_AGENTS = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/logs", "/proc", "/run", "/sbin", "/sys", "/usr", "/var"),
    *("/solution", "/task", "/tests"),
)


class AgentFiles(StrictModel):
    """Files of this machine that an agent finds in its sandbox: `source`, or all that is in it, lies in `target`.

    `digest` is what they were when the job began.
    """

    source: Annotated[str, Field(min_length=1)]
    target: str = AGENT_FILES_DIR
    digest: Sha256 | None = None

    @field_validator("target")
    @classmethod
    def _is_a_folder_of_its_own(cls, target: str) -> str:
        if not target.startswith("/") or posixpath.normpath(target) != target or target.startswith("//"):
            raise ValueError("expected an absolute path without '..', '.' and a slash at its end, such as /agent")
        if (
            target == "/"
            or target.startswith(tuple(f"{each}/" for each in _NOT_FOR_AGENTS))
            or target in _NOT_FOR_AGENTS
        ):
            raise ValueError("expected a folder that is not of the system, the task or its tests, such as /agent")
        return target


class LayerRecipe(StrictModel):
    """How the tree of an agent is made, once and outside any task: packages at pinned versions, with a node or a Python
    of its own.

    `programs` are what it can be started by, each with its file below the tree; `musl_programs` are others in their
    place where an image has musl. `{arch}` stands for the machine's, as npm calls it.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    version: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]
    npm: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    python: str | None = None
    programs: dict[str, str] = Field(default_factory=dict)
    musl_programs: dict[str, str] = Field(default_factory=dict)


class AgentLayer(StrictModel):
    """A tree of this machine, a folder or an archive, that lies over the image of every trial of an agent.

    `digest` is what it was when the job began.
    """

    source: Annotated[str, Field(min_length=1)]
    digest: Sha256 | None = None


class AgentOptions(StrictModel):
    """One agent of a job. `name` is a plug-in; `label` tells two of the same name apart. `env` may have templates.

    `setup` is a shell command that installs it: run once on top of each image, for all trials there. `files` are laid
    out for it before it starts. A `layer` of the user's own goes before the one that its `recipe` makes. `options` are
    those of its preset, which may know it in several versions; `preset` is what that was when the job began, as it is
    written.
    """

    name: Annotated[str, Field(min_length=1)]
    version: str | None = None
    label: str | None = None
    command: str | None = None
    setup: str | None = None
    model: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    files: tuple[AgentFiles, ...] = ()
    options: dict[str, str] = Field(default_factory=dict)
    recipe: LayerRecipe | None = None
    layer: AgentLayer | None = None
    preset: JsonObject | None = None

    @property
    def title(self) -> str:
        """How the agent is called in trial ids and reports."""
        return self.label or self.name


class TrialOptions(StrictModel):
    """How every trial of a job is run and judged.

    `image` is `auto` (the task's own), `host` (this machine's own system), a reference, or the absolute path of a
    directory with a root file system. `image_map` has others instead of those that tasks and their Dockerfiles name.
    A `staged` solution lies among the tests while the verifier runs, and nowhere before. With `trust` of `as_left`,
    verifiers work with programs and settings as the agent left them. With the `verdict` `exit_status`, a verifier that
    writes no reward file is judged by its exit status, whatever the task says. `allow_env` are the variables of this
    machine that task.toml may take by `${NAME}`. `unfit` tasks have errors that lint names, or ask for what no sandbox
    here has. End states are kept if that is cheap (`keep` of `auto`), never (`record`) or always (`snapshot`). `cpus`,
    `memory_mb`, `storage_mb` and `agent_timeout_sec` go before what tasks say of themselves. The verifier is asked
    `verify_repeats` times about the same end state; the lowest reward counts, and all are kept. `ca_file` has the
    certificates that builds, set-ups, sandboxes and our own clients trust; with a `proxy` of `host`, the former three
    reach the network through the one this machine uses. `layout` says where verifiers are started and find a solution.
    A trial is tried again whose agent or verifier was kept from running by others for more than `max_busy` of its time.
    """

    backend: str = "embedded"
    image: str = "auto"
    image_map: dict[str, str] = Field(default_factory=dict)
    image_fallback: ImageFallback = "python"
    build: Literal["missing", "always"] = "missing"
    isolation: Isolation = "guarded"
    enforcement: Literal["required", "partial"] = "required"
    network: Literal["task", "none"] = "task"
    private_hosts: Literal["refuse", "allow"] = "refuse"
    cpus: Annotated[float, Field(ge=0.01)] | None = None
    memory_mb: Count | None = None
    storage_mb: Count | None = None
    agent_timeout_sec: Positive | None = None
    agent_timeout_multiplier: Positive = 1.0
    verifier_timeout_multiplier: Positive = 1.0
    pass_threshold: Fraction01 = 1.0
    keep: Literal["auto", "record", "snapshot"] = "auto"
    reward_policy: RewardPolicy = "declared"
    trust: Literal["image", "as_left"] = "image"
    verdict: Literal["task", "exit_status"] = "task"
    verify_repeats: Annotated[int, Field(ge=1, le=100)] = 1
    solution: Literal["withheld", "staged"] = "withheld"
    layout: Layout = "harbor"
    max_busy: Fraction01 | None = None
    allow_env: tuple[VariableName, ...] = ()
    unfit: Literal["refuse", "run"] = "refuse"
    ca_file: str | None = None
    proxy: Literal["direct", "host"] = "direct"


class ModelOptions(StrictModel):
    """Where the agents' model calls go, and how far. Without an upstream there are none.

    `temperature` and the like override what an agent asks for only when they are set. Between dialects, a `lenient`
    translation leaves out what has no counterpart and notes it; a `strict` one refuses the call.
    """

    upstream: str | None = None
    translate: Literal["lenient", "strict"] = "lenient"
    temperature: NonNegative | None = None
    top_p: Fraction01 | None = None
    seed: int | None = None
    max_output_tokens: Count | None = None
    max_turns: Count | None = None
    max_tokens: Count | None = None
    max_cost_usd: Positive | None = None
    prices: str | None = None

    @property
    def sampling(self) -> dict[str, float | int]:
        """The values that override an agent's own."""
        named = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
            "max_tokens": self.max_output_tokens,
        }
        return {name: value for name, value in named.items() if value is not None}


class RunOptions(StrictModel):
    """How and where a job is carried out, which has no part in what its results mean.

    With `preflight`, each agent is tried out before its first trial. A job whose agent never really runs in its first
    trials is stopped, unless it is to `keep_going`.
    When this machine is out of disk, processes or memory, the job waits `host_wait_sec` for it to have some again.
    The `engine` says on which machines: `local` is this one. `address` is where an engine with several finds them.
    """

    engine: str = "local"
    address: str | None = None
    concurrent: Count | None = None
    starting: Count | None = None
    retries: NonNegativeInt = 2
    host_wait_sec: Positive = 600.0
    max_trials: Count | None = None
    max_wall_sec: Positive | None = None
    shuffle_seed: int | None = None
    preflight: bool = True
    keep_going: bool = False


class JobSpec(StrictModel):
    """What to run. `tasks` are paths of tasks or folders of tasks; globs choose among their ids.

    Of those that are chosen, the first `max_tasks` are run.
    """

    name: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    tasks: Annotated[tuple[str, ...], Field(min_length=1)]
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    max_tasks: Count | None = None
    agents: Annotated[tuple[AgentOptions, ...], Field(min_length=1)]
    attempts: Count = 1
    trial: TrialOptions = TrialOptions()
    model: ModelOptions = ModelOptions()
    run: RunOptions = RunOptions()

    @model_validator(mode="after")
    def _agents_can_be_told_apart(self) -> Self:
        titles = [agent.title for agent in self.agents]
        if repeated := {title for title in titles if titles.count(title) > 1}:
            raise ValueError(f"two agents are called {min(repeated)!r}; give one of them a `label`")
        return self


class TaskLabels(StrictModel):
    """What a task says of itself, by which results are grouped. Tasks of one `family` are variants of each other."""

    category: str | None = None
    difficulty: str | None = None
    family: str | None = None
    tags: tuple[str, ...] = ()


class LockedTask(StrictModel):
    """Exactly which task was meant. `root` is where it was, relative to nothing: an absolute path."""

    id: str
    name: str
    root: str
    digest: Sha256
    labels: TaskLabels = TaskLabels()


class LeftOut(StrictModel):
    """A chosen task without trials: `declined` by one agent; or for all of them `refused`, because it asks for what it
    cannot get here, or `unreadable`.

    Tasks are counted by their `reason`; `detail` is what was found in this one.
    """

    kind: Literal["declined", "refused", "unreadable"]
    task: str
    agent: str | None = None
    reason: str
    detail: str | None = None


Driver = Literal["job", "environment", "import"]
"""Who carried a job out: `seatrial run`, a program with an environment, or somebody else's program elsewhere."""


class JobFile(StrictModel):
    """The stored form of a job. One of an `environment` are rollouts that a program drives, and only it can go on.

    One of an `import` was carried out elsewhere, as `imported` says: it can be read, and not gone on with.

    Its `id` is in the records of its trials too, so that one of another job is known for what it is.
    A task that is left out for some of the agents is among `tasks`; one that is left out for all of them because it
    is unfit or cannot be read is only in `left_out`.
    """

    schema_version: Annotated[int, Field(ge=1, le=1)] = JOB_SCHEMA_VERSION
    seatrial_version: str
    created_at: Timestamp
    spec: JobSpec
    tasks: tuple[LockedTask, ...]
    left_out: tuple[LeftOut, ...] = ()
    driver: Driver = "job"
    id: str | None = None
    imported: ImportedJob | None = None
