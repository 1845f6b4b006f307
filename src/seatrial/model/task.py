"""task.toml as types: what a task declares about its phases, machine, network, steps and artifacts.

Field names follow the Harbor format; defaults are the format's. Only `tasks/` knows how the file spells them.
"""

from typing import Annotated, Literal

from pydantic import Field

from seatrial.model.base import JsonObject, NonNegative, NonNegativeInt, StrictModel, new
from seatrial.model.output import OutputFormat, SchemaGate, VerdictSource

Positive = Annotated[float, Field(gt=0.0)]
User = str | int
EnvTable = dict[str, str]
NetworkMode = Literal["public", "no-network", "allowlist"]


class NetworkPolicy(StrictModel):
    """Who may be reached. `allowed_hosts` (names, `*.name`, addresses, CIDR) matters only with `allowlist`."""

    mode: NetworkMode = "public"
    allowed_hosts: tuple[str, ...] = ()


class HealthcheckSpec(StrictModel):
    """A command that must succeed before the agent starts."""

    command: str
    interval_sec: NonNegative = 5.0
    timeout_sec: Positive = 30.0
    start_period_sec: NonNegative = 0.0
    start_interval_sec: NonNegative = 5.0
    retries: NonNegativeInt = 3


class McpServerSpec(StrictModel):
    """A tool server offered to the agent."""

    name: str
    transport: Literal["stdio", "sse", "streamable-http"] = "sse"
    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    headers: EnvTable = Field(default_factory=dict)


class TpuSpec(StrictModel):
    """An accelerator request that no local backend can meet."""

    type: str
    topology: str | None = None


class EnvironmentSpec(StrictModel):
    """The machine a phase runs on."""

    docker_image: str | None = None
    build_timeout_sec: Positive = 600.0
    os: Literal["linux", "windows"] = "linux"
    cpus: Positive | None = None
    memory_mb: Annotated[int, Field(gt=0)] | None = None
    storage_mb: Annotated[int, Field(gt=0)] | None = None
    gpus: NonNegativeInt | None = None
    gpu_types: tuple[str, ...] = ()
    tpu: TpuSpec | None = None
    env: EnvTable = Field(default_factory=dict)
    workdir: str | None = None
    network: NetworkPolicy = new(NetworkPolicy)
    skills_dir: str | None = None
    mcp_servers: tuple[McpServerSpec, ...] = ()
    healthcheck: HealthcheckSpec | None = None


class AgentSpec(StrictModel):
    """The agent phase; no time-out means unlimited, no network policy means the environment's."""

    timeout_sec: Positive | None = None
    user: User | None = None
    network: NetworkPolicy | None = None


class CollectHook(StrictModel):
    """A command run after the agent, before the verifier, to save state the verifier wants to see."""

    command: str
    service: str = "main"
    timeout_sec: Positive = 60.0
    user: User | None = None


class VerifierPhaseSpec(StrictModel):
    """The verifier phase; `separate` means a fresh sandbox that only artifacts cross into.

    A task that is about the system itself may say that its verifier works with the agent's `system`.
    """

    timeout_sec: Positive = 600.0
    env: EnvTable = Field(default_factory=dict)
    user: User | None = None
    workdir: str | None = None
    network: NetworkPolicy | None = None
    environment_mode: Literal["shared", "separate"] = "shared"
    environment: EnvironmentSpec | None = None
    collect: tuple[CollectHook, ...] = ()
    system: Literal["image", "agent"] = "image"
    expected_output_path: str | None = None
    schema_gate: SchemaGate | None = None
    verdict: VerdictSource | None = None
    reward_path: str = "/logs/verifier/reward.json"
    details_path: str = "/logs/verifier/details.json"


class OutputDeclaration(StrictModel):
    """What a task says about its output (`[output]`); `schema_file` is relative to the task folder."""

    path: str | None = None
    format: OutputFormat | None = None
    schema_file: str | None = None
    required_keys: tuple[str, ...] = ()
    schema_gate: SchemaGate | None = None
    max_bytes: Annotated[int, Field(gt=0)] | None = None


class CheckSpec(StrictModel):
    """What a task's author says about the checks of its verifier (`[check]`).

    `accept` are findings that are meant, by their ids; `*` stands for anything. `oracle_reward` is what the solution
    is to get, where that is not 1.
    """

    accept: tuple[str, ...] = ()
    oracle_reward: Annotated[float, Field(ge=0.0, le=1.0)] | None = None


class ArtifactSpec(StrictModel):
    """A path to keep after the agent phase, besides `/logs/artifacts`."""

    source: str
    destination: str | None = None
    exclude: tuple[str, ...] = ()
    service: str | None = None


class StepSpec(StrictModel):
    """One step of a multi-step task; a reward below `min_reward` ends the trial there."""

    name: str
    agent: AgentSpec = new(AgentSpec)
    verifier: VerifierPhaseSpec = new(VerifierPhaseSpec)
    min_reward: float | dict[str, float] | None = None
    healthcheck: HealthcheckSpec | None = None
    artifacts: tuple[ArtifactSpec, ...] = ()


class Author(StrictModel):
    """Who wrote the task."""

    name: str
    email: str | None = None


class PackageSpec(StrictModel):
    """The task's identity in a registry (`[task]`)."""

    name: str | None = None
    version: str | None = None
    description: str | None = None
    authors: tuple[Author, ...] = ()
    keywords: tuple[str, ...] = ()


class TaskConfig(StrictModel):
    """All of task.toml. `extra` holds every key we do not know, by its dotted path, as found."""

    schema_version: str = "1.4"
    source: str | None = None
    package: PackageSpec = new(PackageSpec)
    metadata: JsonObject = Field(default_factory=dict)
    agent: AgentSpec = new(AgentSpec)
    verifier: VerifierPhaseSpec = new(VerifierPhaseSpec)
    environment: EnvironmentSpec = new(EnvironmentSpec)
    output: OutputDeclaration = new(OutputDeclaration)
    check: CheckSpec = new(CheckSpec)
    solution_env: EnvTable = Field(default_factory=dict)
    artifacts: tuple[ArtifactSpec, ...] = ()
    steps: tuple[StepSpec, ...] = ()
    multi_step_reward_strategy: Literal["mean", "final"] = "mean"
    extra: JsonObject = Field(default_factory=dict)
