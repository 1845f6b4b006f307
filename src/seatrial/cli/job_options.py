"""The options that say what a job is, and how they become a JobSpec: a job file first, the command line over it."""

import os
import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from seatrial.cli.job_agents import with_agents
from seatrial.cli.job_file import build_spec, read_job_file
from seatrial.cli.job_images import check_images, whole_image
from seatrial.errors import JobError
from seatrial.jobs.api import job_name, new_job_folder
from seatrial.model.job import ImageFallback, Isolation, JobSpec

Command = TypeVar("Command", bound=Callable[..., Any])
Options = Mapping[str, Any]

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_ENDLESS = 1e9
_AT_LEAST_1 = click.IntRange(min=1)
_POSITIVE = click.FloatRange(min=0.0, min_open=True)

# Where in a JobSpec an option goes whose value is used as it is.
_KEYS = {
    "include": "include",
    "exclude": "exclude",
    "attempts": "attempts",
    "backend": "trial.backend",
    "image": "trial.image",
    "image_map": "trial.image_map",
    "image_fallback": "trial.image_fallback",
    "build": "trial.build",
    "isolation": "trial.isolation",
    "enforcement": "trial.enforcement",
    "network": "trial.network",
    "private_hosts": "trial.private_hosts",
    "allow_env": "trial.allow_env",
    "agent_timeout_multiplier": "trial.agent_timeout_multiplier",
    "verifier_timeout_multiplier": "trial.verifier_timeout_multiplier",
    "pass_threshold": "trial.pass_threshold",
    "trust": "trial.trust",
    "keep": "trial.keep",
    "verdict": "trial.verdict",
    "unfit": "trial.unfit",
    "upstream": "model.upstream",
    "temperature": "model.temperature",
    "max_output_tokens": "model.max_output_tokens",
    "max_turns": "model.max_turns",
    "max_tokens": "model.max_tokens",
    "max_cost_usd": "model.max_cost_usd",
    "prices": "model.prices",
    "concurrent": "run.concurrent",
    "retries": "run.retries",
    "max_trials": "run.max_trials",
    "max_wall_sec": "run.max_wall_sec",
    "preflight": "run.preflight",
    "keep_going": "run.keep_going",
}


def parse_duration(_: click.Context, option: click.Parameter, value: str | None) -> float | None:
    """A length of time such as 90, 45s, 30m, 1h30m or 2d as seconds. Raises click's BadParameter for anything else."""
    if value is None:
        return None
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", value, flags=re.ASCII)
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != value or not 0 < seconds < _ENDLESS:
        raise click.BadParameter(f"{value!r} is no length of time; write 90, 45s, 30m, 1h30m or 2d", param=option)
    return seconds


