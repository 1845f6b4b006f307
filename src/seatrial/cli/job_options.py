"""The options of a job, under the headings of `seatrial run --help`. `job_spec` turns them into a JobSpec.

Most are made of what the fields of a job declare. Written out here are those that set no field by themselves, and those
of `harbor run` that are spelled otherwise here or not needed: each of these works, or says in one line what to do. They
are not in the help; docs/from-harbor.md has all of them side by side with ours.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from seatrial.cli.options import AGENTS_DIR, PARSERS, Command, Decorator, OptionGroup, only_options, with_options
from seatrial.model import options as headings
from seatrial.model.job import JobSpec
from seatrial.model.options import Declared, declared_options, written

_DECLARED = tuple(declared_options(JobSpec))
_FOLDER = click.Path(path_type=Path)
_COUNTLESS = 2**53
"""A bound that nobody comes to, and nobody has to be told of."""


def _group(heading: str, others: Mapping[int, Decorator] | None = None) -> OptionGroup:
    """The options that are declared for a heading, and others at their places among them."""
    placed = [(each.option.place, _click_option(each)) for each in _DECLARED if each.option.group == heading]
    placed += (others or {}).items()
    return OptionGroup(heading, tuple(option for _, option in sorted(placed, key=lambda each: each[0])))


def _click_option(declared: Declared) -> Decorator:
    option, (kind, limits) = declared.option, _type_and_limits(declared.field)
    settings: dict[str, Any] = {"help": _help(declared), "metavar": option.metavar}
    if option.flag is not None:
        settings["flag_value"] = option.flag
    elif kind is bool:
        settings["default"] = None
    else:
        settings["multiple"] = option.repeated or get_origin(kind) in (tuple, dict)
        settings["callback"] = PARSERS.get(option.kind) if option.kind else None
        if get_origin(kind) is Literal:
            settings["type"] = click.Choice([written(option, each) for each in get_args(kind)])
        elif kind in (int, float) and not settings["callback"]:
            settings["type"] = (click.IntRange if kind is int else click.FloatRange)(**limits)
    return click.option(*option.names, *option.also.split(), declared.param, **settings)


def _type_and_limits(field: FieldInfo) -> tuple[Any, dict[str, Any]]:
    """The type of a field where it is not None, and what bounds a number there, as click has it."""
    kind, bounds = field.annotation, list(field.metadata)
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    for info in getattr(kind, "__metadata__", ()):
        kind, bounds = get_args(kind)[0], info.metadata
    limits: dict[str, Any] = {}
    for bound in bounds:
        if (least := getattr(bound, "ge", getattr(bound, "gt", None))) is not None:
            limits |= {"min": least, "min_open": hasattr(bound, "gt")}
        if (most := getattr(bound, "le", _COUNTLESS)) < _COUNTLESS:
            limits["max"] = most
    return kind, limits


def _help(declared: Declared) -> str:
    """What an option is for, with what is done without it where something is."""
    option, default = declared.option, declared.field.get_default(call_default_factory=True)
    usual = option.usual
    if usual is None and isinstance(default, bool):
        usual = option.switch(on=default).lstrip("-")
    elif usual is None and option.flag is None and isinstance(default, str | float | int):
        usual = written(option, default).removesuffix(".0")
    return f"{option.help}  [{usual}]" if usual else option.help


TASKS = _group(
    headings.TASKS,
    {
        60: click.option("--shuffle", is_flag=True, help="Run the trials in a random order."),
        61: click.option("--seed", type=int, metavar="N", help="The seed of that order."),
        70: click.option(
            *("-c", "--job", "--config"),
            "job_file",
            type=_FOLDER,
            metavar="FILE",
            help="A job file (TOML or YAML) with any of this, or one of Harbor's.",
        ),
    },
)
AGENTS = _group(
    headings.AGENTS,
    {70: AGENTS_DIR},
)
MODELS = _group(headings.MODELS)
LIMITS = _group(
    headings.LIMITS,
    {
        150: click.option(
            "--timeout-multiplier",
            type=click.FloatRange(min=0.0, min_open=True),
            metavar="X",
            help="Stretch the times of agent and verifier.  [1]",
        ),
    },
)
SANDBOX = _group(headings.SANDBOX)
VERIFICATION = _group(headings.VERIFICATION)
VERIFYING = (
    *("isolation", "trust", "pass_threshold", "verdict"),
    *("verifier_upstream", "verifier_models", "verifier_max_cost_usd", "verifier_max_tokens"),
)
"""Those of them by which single end states are judged."""
PLACE = _group(
    headings.OUTPUT,
    {
        10: click.option(
            *("-o", "--output"), type=_FOLDER, metavar="DIR", help="The job's folder.  [jobs/<date and time>]"
        ),
        20: click.option("--jobs-dir", type=_FOLDER, metavar="DIR", help="The folder to make it in.  [jobs]"),
        30: click.option("--job-name", metavar="NAME", help="What to call it there.  [date and time]"),
    },
)
DISPLAY = OptionGroup(
    headings.OUTPUT,
    (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object per event and line."),
        click.option("-q", "--quiet", "--silent", "quiet", is_flag=True, help="Show only the summary."),
    ),
)

_SHARE = click.FloatRange(0.0, 1.0)
TRUST_JOB = click.option("--trust-job", is_flag=True, help="Do what the job says even if somebody else made it.")
GATES = OptionGroup(
    headings.OUTPUT,
    (
        click.option(
            "--fail-under", type=_SHARE, metavar="REWARD", help="Exit with 1 if an agent's mean reward is lower."
        ),
        click.option(
            "--max-failed",
            type=_SHARE,
            default=0.0,
            metavar="SHARE",
            help="Exit with 1 if more trials fail to run.  [0]",
        ),
        click.option(
            "--max-invalid",
            type=_SHARE,
            default=0.0,
            metavar="SHARE",
            help="Exit with 1 if the verifier cannot judge more trials.  [0]",
        ),
    ),
)

HARBOR_SPELLINGS = frozenset(
    {name for each in _DECLARED for name in each.option.also.split()} | {"--config", "--silent"}
)
"""Names of Harbor's that lie on options of ours, which the help shows by our own names only."""

