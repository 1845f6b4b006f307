"""How a command line becomes a JobSpec: a job file first, the options over it; and which agents it asks for.

Every --command is an agent, and so is every agent with every model. An agent that a stored job has already is not
added to it a second time.
"""

import itertools
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seatrial.agents.command_line import scripts_in
from seatrial.cli.job_file import JOBS_DIR, build_spec, read_job_file
from seatrial.cli.options import IMAGE_WORDS, whole_image
from seatrial.errors import JobError, UsageError
from seatrial.images.reference import parse_reference
from seatrial.jobs.api import job_name, new_job_folder
from seatrial.model.job import AGENT_FILES_DIR, WITHOUT_MODEL, AgentOptions, JobSpec, TrialOptions
from seatrial.model.options import declared_options, options_of

Options = Mapping[str, Any]
Agent = dict[str, Any]
_ODD = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)


def new_job(options: Options) -> tuple[JobSpec, Path]:
    """The job that was asked for and the folder it goes to. Raises JobError for one that cannot be."""
    file: Path | None = options["job_file"]
    values = read_job_file(file) if file else {}
    _merge(values, _overrides(options, values.get("agents")))
    values["name"], folder = _place(options, values)
    if not values.get("tasks"):
        raise JobError("no tasks; name a task or a folder of tasks with -p, or `tasks` in a job file")
    if not values.get("agents"):
        raise JobError("no agent; name one with -a (such as -a oracle), give a --command, or [[agents]] in a job file")
    spec = build_spec(values, str(file) if file else "command line")
    _check_images(spec.trial)
    return spec, folder


def job_of_agents(options: Options, name: str, agents: Sequence[str]) -> JobSpec:
    """What the options say of tasks and trials, for agents that the command itself names. Raises JobError."""
    values = _overrides(options, None)
    if not values.get("tasks"):
        raise JobError("no tasks; name a task or a folder of tasks")
    named = {"name": name, "agents": [{"name": agent} for agent in agents]}
    spec = build_spec({**values, **named}, "command line")
    _check_images(spec.trial)
    return spec


def trial_asked(options: Options, base: Mapping[str, Any]) -> TrialOptions:
    """What the options say about trials, over what is known already. Raises JobError for what cannot be."""
    trial = {**base, **_overrides(options, None).get("trial", {})}
    values = {"name": "one", "tasks": ["."], "agents": [{"name": "noop"}], "trial": trial}
    spec = build_spec(values, "command line")
    _check_images(spec.trial)
    return spec.trial


def changed_job(spec: JobSpec, options: Options) -> JobSpec:
    """A stored job with what the options add to it: tasks and agents beside its own, other numbers in their place."""
    values = spec.model_dump(mode="json", exclude_unset=True)
    added = _overrides(options, None)
    if options["models"] and "agents" not in added:
        raise JobError("-m names the model of agents that are added to the job; give -a or --command too")
    added["tasks"] = [*values["tasks"], *(path for path in added.get("tasks", ()) if path not in values["tasks"])]
    added["agents"] = _with_agents(values["agents"], added.get("agents", ()))
    if options.get("engine") and not options.get("address"):
        values.get("run", {}).pop("address", None)  # that of the engine it had
    _merge(values, added)
    return build_spec(values, "command line")


def _overrides(options: Options, agents_of_file: Any) -> dict[str, Any]:
    """What the command line says, in the shape of a JobSpec; only what was given."""
    values: dict[str, Any] = {}
    for declared in declared_options(JobSpec):
        given = options.get(declared.param)
        if given is not None and given not in ((), {}) and not declared.key.startswith("agents."):
            _put(values, declared.key, list(given) if isinstance(given, tuple) else given)
    if more := options.get("more_paths"):
        values["tasks"] = [*values.get("tasks", ()), *map(os.path.abspath, more)]
    if agents := agents_asked(options, agents_of_file):
        values["agents"] = agents
    _both_timeouts(options, values)
    _order(options, values)
    if image := values.get("trial", {}).get("image"):
        values["trial"]["image"] = whole_image(image)
    return values


