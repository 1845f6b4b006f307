"""What is checked of agents and tasks before a job starts, and of agents again before it is resumed.

Agents are stored with what their set-up and files are now; variables that are not set, images that no task may name
and limits that cannot be enforced are refused at once, for all tasks together. Each function raises UsageError or
returns lines for the user; `prepare.py` calls them in order.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_args

from seatrial.agents.api import Agent, make_agent, with_own_setup
from seatrial.agents.command_line import check_command
from seatrial.agents.files import have_changed, lock_files
from seatrial.errors import BuildError, HostUnsupportedError, JobError, RubricError
from seatrial.images.choice import why_refused
from seatrial.model.job import AgentOptions, JobSpec, LeftOut, TrialOptions
from seatrial.model.loaded_task import Task
from seatrial.model.task import TaskConfig
from seatrial.sandbox.api import Capabilities, Limit, NetworkMode
from seatrial.tasks.outline import TaskOutline
from seatrial.tasks.variables import (
    allowed_variables,
    declared_tables,
    denied_defaults,
    is_provider_key,
    keys_of,
    missing_in,
    templates_in,
    verifier_tables,
    why_never,
    without_judges,
)
from seatrial.trial.place import AS_DECLARED, image_policy, limits_asked, network_mode

if TYPE_CHECKING:
    from seatrial.model.preset import Preset


# Agents as they are stored.


def with_locked_agents(spec: JobSpec) -> JobSpec:
    """The spec with each agent as `locked_agent` has it. Raises UsageError for files or a command that cannot be."""
    if spec.trial.backend != "local":  # there, commands run on this machine
        for agent in spec.agents:
            check_command(agent)
    agents = tuple(map(locked_agent, spec.agents))
    if spec.trial.backend == "local":
        _refuse_trees(agents)
    return spec.model_copy(update={"agents": agents})


def _refuse_trees(agents: Iterable[AgentOptions]) -> None:
    """Where commands run on this machine, there is no image to lay a tree over."""
    for agent in agents:
        if agent.recipe or agent.layer:
            raise JobError(
                f"the agent {agent.title!r} runs from a tree that is laid over an image, and the local backend has no "
                "images; use the embedded, docker or podman backend"
            )


def locked_agent(agent: AgentOptions) -> AgentOptions:
    """The agent with the set-up that it names itself, and with what its files are now. Raises UsageError."""
    agent = with_own_setup(agent)
    if agent.layer is not None:
        from seatrial.images.baking.tidy import lock_layer  # noqa: PLC0415 - most agents bring none

        agent = agent.model_copy(update={"layer": lock_layer(agent.layer)})
    if not agent.files:
        return agent
    files = tuple(map(lock_files, agent.files))
    folders = [each.target for each in files if os.path.isdir(each.source)]  # noqa: PTH112 - a quick look, by a path that stays as it was named
    if repeated := {target for target in folders if folders.count(target) > 1}:
        raise JobError(
            f"agent {agent.title!r}: more than one folder goes to {min(repeated)}; say where the others go, as in "
            f"--agent-files {files[-1].source}:/agent-2"
        )
    return agent.model_copy(update={"files": files})


def changed_agents(agents: Iterable[AgentOptions]) -> list[str]:
    """The files and layers of agents that are not what they were when the job began, one line each."""
    return [line for agent in agents for line in _changed(agent)]


def _changed(agent: AgentOptions) -> Iterator[str]:
    for files in filter(have_changed, agent.files):
        yield f"agents.{agent.title}.files: {files.source} has changed, or is not there any more"
    if agent.layer is not None:
        from seatrial.images.baking.tidy import has_changed  # noqa: PLC0415 - most agents bring none

        if has_changed(agent.layer):
            yield f"agents.{agent.title}.layer: {agent.layer.source} has changed, or is not there any more"


# Agents and tasks that do not quite go together, and run anyway.


def agent_notices(agents: Iterable[AgentOptions], tasks: Sequence[TaskOutline], options: TrialOptions) -> list[str]:
    """Which agents have less memory than they need, cannot use tools of tasks, bring programs, or are not the usual."""
    notices: list[str] = []
    for agent in agents:
        notices += _layer(agent)
        if agent.preset is not None:
            from seatrial.agents.presets import is_shipped, preset_from  # noqa: PLC0415 - as above

            title, preset = agent.title, preset_from(agent.preset, agent.title)
            if preset.source and is_shipped(preset.name):
                notices.append(
                    f"the agent {title!r} is that of {preset.source}, before the one that comes with Seatrial"
                )
            notices += [*_memory(title, preset, tasks, options), *_tools(title, preset, tasks)]
    return notices


def _layer(agent: AgentOptions) -> Iterator[str]:
    """What a layer brings for verifiers to use as well: it is part of the image, so nothing of it is put back."""
    if agent.layer is None:
        return
    from seatrial.images.baking.tidy import beside_opt  # noqa: PLC0415 - as above

    if found := beside_opt(agent.layer):
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield (
            f"the layer of the agent {agent.title!r} brings {found[0]!r}{more} outside of /opt: verifiers take that "
            "for the image's own, so a reward is worth as much as the layer is"
        )


def _memory(title: str, preset: "Preset", tasks: Sequence[TaskOutline], options: TrialOptions) -> Iterator[str]:
    least = preset.least_memory_mb
    if least is None:
        return
    given = ((task, options.memory_mb or task.config.environment.memory_mb) for task in tasks)
    short = [(task, memory) for task, memory in given if memory is not None and memory < least]
    if short:
        task, memory = short[0]
        more = f" and {len(short) - 1} more" if len(short) > 1 else ""
        yield (
            f"the agent {title!r} takes {least} MB of memory, and {task.id}{more} gives it {memory} MB; --memory "
            f"{least}M gives it enough"
        )


def _tools(title: str, preset: "Preset", tasks: Sequence[TaskOutline]) -> Iterator[str]:
    usable = preset.mcp.transports if preset.mcp else ()
    offered = ((task, server) for task in tasks for server in task.config.environment.mcp_servers)
    unusable = [(task, server) for task, server in offered if server.transport not in usable]
    if unusable:
        task, server = unusable[0]
        more = f" (and {len(unusable) - 1} more)" if len(unusable) > 1 else ""
        what = f"MCP servers by {server.transport}" if preset.mcp else "MCP servers"
        yield f"the agent {title!r} cannot use {what}, and works without {server.name!r} of {task.id}{more}"
    skilled = [task for task in tasks if task.config.environment.skills_dir]
    if skilled and not preset.skills:
        more = f" and {len(skilled) - 1} more" if len(skilled) > 1 else ""
        yield f"the agent {title!r} knows no skills, and works without those of {skilled[0].id}{more}"


# Variables of this machine. What an agent's own options ask for is the user's word. What a task asks for is a
# stranger's, and has to be allowed; one that asks for the key of a provider is left out of the job (`select.py`).

_MOST_NAMED = 3


def check_variables(
    configs: Mapping[str, TaskConfig],
    agents: Iterable[AgentOptions],
    options: TrialOptions,
    upstream: str | None = None,
    host: Mapping[str, str] = os.environ,
    left_out: Iterable[LeftOut] = (),
) -> list[str]:
    """See that tasks, given by id, and agents have the variables they cannot do without, less what is left out.

    Returns what the user should know. Raises JobError naming every variable that is not set or not allowed.
    """
    rules = _Rules(frozenset(options.allow_env), host, keys_of(upstream, options.verifier_upstream))
    if never := [reason for name in options.allow_env if (reason := rules.never(name))]:
        raise JobError("\n".join(["these variables cannot be allowed:", *(f"  {reason}" for reason in never)]))
    may_have = allowed_variables(rules.allowed, host)
    made = [(each, make_agent(each)) for each in agents]
    without = {(entry.task, entry.agent) for entry in left_out}
    unset, refused, denied, judged, idle = _Names(), _Names(), _Names(), _Names(), _Names()
    for task_id, config in configs.items():
        working = [(each, agent) for each, agent in made if (task_id, each.title) not in without]
        own = [_of_user(each, agent, config) for each, agent in working]
        of_task = [*declared_tables(config), *(solution_variables(each, agent, config) for each, agent in working)]
        of_task += map(without_judges, verifier_tables(config))
        unset.add(task_id, chain.from_iterable(missing_in(table, host) for table in own))
        refused.add(task_id, chain.from_iterable(missing_in(table, may_have) for table in of_task))
        denied.add(task_id, denied_defaults(of_task, rules.allowed, host))
        if options.verifier_upstream is None:
            judged.add(task_id, _judges_refused(config, may_have))
            idle.add(task_id, _judges_idle(config, may_have))
    lines = unset.lines(lambda _: "it is not set; export it") + refused.lines(rules.way_out) + judged.lines(_ask_where)
    if lines:
        raise JobError("\n".join(["these variables are needed and cannot be had:", *(f"  {line}" for line in lines)]))
    told = denied.lines(lambda name: f"it is set here, tasks use their own default: {rules.way_out(name)}")
    return told + idle.lines(lambda _: f"verifiers that would ask a model have no key for it; {VERIFIER_UPSTREAM}")


VERIFIER_UPSTREAM = "--verifier-upstream UPSTREAM gives verifiers a way to their models, with a key of its own"


def _ask_where(name: str) -> str:
    why = "it is not set or not allowed"
    if is_provider_key(name):
        why = "the verifier asks a model, and no task gets the key of a provider"
    return f"{why}; {VERIFIER_UPSTREAM}"


def _judges(config: TaskConfig) -> Iterator[dict[str, str]]:
    """What the verifiers of a task take from a session, where they have one."""
    for table in verifier_tables(config):
        rest = without_judges(table)
        yield {name: value for name, value in table.items() if name not in rest}


def _judges_refused(config: TaskConfig, may_have: Mapping[str, str]) -> Iterator[str]:
    return chain.from_iterable(missing_in(table, may_have) for table in _judges(config))


def _judges_idle(config: TaskConfig, may_have: Mapping[str, str]) -> Iterator[str]:
    """The keys that verifiers go without, and have an empty default for."""
    for table in _judges(config):
        for name, default in templates_in(table):
            if default == "" and name not in may_have and is_provider_key(name):
                yield name


def keys_of_verifiers(config: TaskConfig, upstream: str | None) -> list[str]:
    """Why a task cannot run without a verifier upstream: a line for each key of a model that its verifiers need."""
    if upstream is not None:
        return []
    names = dict.fromkeys(chain.from_iterable(missing_in(table, {}) for table in _judges(config)))
    return [f"${{{name}}}: {_ask_where(name)}" for name in names if is_provider_key(name)]


def rubric_faults(task: TaskOutline, spec: JobSpec) -> list[str]:
    """Why the judge of a task that is graded by a rubric alone cannot be asked in a job."""
    phases = [step.spec.verifier for step in task.steps] or [task.config.verifier]
    layouts = [step.layout for step in task.steps] or [task.layout]
    found: list[str] = []
    for layout, phase in zip(layouts, phases, strict=True):
        has_image = layout.verifier_dockerfile or (phase.environment and phase.environment.docker_image)
        if layout.rubric and not layout.test_script and not has_image:
            found += _faults_of(task.root / layout.rubric, layout.rubric, spec)
    return list(dict.fromkeys(found))


def _faults_of(path: Path, name: str, spec: JobSpec) -> Iterator[str]:
    if spec.trial.verifier_upstream is None:
        yield f"a judge that answers {name}; {VERIFIER_UPSTREAM}"
        return
    from seatrial.jobs.judge_model import is_same_model  # noqa: PLC0415 - much, which most tasks do without
    from seatrial.judge.rubric import load_rubric  # noqa: PLC0415
    from seatrial.trial.rubric_verifier import USUAL_JUDGE, judges_of  # noqa: PLC0415

    try:
        judges = judges_of(load_rubric(path))
    except RubricError as error:
        yield str(error)
        return
    known = spec.trial.verifier_models
    for judge in judges:
        model = known.get(judge, judge)
        graded = [each.title for each in spec.agents if each.model and is_same_model(model, each.model)]
        if judge == USUAL_JUDGE and judge not in known:
            yield f"a judge that {name} does not name; --verifier-model {USUAL_JUDGE}=MODEL says which"
        elif graded and known.get(judge) != judge:
            yield (
                f"the judge {model}, which is the model of the agent {graded[0]!r}, and models prefer their own work; "
                f"--verifier-model {judge}=OTHER names another, {judge}={judge} lets it judge"
            )


def keys_asked(
    tables: Iterable[Mapping[str, str]], upstream: str | None, host: Mapping[str, str] = os.environ
) -> list[str]:
    """Why a task of these tables cannot run at all: a line for each variable without a default that no task gets."""
    names = dict.fromkeys(chain.from_iterable(missing_in(table, {}) for table in tables))
    found = ((name, why_never(name, host, keys_of(upstream))) for name in names)
    return [f"${{{name}}}: {reason}" for name, reason in found if reason]


class _Rules(NamedTuple):
    """What of the host's variables tasks may have; `keys` are those the job's upstreams take theirs from."""

    allowed: frozenset[str]
    host: Mapping[str, str]
    keys: frozenset[str]

    def never(self, name: str) -> str | None:
        return why_never(name, self.host, self.keys)

    def way_out(self, name: str) -> str:
        """Why tasks do not get a variable, and what to do about it."""
        if reason := self.never(name):
            return reason
        if name in self.host:
            return f"it is not allowed; --allow-env {name} lets tasks have it"
        allow = "" if name in self.allowed else f", and let tasks have it with --allow-env {name}"
        return f"it is not set; export it{allow}"


class _Names:
    """Names of variables, each with the tasks that are concerned."""

    def __init__(self) -> None:
        self._tasks: dict[str, list[str]] = {}

    def add(self, task_id: str, names: Iterable[str]) -> None:
        for name in dict.fromkeys(names):
            self._tasks.setdefault(name, []).append(task_id)

    def lines(self, describe: Callable[[str], str]) -> list[str]:
        return [f"{name} (for {_named(tasks)}): {describe(name)}" for name, tasks in sorted(self._tasks.items())]


def _of_user(options: AgentOptions, agent: Agent, config: TaskConfig) -> dict[str, str]:
    """What an agent resolves that the task has no hand in."""
    of_task = solution_variables(options, agent, config)
    return {name: text for name, text in agent.templates(config).items() if name not in of_task}


def solution_variables(options: AgentOptions, agent: Agent, config: TaskConfig) -> dict[str, str]:
    """What an agent resolves because the task says so: the oracle does, for the solution."""
    said, own = config.solution_env, options.env
    templates = agent.templates(config).items()
    return {name: text for name, text in templates if said.get(name) == text and own.get(name) != text}


def _named(tasks: list[str]) -> str:
    more = f" and {len(tasks) - _MOST_NAMED} more" if len(tasks) > _MOST_NAMED else ""
    return ", ".join(tasks[:_MOST_NAMED]) + more


# Images that tasks name: none may be a folder or the system of this machine unless the user allowed it.


def check_images(tasks: Iterable[Task | TaskOutline], options: TrialOptions) -> None:
    """Raise JobError naming every task that wants a folder or the system of this machine for an image.

    What the run itself says goes before all that tasks say, so nothing of theirs is looked at then.
    """
    if options.image != "auto":
        return
    policy = image_policy(options)
    refused = [
        f"  task {task.id}: {place}: {reason}"
        for task in tasks
        for place, name in _named_images(task, options)
        if policy.instead_of(name) is None and (reason := why_refused(name))
    ]
    if refused:
        raise JobError("\n".join(["these tasks name images that no task may name:", *refused]))


def _named_images(task: Task | TaskOutline, options: TrialOptions) -> Iterator[tuple[str, str]]:
    """Every image that a task names, with the place that does."""
    config = task.config
    phases = [("verifier", config.verifier)]
    phases += [(f"steps.{step.spec.name}.verifier", step.spec.verifier) for step in task.steps]
    machines = [("environment", config.environment)]
    machines += [(f"{key}.environment", phase.environment) for key, phase in phases if phase.environment]
    for key, machine in machines:
        if machine.docker_image:
            yield f"task.toml: {key}.docker_image", machine.docker_image
    layouts = [task.layout, *(step.layout for step in task.steps)]
    files = {layout.verifier_dockerfile for layout in layouts}
    if not config.environment.docker_image or options.build == "always":
        files.add(task.layout.dockerfile)
    for file in sorted(filter(None, files)):
        yield from _in_dockerfile(f"{task.root}/{file}")


def _in_dockerfile(path: str) -> list[tuple[str, str]]:
    from seatrial.images.building.plan import images_named_in  # noqa: PLC0415 - many jobs build nothing

    with suppress(BuildError):  # the build says what is wrong with it, if it comes to one
        return images_named_in(path)
    return []


# Limits and networks.

_LIMITS: frozenset[str] = frozenset(get_args(Limit))
_MODES: frozenset[str] = frozenset(get_args(NetworkMode)) - {"host"}


def check_enforceable(tasks: Iterable[Task], options: TrialOptions, capabilities: Capabilities) -> None:
    """Raise HostUnsupportedError, once for all tasks, naming what cannot be enforced here, why, and the choice."""
    able = frozenset(capabilities.limits) | capabilities.networks
    if options.enforcement == "partial" or able >= _LIMITS | _MODES:
        return
    lacking: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        for need in dict.fromkeys(_needs(task, options)):
            if need not in able:
                lacking[need].append(task.id)
    if lacking:
        raise HostUnsupportedError("\n".join(_complaint(lacking, capabilities)))


def _needs(task: Task, options: TrialOptions) -> Iterator[str]:
    config = task.config
    machines = [(config.environment, options)]
    if config.verifier.environment:
        machines.append((config.verifier.environment, AS_DECLARED))
    for machine, limits in machines:
        yield from (name for name, value in limits_asked(machine, limits) if value is not None)
        yield network_mode(machine.network, options)
    if config.agent.network:
        yield network_mode(config.agent.network, options)


def _complaint(lacking: dict[str, list[str]], capabilities: Capabilities) -> Iterator[str]:
    yield f"the tasks ask for what the {capabilities.backend} backend cannot enforce here; nothing has been run:"
    ways: list[str] = []
    for need, tasks in lacking.items():
        named = tasks[0] if len(tasks) == 1 else f"{len(tasks)} tasks, such as {tasks[0]}"
        what = need if need in _LIMITS else f"network {need!r}"
        reason, _, way = capabilities.missing.get(need, "it has no means to").partition("; ")
        ways.append(way or "use another backend (-e)")
        yield f"  {what} ({named}): {reason}"
    yield "a new job with --allow-partial-limits runs them without that, and its records say so; to have it enforced:"
    yield from (f"  {way}" for way in dict.fromkeys(ways))