_OUR_WAY: dict[tuple[str, ...], str] = {
    ("--agent-import-path",): "agents are commands here: --command 'python3 /agent/agent.py' --agent-files DIR",
    ("--environment-import-path",): "a backend of your own is a plug-in of seatrial.backends; name it with -e",
    ("--ek", "--environment-kwarg"): "backends take no arguments; see --image, --network, --memory, --cpus, --storage",
    ("--ve", "--verifier-env"): "variables of a verifier are in [verifier] env of task.toml; --allow-env lets them in",
    ("--verifier-import-path", "--verifier-kwarg", "--vk"): "verifiers are the tasks' own tests/test.sh",
    ("--orchestrator", "--ok", "--orchestrator-kwarg"): "trials run on this machine, -n at a time",
    ("--retry-include", "--retry-exclude"): "only failures of the machine or a provider are tried again: --retries N",
    ("--artifact",): "name what to keep as `artifacts` in task.toml; --keep snapshot keeps the whole end state",
    ("--override-gpus",): "sandboxes have no graphics processors; --force runs such tasks without",
    ("--task-git-url", "--task-git-commit"): "clone the repository and name its folder with -p",
    ("--registry-url", "--registry-path"): "registries are not read; download the tasks and name the folder with -p",
    ("--agent-setup-timeout-multiplier", "--environment-build-timeout-multiplier"): (
        "the time of builds is build_timeout_sec in [environment] of task.toml"
    ),
    ("--export-repo", "--export-episodes"): "what agents and models said is in calls.jsonl of every trial's folder",
}
_OUR_WAY_OF_FLAGS: dict[tuple[str, ...], str] = {
    ("--no-delete",): "sandboxes are always removed; --keep snapshot keeps their end state",
    ("--disable-verification",): "every trial is verified; without a verdict there would be no result",
    ("--export-traces", "--export-sharegpt", "--export-push"): "`seatrial calls JOB TRIAL` prints what was said",
    ("--launch", "--upload"): "everything runs on this machine, and nothing is uploaded",
}
_NOT_NEEDED = ("-y", "--yes", "--delete", "--no-force-build", "--debug", "--enable-verification")


def _refuse(reason: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(_: click.Context, option: click.Parameter, value: Any) -> None:
        if value:
            raise click.UsageError(f"{'/'.join(option.opts)} is an option of Harbor: {reason}")

    return callback


def _stands_for(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Hand a value on under the name of an option of ours."""

    def callback(context: click.Context, _: click.Parameter, value: Any) -> None:
        if value is not None:
            context.params[name] = value

    return callback


def _take_dataset(context: click.Context, option: click.Parameter, value: tuple[str, ...]) -> None:
    """A dataset that is a folder is one here too; one of Harbor's registry cannot be had by its name."""
    for dataset in value:
        if not Path(dataset).is_dir():
            raise click.BadParameter(
                f"{dataset} is not a folder, and Harbor's registry is not read; download it "
                f"(`harbor download {dataset}`, or git clone) and name the folder with -p",
                param=option,
            )
    context.params["paths"] = (*context.params.get("paths", ()), *map(os.path.abspath, value))


_HARBOR_OPTIONS: tuple[Decorator, ...] = (
    click.option(
        *("-d", "--dataset"),
        "dataset",
        multiple=True,
        hidden=True,
        expose_value=False,
        callback=_take_dataset,
    ),
    *(
        click.option(spelling, type=click.IntRange(min=1), hidden=True, expose_value=False, callback=_stands_for(name))
        for spelling, name in (("--override-memory-mb", "memory_mb"), ("--override-storage-mb", "storage_mb"))
    ),
    *(
        click.option(*names, multiple=True, hidden=True, expose_value=False, callback=_refuse(reason))
        for names, reason in _OUR_WAY.items()
    ),
    *(
        click.option(*names, is_flag=True, hidden=True, expose_value=False, callback=_refuse(reason))
        for names, reason in _OUR_WAY_OF_FLAGS.items()
    ),
    *(click.option(name, is_flag=True, hidden=True, expose_value=False) for name in _NOT_NEEDED),
)

_PATHS = click.argument("more_paths", metavar="[TASKS]...", nargs=-1)
_OF_JOB = (TASKS, AGENTS, MODELS, LIMITS, SANDBOX, VERIFICATION, PLACE)
NEW_JOB = (*_OF_JOB[:-1], OptionGroup(headings.OUTPUT, (*PLACE.options, *DISPLAY.options, *GATES.options)))
_OF_RESUMED_JOB = (
    only_options(TASKS, "paths", "attempts"),
    AGENTS,
    only_options(
        LIMITS,
        *("concurrent", "engine", "address", "retries", "max_trials", "max_wall_sec"),
        *("host_wait_sec", "preflight", "keep_going"),
    ),
)
RESUMED_JOB = (*_OF_RESUMED_JOB, OptionGroup(headings.OUTPUT, (*DISPLAY.options, *GATES.options)))


def new_job_options(command: Command) -> Command:
    return with_options(command, (_PATHS, *_OF_JOB, *_HARBOR_OPTIONS))


def resumed_job_options(command: Command) -> Command:
    """Give a command the options that may be different when a job is resumed."""
    return with_options(command, _OF_RESUMED_JOB)