def _both_timeouts(options: Options, values: dict[str, Any]) -> None:
    both = options.get("timeout_multiplier")
    if both is None:
        return
    for phase in ("agent", "verifier"):
        if options[f"{phase}_timeout_multiplier"] is not None:
            raise JobError(f"--timeout-multiplier and --{phase}-timeout-multiplier: give one of them")
        _put(values, f"trial.{phase}_timeout_multiplier", both)


def _order(options: Options, values: dict[str, Any]) -> None:
    seed = options.get("seed")
    if seed is not None and not options["shuffle"]:
        raise JobError("--seed is the seed of a random order; give --shuffle too")
    if options.get("shuffle"):
        # Drawn here and stored with the job, so that this order can be had again.
        _put(values, "run.shuffle_seed", secrets.randbelow(2**31) if seed is None else seed)


def _place(options: Options, values: dict[str, Any]) -> tuple[Any, Path]:
    """The job's name and its folder: the one that was named, or one below the folder of jobs."""
    of_file: str | None = values.pop(JOBS_DIR, None)
    if output := options["output"]:
        if options.get("jobs_dir") or options.get("job_name"):
            raise JobError("-o names the job's own folder; give it, or --jobs-dir and --job-name, not both")
        return job_name(output), output
    parent = options.get("jobs_dir") or Path(of_file or "jobs")
    name = options.get("job_name") or values.get("name")
    folder = parent / str(name) if name is not None else new_job_folder(parent)
    return name or job_name(folder), folder


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    table, _, name = key.rpartition(".")
    (values.setdefault(table, {}) if table else values)[name] = value


