"""What an agent is: given a task and a place, it says which files to lay out for it and which command to run.

An agent does nothing itself. The trial stages, runs and watches, the same way for all of them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from seatrial.errors import UsageError
from seatrial.model.job import AgentFiles, AgentOptions, LayerRecipe
from seatrial.model.loaded_task import Task, TaskStep
from seatrial.model.record import AgentRef
from seatrial.model.task import TaskConfig
from seatrial.plugins import find_plugin, plugin_names

if TYPE_CHECKING:  # reading tasks takes much that an agent does not need
    from seatrial.tasks.outline import TaskOutline

ENTRY_POINTS = "seatrial.agents"
_OTHER_NAMES = {"nop": "noop"}  # as Harbor calls it


@dataclass(frozen=True, slots=True)
class AgentContext:
    """Where an agent is about to work."""

    task: Task
    step: TaskStep | None
    """None in a task that has none."""
    workdir: str
    host_env: Mapping[str, str]
    """For what the user's own options ask for."""
    allowed_env: Mapping[str, str] = field(default_factory=dict)
    """For what task.toml asks for, which comes from nowhere else."""


@dataclass(frozen=True, slots=True)
class AgentLaunch:
    """What to do for an agent: lay out `trees`, then run `argv` in `cwd`."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    trees: Mapping[str, Path] = field(default_factory=dict)
    """Directories inside, and those here that are copied there. The way inside must not lead through links of the
    image."""
    cwd: str | None = None
    """None is the task's own directory."""
    version: tuple[str, ...] = ()
    """A command that prints the agent's version."""
    finish: Callable[[Mapping[str, str]], "AgentLaunch"] | None = None
    """For an agent that says more when it is known how it reaches its model: given the variables of that way, it
    returns what is really run."""

    def finished(self, variables: Mapping[str, str]) -> "AgentLaunch":
        """What is really run, with the variables beside its own. Raises AgentSetupError when it cannot do with them."""
        launch = self.finish(variables) if self.finish else self
        return replace(launch, env={**variables, **launch.env})


@dataclass(frozen=True, slots=True)
class AgentSetup:
    """How an agent gets into a sandbox: by a tree that is baked, a shell command, and files of this machine."""

    command: str | None = None
    """Run as root, once on top of each image. It finds the tree of the `recipe` and the files; so does the agent."""
    files: tuple[AgentFiles, ...] = ()
    recipe: LayerRecipe | None = None


class Agent(Protocol):
    """One agent of a job, ready for any task."""

    @property
    def ref(self) -> AgentRef:
        """How records name it."""
        ...

    def templates(self, config: TaskConfig) -> Mapping[str, str]:
        """The variables it will resolve from the host for a task, so that a missing one is known before the start."""
        ...

    def prepare(self, context: AgentContext) -> AgentLaunch | None:
        """What to run; None when there is nothing to run. Raises AgentSetupError when it cannot do this task."""
        ...


class SelectiveAgent(Agent, Protocol):
    """An agent that cannot attempt every task, and can tell before anything is made for it."""

    def declines(self, task: "TaskOutline") -> str | None:
        """Why it cannot attempt a task, in a few words by which tasks are counted; None when it can. Pure."""
        ...


def why_declined(agent: Agent, task: "TaskOutline") -> str | None:
    """Why an agent cannot attempt a task, None when it can or has not said. Raises UsageError when it fails to say."""
    # Not isinstance: asking a protocol takes longer than the answer, and there may be thousands of tasks.
    declines: Callable[[TaskOutline], str | None] | None = getattr(agent, "declines", None)
    if declines is None:
        return None
    try:
        return declines(task)
    except Exception as error:  # a stranger's plug-in may fail in any way
        name = agent.ref.name
        raise UsageError(f"the agent {name!r} failed on {task.id}: {type(error).__name__}: {error}") from error


class InstalledAgent(Agent, Protocol):
    """An agent that knows how it is installed, so that its users need not say it."""

    @property
    def setup(self) -> AgentSetup | None:
        """What has to be done for it, unless a user has it set up in another way."""
        ...


def with_own_setup(options: AgentOptions) -> AgentOptions:
    """The options with the preset of their agent and the set-up that it names; a user's own goes before all of it.

    Raises UsageError.
    """
    options = _with_preset(options)
    if options.layer is not None:
        options = options.model_copy(update={"recipe": None})
    if options.setup is not None:
        return options
    setup = getattr(make_agent(options), "setup", None)
    if setup is None:
        return options
    if not isinstance(setup, AgentSetup):
        raise UsageError(
            f"the agent {options.title!r} is set up by {setup!r}, expected a seatrial.agents.api.AgentSetup; tell its "
            "authors"
        )
    there = {(each.source, each.target) for each in options.files}  # from an earlier call, if any
    own = tuple(each for each in setup.files if (each.source, each.target) not in there)
    recipe = setup.recipe if options.layer is None else None
    return options.model_copy(
        update={"setup": setup.command, "files": (*options.files, *own), "recipe": options.recipe or recipe}
    )


def _with_preset(options: AgentOptions) -> AgentOptions:
    """The options with the preset that they mean by their name, unless a plug-in has that name."""
    name = registered_name(options)
    if options.preset is not None or find_plugin(ENTRY_POINTS, name) is not None:
        return options
    from seatrial.agents.presets import as_json, find_preset  # noqa: PLC0415 - jobs of commands and oracles do without

    found = find_preset(name)
    return options.model_copy(update={"preset": as_json(found)}) if found else options


def is_reference(agent: Agent) -> bool:
    """Whether an agent is there to measure tasks, not to be measured: it needs no model, whatever the job has."""
    return getattr(agent, "is_reference", False)


def registered_name(options: AgentOptions) -> str:
    """The name under which the plug-in of an agent is registered."""
    return _OTHER_NAMES.get(options.name, options.name)


def make_agent(options: AgentOptions) -> Agent:
    """The agent that options describe. Raises UsageError for an unknown name or options it cannot use."""
    options = _with_preset(options)
    factory = _factory(registered_name(options)) if options.preset is None else _preset_agent
    try:
        return factory(options)
    except UsageError:
        raise
    except Exception as error:  # a stranger's plug-in may fail in any way
        raise UsageError(f"the agent {options.title!r} cannot be made: {type(error).__name__}: {error}") from error


def _factory(name: str) -> "AgentFactory":
    factory: AgentFactory | None = find_plugin(ENTRY_POINTS, name)
    if factory is None:
        from seatrial.agents.presets import preset_names  # noqa: PLC0415 - as above

        way_out = "any program can be one: --command 'COMMAND', with --agent-setup 'COMMAND' to install it"
        known = ", ".join(sorted({*plugin_names(ENTRY_POINTS), *preset_names()}))
        raise UsageError(f"there is no agent called {name!r}; there are: {known}; {way_out}")
    return factory


def _preset_agent(options: AgentOptions) -> Agent:
    from seatrial.agents.preset_agent import PresetAgent  # noqa: PLC0415 - as above
    from seatrial.agents.presets import preset_from  # noqa: PLC0415 - as above

    return PresetAgent(options, preset_from(options.preset or {}, options.title))


def needs_model(agent: Agent) -> bool:
    """Whether an agent can do nothing without a model."""
    return getattr(agent, "needs_model", False)


def make_agents(options: Iterable[AgentOptions]) -> dict[str, Agent]:
    """Agents by their titles, as `make_agent` makes them."""
    return {each.title: make_agent(each) for each in options}


AgentFactory = Callable[[AgentOptions], Agent]
"""What a plug-in registers. It raises UsageError for options it cannot use."""
