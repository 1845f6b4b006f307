"""What a job is: which tasks, by which agents, how often and how; and the lock that pins down what that meant.

`JobSpec` is what people write, on the command line or in a file. `JobFile` is what is stored: the spec beside the exact
content of every task, so that a resumed job is the same job or says what is different.

An `Option` at a field is all that it takes for the command line to set it.
"""

import posixpath
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from seatrial.model.arguments import OptionsModel
from seatrial.model.base import Fraction01, JsonObject, NonNegative, NonNegativeInt, Sha256, StrictModel, Timestamp, new
from seatrial.model.options import AGENTS, LIMITS, MODELS, OUTPUT, SANDBOX, TASKS, VERIFICATION, Option
from seatrial.model.outcome import PASS_THRESHOLD
from seatrial.model.output import RewardPolicy
from seatrial.model.record import ImportedJob
from seatrial.model.task import Positive

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


class AgentFiles(OptionsModel):
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


class AgentOptions(OptionsModel):
    """One agent of a job. `name` is a plug-in; `label` tells two of the same name apart. `env` may have templates.

    `setup` is a shell command that installs it: run once on top of each image, for all trials there. `files` are laid
    out for it before it starts. A `layer` of the user's own goes before the one that its `recipe` makes. `options` are
    those of its preset, which may know it in several versions; `preset` is what that was when the job began, as it is
    written.
    """

    name: Annotated[
        str,
        Field(min_length=1),
        Option(
            "-a --agent AGENT",
            "Who works: oracle (the task's own solution), noop (does nothing), a plug-in, or NAME[@VERSION] of "
            "`seatrial agents list`.",
            AGENTS,
            10,
            repeated=True,
            param="agents",
        ),
    ]
    version: str | None = None
    label: str | None = None
    command: Annotated[
        str | None,
        Option(
            "--command COMMAND",
            "Run this shell command in the sandbox as the agent. Each one given is an agent.",
            AGENTS,
            20,
            kind="shell command",
            repeated=True,
            param="commands",
        ),
    ] = None
    setup: Annotated[
        str | None,
        Option(
            "--agent-setup COMMAND",
            "Installs the agent, once on top of each image.",
            AGENTS,
            80,
            kind="shell command",
            param="agent_setup",
        ),
    ] = None
    model: Annotated[
        str | None,
        Option(
            "-m --model MODEL",
            "The model the agents use. With several, each agent runs with each.",
            AGENTS,
            90,
            repeated=True,
            param="models",
        ),
    ] = None
    env: Annotated[
        dict[str, str],
        Option(
            "--agent-env NAME[=VALUE]",
            "A variable for the agent; without a value, this machine's.",
            AGENTS,
            40,
            also="--ae",
            kind="variables",
            param="agent_env",
        ),
    ] = Field(default_factory=dict)
    files: Annotated[
        tuple[AgentFiles, ...],
        Option(
            "--agent-files DIR[:/WHERE]",
            "Put what is in this folder, or this file, into the sandbox for the agent.",
            AGENTS,
            30,
            usual=AGENT_FILES_DIR,
            kind="agent files",
            param="agent_files",
        ),
    ] = ()
    options: Annotated[
        dict[str, str],
        Option(
            "--agent-option NAME=VALUE",
            "An option of the agent, such as max_turns=50; `seatrial agents show NAME` lists them.",
            AGENTS,
            60,
            also="--ak --agent-kwarg",
            kind="assignments",
            param="agent_options",
        ),
    ] = Field(default_factory=dict)
    recipe: LayerRecipe | None = None
    layer: Annotated[
        AgentLayer | None,
        Option(
            "--agent-layer DIR|TAR",
            "Lay this tree, a folder or an archive, over the root of each image for the agent.",
            AGENTS,
            50,
            kind="agent layer",
            param="agent_layer",
        ),
    ] = None
    preset: JsonObject | None = None

    @property
    def title(self) -> str:
        """How the agent is called in trial ids and reports."""
        return self.label or self.name


