"""Which agents a command line asks for: every --command is one, and so is every agent with every model."""

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seatrial.agents.command_line import scripts_in
from seatrial.errors import JobError
from seatrial.model.job import WITHOUT_MODEL

Agent = dict[str, Any]
_ODD = re.compile(r"[^A-Za-z0-9_-]+", re.ASCII)


def agents_asked(options: Mapping[str, Any], of_file: Any) -> list[Agent]:
    """The agents in the shape of AgentOptions; those of a job file where only more is said about them.

    Raises JobError for what says something about no agent.
    """
    agents = _named(options)
    said = {name: options.get(f"agent_{name}") for name in ("env", "files", "layer", "setup", "options")}
    said = {name: value for name, value in said.items() if value}
    models: Sequence[str] = options.get("models") or ()
    if not agents and (models or said) and isinstance(of_file, list):
        agents = [dict(agent) for agent in of_file if isinstance(agent, dict)]
    if said and not any(map(_is_own, agents)):
        named = " and ".join(f"--agent-{name.rstrip('s') if name == 'options' else name}" for name in said)
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