def _merge(values: dict[str, Any], over: Mapping[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(values.get(key), dict):
            values[key] = {**values[key], **value}
        else:
            values[key] = value


def _check_images(options: TrialOptions) -> None:
    """Raise JobError for an image that is none of what an image can be."""
    for image in (options.image, *options.image_map.values()):
        if image.startswith("/"):
            if not os.path.isdir(image):  # noqa: PTH112 - links stay as they were named
                raise JobError(f"image {image}: expected a folder with a root file system, and there is none")
        elif image not in IMAGE_WORDS:
            try:
                parse_reference(image)
            except UsageError as error:
                raise JobError(f"image {image}: expected host, a folder or the name of an image: {error}") from error


def agents_asked(options: Mapping[str, Any], of_file: Any) -> list[Agent]:
    """The agents in the shape of AgentOptions; those of a job file where only more is said about them.

    Raises JobError for what says something about no agent.
    """
    agents = _named(options)
    own = sorted(options_of(AgentOptions).items(), key=lambda each: each[1].place)
    declared = {name: each for name, each in own if each.usage and not each.repeated}
    said = {name: given for name, each in declared.items() if (given := options.get(each.param or name))}
    models: Sequence[str] = options.get("models") or ()
    if not agents and (models or said) and isinstance(of_file, list):
        agents = [dict(agent) for agent in of_file if isinstance(agent, dict)]
    if said and not any(map(_is_own, agents)):
        named = " and ".join(declared[name].long for name in said)
        raise JobError(f"{named}: this is about an agent of your own, and there is none; give its --command too")
    return [agent for each in agents for agent in _with_models(_with(each, said) if _is_own(each) else each, models)]


def _is_own(agent: Agent) -> bool:
    """Whether an agent is anything but those that come with Seatrial and need nothing."""
    return agent.get("name") not in WITHOUT_MODEL


def _named(options: Mapping[str, Any]) -> list[Agent]:
    commands: Sequence[str] = options.get("commands") or ()
    names = list(options.get("agents", ()))
    if not commands:
        return [_versioned(name, options) for name in names]
    others: list[Agent] = [_versioned(name, options) for name in names if name != "command"]
    if len(commands) == 1:
        return [*others, {"name": "command", "command": commands[0]}]
    labels = _labels(commands, taken=names)
    return [*others, *({"name": "command", "label": labels[each], "command": each} for each in commands)]


def _versioned(text: str, options: Mapping[str, Any]) -> Agent:
    """`NAME` or `NAME@VERSION`, with the preset of a folder that is named beside it."""
    name, at, version = text.partition("@")
    if at and not (name and version):
        raise JobError(f"-a {text}: expected NAME or NAME@VERSION, such as claude-code@2.1.325")
    if at and name in WITHOUT_MODEL:
        raise JobError(f"-a {text}: {name} comes with Seatrial and has no versions; give -a {name}")
    agent: Agent = {"name": name, "version": version} if at else {"name": name}
    if at and sum(each.partition("@")[0] == name for each in options["agents"]) > 1:
        agent["label"] = f"{name}-{version}"
    folder: Path | None = options.get("agents_dir")
    if folder is None or name in WITHOUT_MODEL:
        return agent
    from seatrial.agents.presets import as_json, find_preset  # noqa: PLC0415 - most jobs do without

    preset = find_preset(name, folder)
    return {**agent, "preset": as_json(preset)} if preset and preset.source else agent


def _labels(commands: Sequence[str], taken: Sequence[str]) -> dict[str, str]:
    """A name for each command that tells it from the others: that of its script, numbered where it must be."""
    labels: dict[str, str] = {}
    for command in commands:
        name = _script_name(command)
        names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
        labels[command] = next(each for each in names if each not in (*taken, *labels.values()))
    return labels


def _script_name(command: str) -> str:
    script = (scripts_in(command) or ["command"])[-1].rpartition("/")[2]
    stem, _, _ = script.partition(".")
    return _ODD.sub("-", stem).strip("-") or "command"


def _with(agent: Agent, said: Mapping[str, Any]) -> Agent:
    """An agent with what is said about all of them; variables and options are added to its own."""
    added = {name: {**agent.get(name, {}), **said[name]} for name in ("env", "options") if name in said}
    return {**agent, **said, **added}


def _with_models(agent: Agent, models: Sequence[str]) -> list[Agent]:
    """One agent for each model. Those that ask no model are not multiplied."""
    if not models:
        return [agent]
    if len(models) == 1:
        return [{**agent, "model": models[0]}]
    if agent.get("name") in WITHOUT_MODEL:
        return [agent]
    title = agent.get("label") or agent["name"]
    return [{**agent, "model": model, "label": f"{title}-{model}"} for model in models]


def _with_agents(present: Sequence[Agent], added: Sequence[Agent]) -> list[Agent]:
    """The agents of a job and those that are new to it. Raises JobError for one of another's name that is not it."""
    known = {_title(agent): agent for agent in present}
    for agent in added:
        if differences := _agent_differences(agent, known.get(_title(agent), agent)):
            raise JobError(
                f"the job has an agent {_title(agent)!r} already, and not the same: {'; '.join(differences)}; run a "
                "new job for the other one"
            )
    return [*present, *(agent for agent in added if _title(agent) not in known)]


def _title(agent: Agent) -> str:
    return str(agent.get("label") or agent["name"])


def _agent_differences(agent: Agent, stored: Agent) -> list[str]:
    """Where what is said of an agent is not what the job has; what is not said is the same."""
    return [
        f"{name} was {stored.get(name)!r}, is {agent[name]!r}"
        for name in AgentOptions.model_fields
        if name in agent and _without_digests(agent[name]) != _without_digests(stored.get(name))
    ]


def _without_digests(value: Any) -> Any:
    """What was said of an agent; a job also knows what was in its files and its layer, and checks that by itself."""
    if isinstance(value, dict) and "source" in value:
        return {**value, "digest": None}
    if not isinstance(value, list | tuple):
        return value
    return [{"target": AGENT_FILES_DIR, **files, "digest": None} for files in value]