class TrialOptions(OptionsModel):
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
    The models that verifiers ask are at `verifier_upstream`, each under the name that it is asked for by, or another
    by `verifier_models`; `verifier_max_cost_usd` and `verifier_max_tokens` are for one verification.
    """

    backend: Annotated[
        str,
        Option(
            "-e --backend BACKEND", "embedded, docker, podman, auto, local or a plug-in.", SANDBOX, 10, also="--env"
        ),
    ] = "embedded"
    image: Annotated[
        str,
        Option(
            "--image IMAGE",
            "For all tasks: host, a reference, or a folder.",
            SANDBOX,
            20,
            usual="the task's own",
            kind="image",
        ),
    ] = "auto"
    image_map: Annotated[
        dict[str, str],
        Option(
            "--image-map NAME=IMAGE", "Another image than tasks and Dockerfiles name.", SANDBOX, 30, kind="image map"
        ),
    ] = Field(default_factory=dict)
    image_fallback: Annotated[
        ImageFallback,
        Option("--image-fallback", "For which images that cannot be had this machine stands in.", SANDBOX, 40),
    ] = "python"
    build: Annotated[
        Literal["missing", "always"],
        Option(
            "--force-build", "Build Dockerfiles even if an image is named.", SANDBOX, 50, flag="always", weight=None
        ),
    ] = "missing"
    isolation: Annotated[
        Isolation,
        Option(
            "--verify-isolation",
            "What becomes of the agent's processes while its work is judged.",
            VERIFICATION,
            10,
            weight=None,
        ),
    ] = "guarded"
    enforcement: Annotated[
        Literal["required", "partial"],
        Option("--allow-partial-limits", "Run with the limits this machine can hold.", LIMITS, 180, flag="partial"),
    ] = "required"
    network: Annotated[Literal["task", "none"], Option("--network", "What the task says, or none.", SANDBOX, 80)] = (
        "task"
    )
    private_hosts: Annotated[
        Literal["refuse", "allow"],
        Option("--allow-private-hosts", "Let tasks reach this machine's networks.", SANDBOX, 90, flag="allow"),
    ] = "refuse"
    cpus: Annotated[
        Annotated[float, Field(ge=0.01)] | None,
        Option("--cpus X", "Processors of a sandbox, instead of what tasks say.", LIMITS, 120, also="--override-cpus"),
    ] = None
    memory_mb: Annotated[
        Count | None,
        Option(
            "--memory SIZE", "Memory of a sandbox, instead of what tasks say: 512M, 2G.", LIMITS, 130, kind="mebibytes"
        ),
    ] = None
    storage_mb: Annotated[
        Count | None,
        Option(
            "--storage SIZE",
            "Disk space of a sandbox, instead of what tasks say: 512M, 10G.",
            LIMITS,
            140,
            kind="mebibytes",
        ),
    ] = None
    agent_timeout_sec: Annotated[
        Positive | None,
        Option(
            "--timeout TIME",
            "The agent's time, instead of what tasks say: 90s, 30m, 2h.",
            LIMITS,
            110,
            also="--agent-timeout",
            kind="seconds",
        ),
    ] = None
    agent_timeout_multiplier: Annotated[
        Positive, Option("--agent-timeout-multiplier X", "Stretch the agent's time.", LIMITS, 160)
    ] = 1.0
    verifier_timeout_multiplier: Annotated[
        Positive, Option("--verifier-timeout-multiplier X", "Stretch the verifier's time.", LIMITS, 170)
    ] = 1.0
    pass_threshold: Annotated[
        Fraction01,
        Option("--pass-threshold X", "The reward from which a trial passes.", VERIFICATION, 30, weight="meaning"),
    ] = PASS_THRESHOLD
    keep: Annotated[
        Literal["auto", "record", "snapshot"],
        Option("--keep", "Keep the sandbox's end state: where it is small, never, or always.", OUTPUT, 40, weight=None),
    ] = "auto"
    reward_policy: Annotated[RewardPolicy, Option(weight="meaning")] = "declared"
    trust: Annotated[
        Literal["image", "as_left"],
        Option(
            "--trust",
            "Whose programs and settings verifiers work with: the image's, or those the agent left.",
            VERIFICATION,
            20,
            kind="hyphenated",
            weight="meaning",
        ),
    ] = "image"
    verdict: Annotated[
        Literal["task", "exit_status"],
        Option(
            "--verdict",
            "What counts where a verifier writes no reward: what the task says, or its exit status.",
            VERIFICATION,
            40,
            weight="meaning",
        ),
    ] = "task"
    verify_repeats: Annotated[
        int,
        Field(ge=1, le=100),
        Option(
            "--verify-repeats N",
            "Ask the verifier N times about the same end state; the lowest reward counts.",
            VERIFICATION,
            50,
            weight="meaning",
        ),
    ] = 1
    verifier_upstream: Annotated[
        str | None,
        Option(
            "--verifier-upstream UPSTREAM",
            "Where calls of verifiers that ask a model go: openai, https://…, cache:DIR,openai, …",
            VERIFICATION,
            60,
            weight="meaning",
        ),
    ] = None
    verifier_models: Annotated[
        dict[str, str],
        Option(
            "--verifier-model ASKED=OTHER",
            "The model that is asked where verifiers name another one.",
            VERIFICATION,
            70,
            kind="assignments",
            weight="meaning",
        ),
    ] = Field(default_factory=dict)
    verifier_max_cost_usd: Annotated[
        Positive | None, Option("--verifier-max-cost USD", "Cost of one verification, at most.", VERIFICATION, 80)
    ] = None
    verifier_max_tokens: Annotated[
        Count | None,
        Option("--verifier-max-tokens N", "Tokens of one verification, in and out, at most.", VERIFICATION, 90),
    ] = None
    solution: Annotated[Literal["withheld", "staged"], Option(weight="meaning")] = "withheld"
    layout: Annotated[Layout, Option(weight="meaning")] = "harbor"
    max_busy: Annotated[
        Fraction01 | None,
        Option(
            "--max-busy SHARE",
            "Try a trial again whose processes waited for a processor that others used for more of their time.",
            LIMITS,
            80,
        ),
    ] = None
    allow_env: Annotated[
        tuple[VariableName, ...],
        Option(
            "--allow-env NAME",
            "Let tasks take this variable of this machine by ${NAME}.",
            SANDBOX,
            100,
            kind="variable names",
            weight=None,
        ),
    ] = ()
    unfit: Annotated[
        Literal["refuse", "run"],
        Option(
            "--force", "Run tasks with errors, or without what no sandbox here has.", TASKS, 90, flag="run", weight=None
        ),
    ] = "refuse"
    ca_file: Annotated[
        str | None,
        Option(
            "--ca-file FILE",
            "Certificates (PEM) to trust in builds, set-ups, sandboxes and model calls.",
            SANDBOX,
            60,
            kind="path",
            weight=None,
        ),
    ] = None
    proxy: Annotated[
        Literal["direct", "host"],
        Option(
            "--use-proxy",
            "Reach the network through this machine's HTTPS_PROXY, in builds, set-ups and sandboxes.",
            SANDBOX,
            70,
            flag="host",
        ),
    ] = "direct"


class ModelOptions(OptionsModel):
    """Where the agents' model calls go, and how far. Without an upstream there are none.

    `temperature` and the like override what an agent asks for only when they are set. Between dialects, a `lenient`
    translation leaves out what has no counterpart and notes it; a `strict` one refuses the call.
    """

    upstream: Annotated[
        str | None,
        Option("--upstream UPSTREAM", "Where model calls go: openai, https://…, scripted:FILE, …", MODELS, 10),
    ] = None
    translate: Annotated[
        Literal["lenient", "strict"],
        Option(
            "--translate",
            "What a model's dialect has no place for is left out and noted, or its call refused.",
            MODELS,
            70,
        ),
    ] = "lenient"
    temperature: Annotated[
        NonNegative | None, Option("--temperature X", "Instead of what the agent asks.", MODELS, 20)
    ] = None
    top_p: Fraction01 | None = None
    seed: int | None = None
    max_output_tokens: Annotated[
        Count | None, Option("--max-output-tokens N", "Of one answer, instead of the agent's.", MODELS, 30)
    ] = None
    max_turns: Annotated[Count | None, Option("--max-turns N", "Model calls of one trial, at most.", MODELS, 40)] = None
    max_tokens: Annotated[
        Count | None, Option("--max-tokens N", "Tokens of one trial, in and out, at most.", MODELS, 50)
    ] = None
    max_cost_usd: Annotated[Positive | None, Option("--max-cost USD", "Cost of one trial, at most.", MODELS, 60)] = None
    prices: Annotated[
        str | None, Option("--prices FILE", "A price list (TOML) before the one that comes with Seatrial.", MODELS, 80)
    ] = None

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


class RunOptions(OptionsModel):
    """How and where a job is carried out, which has no part in what its results mean.

    With `preflight`, each agent is tried out before its first trial. A job whose agent never really runs in its first
    trials is stopped, unless it is to `keep_going`.
    When this machine is out of disk, processes or memory, the job waits `host_wait_sec` for it to have some again.
    The `engine` says on which machines: `local` is this one. `address` is where an engine with several finds them.
    """

    engine: Annotated[str, Option("--engine NAME", "Where trials run: local, or ray for a cluster.", LIMITS, 20)] = (
        "local"
    )
    address: Annotated[
        str | None, Option("--address ADDRESS", "The Ray cluster, such as auto.", LIMITS, 30, usual="a new one, here")
    ] = None
    concurrent: Annotated[
        Count | None,
        Option(
            "-n --concurrent N",
            "Trials at a time.",
            LIMITS,
            10,
            usual="the number of cores, at least 4; of a cluster, of all its nodes",
            also="--n-concurrent",
        ),
    ] = None
    starting: Count | None = None
    retries: Annotated[
        NonNegativeInt,
        Option(
            "--retries N",
            "Further tries when the machine or a provider fails a trial.",
            LIMITS,
            40,
            also="-r --max-retries",
        ),
    ] = 2
    host_wait_sec: Annotated[
        Positive,
        Option(
            "--host-wait TIME",
            "How long to wait for a machine without disk space, processes or memory.",
            LIMITS,
            70,
            usual="10m",
            kind="seconds",
        ),
    ] = 600.0
    max_trials: Annotated[Count | None, Option("--max-trials N", "Start no more trials than this.", LIMITS, 50)] = None
    max_wall_sec: Annotated[
        Positive | None,
        Option(
            "--max-wall TIME", "Stop after this long, also what runs then: 90s, 30m, 2h.", LIMITS, 60, kind="seconds"
        ),
    ] = None
    shuffle_seed: int | None = None
    preflight: Annotated[
        bool, Option("--preflight/--no-preflight", "Try each agent out before its first trial.", LIMITS, 90)
    ] = True
    keep_going: Annotated[
        bool,
        Option(
            "--keep-going/--stop-early", "What to do when an agent never really runs in its first trials.", LIMITS, 100
        ),
    ] = False


class JobSpec(OptionsModel):
    """What to run. `tasks` are paths of tasks or folders of tasks; globs choose among their ids.

    Of those that are chosen, the first `max_tasks` are run.
    """

    name: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    tasks: Annotated[
        tuple[str, ...],
        Field(min_length=1),
        Option("-p --path TASKS", "A task, or a folder of tasks.", TASKS, 10, kind="path", param="paths"),
    ]
    include: Annotated[
        tuple[str, ...],
        Option(
            "-i --include GLOB",
            "Only tasks whose id or name matches.",
            TASKS,
            20,
            also="--include-task-name -t --task --task-name",
        ),
    ] = ()
    exclude: Annotated[
        tuple[str, ...],
        Option("-x --exclude GLOB", "No tasks whose id or name matches.", TASKS, 30, also="--exclude-task-name"),
    ] = ()
    max_tasks: Annotated[
        Count | None, Option("-l --max-tasks N", "Only the first N of the chosen tasks.", TASKS, 40, also="--n-tasks")
    ] = None
    agents: Annotated[tuple[AgentOptions, ...], Field(min_length=1)]
    attempts: Annotated[
        Count, Option("-k --attempts N", "Trials of each agent at each task.", TASKS, 50, also="--n-attempts")
    ] = 1
    trial: TrialOptions = new(TrialOptions)
    model: ModelOptions = new(ModelOptions)
    run: RunOptions = new(RunOptions)

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
    labels: TaskLabels = new(TaskLabels)


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