def parse_image_map(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Words like `python:3.11-slim=host` as a map. Raises click's BadParameter for anything else."""
    pairs = [value.partition("=") for value in values]
    for name, _equals, image in pairs:
        if not name or not image:
            raise click.BadParameter(f"{name!r}: write NAME=IMAGE, such as 'python:3.*=host'", param=option)
    return {name: whole_image(image) for name, _equals, image in pairs}


def parse_names(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Names of variables. Raises click's BadParameter for anything else, patterns included."""
    for value in values:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
            raise click.BadParameter(
                f"{value!r} is not the name of a variable; give each by its whole name", param=option
            )
    return values


_WHAT = (
    click.argument("more_paths", metavar="[TASKS]...", nargs=-1),
    click.option("-p", "--path", "paths", multiple=True, metavar="TASKS", help="A task, or a folder of tasks."),
    click.option("-a", "--agent", "agents", multiple=True, metavar="AGENT", help="Who works: oracle, noop, …"),
    click.option("-m", "--model", metavar="MODEL", help="The model the agents use."),
    click.option("--command", metavar="COMMAND", help="Run this shell command as the agent."),
    click.option("--agent-setup", metavar="COMMAND", help="Installs the agent, once on top of each image."),
    click.option("-k", "--attempts", type=_AT_LEAST_1, metavar="N", help="Trials of each agent at each task.  [1]"),
)
_HOW_MUCH = (
    click.option(
        "-n", "--concurrent", type=_AT_LEAST_1, metavar="N", help="Trials at a time.  [what the machine bears]"
    ),
    click.option(
        "--retries", type=click.IntRange(min=0), metavar="N", help="Further tries when the machinery fails.  [2]"
    ),
    click.option("--max-trials", type=_AT_LEAST_1, metavar="N", help="Start no more trials than this."),
    click.option(
        "--max-wall",
        "max_wall_sec",
        callback=parse_duration,
        metavar="TIME",
        help="Stop after this long, also what runs then: 90s, 30m, 2h.",
    ),
    click.option(
        "--preflight/--no-preflight", default=None, help="Try each agent out before its first trial.  [preflight]"
    ),
    click.option(
        "--keep-going/--stop-early",
        default=None,
        help="What to do when an agent never really runs in its first trials.  [stop-early]",
    ),
)
_HOW = (
    click.option("-e", "--backend", metavar="BACKEND", help="embedded, docker, podman, auto or local.  [embedded]"),
    click.option("--image", metavar="IMAGE", help="For all tasks: host, a reference, or a folder.  [the task's own]"),
    click.option(
        "--image-map",
        multiple=True,
        callback=parse_image_map,
        metavar="NAME=IMAGE",
        help="Another image than tasks and Dockerfiles name.",
    ),
    click.option(
        "--image-fallback",
        type=click.Choice(get_args(ImageFallback)),
        help="For which images that cannot be had this machine stands in.  [python]",
    ),
    click.option("--force-build", "build", flag_value="always", help="Build Dockerfiles even if an image is named."),
    click.option(
        "--verify-isolation",
        "isolation",
        type=click.Choice(get_args(Isolation)),
        help="What becomes of the agent's processes while its work is judged.  [guarded]",
    ),
    click.option(
        "--trust",
        type=click.Choice(["image", "as-left"]),
        callback=lambda _, __, value: value and value.replace("-", "_"),
        help="Whose programs and settings verifiers work with: the image's, or those the agent left.  [image]",
    ),
    click.option(
        "--allow-partial-limits", "enforcement", flag_value="partial", help="Run with the limits this machine can hold."
    ),
    click.option("--network", type=click.Choice(["task", "none"]), help="What the task says, or none.  [task]"),
    click.option(
        "--allow-private-hosts", "private_hosts", flag_value="allow", help="Let tasks reach this machine's networks."
    ),
    click.option(
        "--allow-env",
        multiple=True,
        callback=parse_names,
        metavar="NAME",
        help="Let tasks take this variable of this machine by ${NAME}.",
    ),
    click.option(
        "--timeout-multiplier", type=_POSITIVE, metavar="X", help="Stretch the times of agent and verifier.  [1]"
    ),
    click.option("--agent-timeout-multiplier", type=_POSITIVE, metavar="X", help="Stretch the agent's time.  [1]"),
    click.option(
        "--verifier-timeout-multiplier", type=_POSITIVE, metavar="X", help="Stretch the verifier's time.  [1]"
    ),
    click.option(
        "--pass-threshold", type=click.FloatRange(0.0, 1.0), metavar="X", help="The reward from which one passes.  [1]"
    ),
    click.option(
        "--verdict",
        type=click.Choice(["task", "exit_status"]),
        help="What counts where a verifier writes no reward: what the task says, or its exit status.  [task]",
    ),
    click.option("--keep", type=click.Choice(["record", "snapshot"]), help="Keep the sandbox's end state.  [record]"),
    click.option(
        "--force", "unfit", flag_value="run", help="Run tasks with errors, or without what no sandbox here has."
    ),
    click.option("--shuffle", is_flag=True, help="Run the trials in a random order."),
    click.option("--seed", type=int, metavar="N", help="The seed of that order."),
    click.option("--include", multiple=True, metavar="GLOB", help="Only tasks whose id matches."),
    click.option("--exclude", multiple=True, metavar="GLOB", help="No tasks whose id matches."),
    click.option("--job", "job_file", type=click.Path(path_type=Path), help="A job file (TOML) with any of this."),
    click.option("-o", "--output", type=click.Path(path_type=Path), help="The job folder.  [jobs/<date and time>]"),
)


_MODEL = (
    click.option("--upstream", metavar="UPSTREAM", help="Where model calls go: openai, https://…, scripted:FILE, …"),
    click.option("--temperature", type=click.FloatRange(min=0.0), metavar="X", help="Instead of what the agent asks."),
    click.option("--max-output-tokens", type=_AT_LEAST_1, metavar="N", help="Of one answer, instead of the agent's."),
    click.option("--max-turns", type=_AT_LEAST_1, metavar="N", help="Model calls of one trial, at most."),
    click.option("--max-tokens", type=_AT_LEAST_1, metavar="N", help="Tokens of one trial, in and out, at most."),
    click.option("--max-cost", "max_cost_usd", type=_POSITIVE, metavar="USD", help="Cost of one trial, at most."),
    click.option("--prices", metavar="FILE", help="A price list (TOML) before the one that comes with Seatrial."),
)


def new_job_options(command: Command) -> Command:
    """Give a command all options of a new job."""
    return _with(command, (*_WHAT, *_MODEL, *_HOW_MUCH, *_HOW))


def model_options(command: Command) -> Command:
    """Give a command the options that say where model calls go, and how far."""
    return _with(command, _MODEL)


def resumed_job_options(command: Command) -> Command:
    """Give a command the options that may be different when a job is resumed."""
    return _with(command, (*_WHAT[1:], *_HOW_MUCH))


def _with(command: Command, options: tuple[Callable[[Command], Command], ...]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def new_job(options: Options) -> tuple[JobSpec, Path]:
    """The job that was asked for and the folder it goes to. Raises JobError for one that cannot be."""
    file: Path | None = options["job_file"]
    values = read_job_file(file) if file else {}
    _merge(values, _overrides(options, values.get("agents")))
    values["name"], folder = _place(options["output"], values.get("name"))
    if not values.get("tasks"):
        raise JobError("no tasks; name a task or a folder of tasks with -p, or `tasks` in a job file")
    if not values.get("agents"):
        raise JobError("no agent; name one with -a (such as -a oracle), give a --command, or [[agents]] in a job file")
    spec = build_spec(values, str(file) if file else "command line")
    check_images(spec.trial)
    return spec, folder


def changed_job(spec: JobSpec, options: Options) -> JobSpec:
    """A stored job with what the options add to it: tasks and agents beside its own, other numbers in their place."""
    values = spec.model_dump(mode="json", exclude_unset=True)
    added = _overrides(options, None)
    if options["model"] is not None and "agents" not in added:
        raise JobError("-m names the model of agents that are added to the job; give -a or --command too")
    added["tasks"] = [*values["tasks"], *(path for path in added.get("tasks", ()) if path not in values["tasks"])]
    added["agents"] = with_agents(values["agents"], added.get("agents", ()))
    _merge(values, added)
    return build_spec(values, "command line")


def _overrides(options: Options, agents_of_file: Any) -> dict[str, Any]:
    """What the command line says, in the shape of a JobSpec; only what was given."""
    values: dict[str, Any] = {}
    for name, key in _KEYS.items():
        given = options.get(name)
        if given is not None and given not in ((), {}):
            _put(values, key, list(given) if isinstance(given, tuple) else given)
    if paths := (*options.get("paths", ()), *options.get("more_paths", ())):
        values["tasks"] = [os.path.abspath(path) for path in paths]  # noqa: PTH100 - links stay as they were named
    if agents := _agents(options, agents_of_file):
        values["agents"] = agents
    _both_timeouts(options, values)
    _order(options, values)
    if image := values.get("trial", {}).get("image"):
        values["trial"]["image"] = whole_image(image)
    return values


def _agents(options: Options, of_file: Any) -> list[dict[str, Any]]:
    command, model, setup = options.get("command"), options.get("model"), options.get("agent_setup")
    names = list(options.get("agents", ()))
    if command is not None and "command" not in names:
        names.append("command")
    agents: list[dict[str, Any]] = [{"name": name} for name in names]
    if not agents and (model or setup) is not None and isinstance(of_file, list):
        agents = [dict(agent) for agent in of_file if isinstance(agent, dict)]
    for agent in agents:
        if command is not None and agent["name"] == "command":
            agent["command"] = command
        if model is not None:
            agent["model"] = model
        if setup is not None:
            agent["setup"] = setup
    return agents


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


def _place(output: Path | None, name_in_file: Any) -> tuple[Any, Path]:
    """The job's name and its folder."""
    if output is None and name_in_file is not None:
        return name_in_file, Path("jobs", str(name_in_file))
    folder = output or new_job_folder()
    return job_name(folder), folder


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    table, _, name = key.rpartition(".")
    (values.setdefault(table, {}) if table else values)[name] = value


def _merge(values: dict[str, Any], over: Mapping[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(values.get(key), dict):
            values[key] = {**values[key], **value}
        else:
            values[key] = value
