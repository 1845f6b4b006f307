"""The options of `seatrial check`, and how they are written down again for a command that tries one case."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import click

from seatrial.cli.job_options import LIMITS, SANDBOX, TASKS, VERIFICATION, only_options
from seatrial.cli.option_groups import Command, OptionGroup, with_options
from seatrial.cli.option_values import parse_duration
from seatrial.errors import UsageError
from seatrial.model.check import CheckId, Weight

_FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
_IDS: tuple[str, ...] = get_args(CheckId)


def _parse_checks(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Words like `V4,V5`. Raises click's BadParameter for what is no check."""
    names = [name.strip().upper() for value in values for name in value.split(",") if name.strip()]
    for name in names:
        if name not in _IDS:
            raise click.BadParameter(f"there is no check {name!r}; write some of {', '.join(_IDS)}", param=option)
    return tuple(dict.fromkeys(names))


WHAT = OptionGroup(
    "What to check",
    (
        *only_options(TASKS, "include", "exclude", "max_tasks", "unfit").options,
        click.option("--only", multiple=True, callback=_parse_checks, metavar="V4,V5", help="Only these checks."),
        click.option("--skip", multiple=True, callback=_parse_checks, metavar="V9", help="All checks but these."),
        click.option(
            "--repeats",
            type=click.IntRange(1, 1000),
            default=5,
            metavar="N",
            help="How often a verdict is asked for again to see whether it stays the same.  [5]",
        ),
        click.option(
            "--budget",
            "budget_sec",
            callback=parse_duration,
            default="60s",
            metavar="TIME",
            help="How long variations of one task's answers are tried, all added up: 30s, 5m.  [60s]",
        ),
        click.option(
            "--runs",
            multiple=True,
            type=click.Path(path_type=Path, file_okay=False),
            metavar="JOB",
            help="Also look at what agents got in this job (V12).",
        ),
        click.option(
            "--twins",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            help="Write impossible twins of the tasks there: tasks that only a cheat can pass.",
        ),
        click.option("--case", "case_id", metavar="ID", help="Try one case of one task, and show all of its verdict."),
        click.option(
            "-n",
            "--concurrent",
            "concurrent",
            type=click.IntRange(min=1),
            metavar="N",
            help="Verifications at a time.  [the number of cores, at least 4]",
        ),
    ),
)
HOW = (
    SANDBOX,
    only_options(
        LIMITS, "cpus", "memory_mb", "storage_mb", "agent_timeout_sec", "verifier_timeout_multiplier", "enforcement"
    ),
    only_options(VERIFICATION, "isolation", "trust", "pass_threshold", "verdict"),
)
OUTPUT = OptionGroup(
    "Output",
    (
        click.option(
            "-o",
            "--output",
            type=click.Path(path_type=Path, file_okay=False),
            metavar="DIR",
            help="Where results go; what is there already is not done again.  [checks/<date and time>]",
        ),
        click.option("--baseline", type=_FILE, metavar="FILE", help="Findings that are known and fail nothing."),
        click.option("--write-baseline", type=_FILE, metavar="FILE", help="Make what is found now the known findings."),
        click.option("--json", "json_file", type=_FILE, metavar="FILE", help="All results as JSON; - prints them."),
        click.option("--junit", "junit_file", type=_FILE, metavar="FILE", help="A JUnit report, for build servers."),
        click.option("--sarif", "sarif_file", type=_FILE, metavar="FILE", help="A SARIF report, for code hosts."),
        click.option(
            "--fail-on",
            type=click.Choice([weight for weight in get_args(Weight) if weight != "note"]),
            default="major",
            help="The least weight of a finding that fails the command.  [major]",
        ),
        click.option("--notes/--no-notes", default=False, help="Also show notes, which are no faults."),
        click.option("-q", "--quiet", is_flag=True, help="Show only what was found."),
    ),
)
CHECK_GROUPS = (WHAT, *HOW, OUTPUT)
_PATHS = click.argument("more_paths", metavar="TASKS...", nargs=-1, required=True)


def check_options(command: Command) -> Command:
    """Give a command all options of checks."""
    return with_options(command, (_PATHS, *CHECK_GROUPS))


def words_for_cases(context: click.Context) -> tuple[str, ...]:
    """The words of the command line that say how trials are run, as somebody has to give them again for one case."""
    names = {name for group in (*HOW, only_options(TASKS, "unfit")) for name in group.names} | {"repeats"}
    given = {name: value for name, value in context.params.items() if name in names and _was_given(context, name)}
    options = {each.name: each for each in context.command.params if isinstance(each, click.Option)}
    return tuple(word for name, value in given.items() for word in _written(options[name], value))


def _was_given(context: click.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _written(option: click.Option, value: Any) -> Iterator[str]:
    """An option with its value, as it is written."""
    spelling = next(each for each in option.opts if each.startswith("--"))
    if option.is_flag:
        yield spelling
        return
    for each in _texts(option.name or "", value):
        yield from (spelling, each)


def _texts(name: str, value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{key}={item}" for key, item in value.items()]
    if isinstance(value, tuple):
        return [str(each) for each in value]
    if name.endswith("_mb"):
        return [f"{value}M"]
    if name.endswith("_sec"):
        return [f"{value:g}s"]
    return [str(value).replace("as_left", "as-left")]


def chosen_checks(only: tuple[str, ...], skip: tuple[str, ...]) -> frozenset[str]:
    """The ids of the checks that are wanted. Raises UsageError when none is."""
    chosen = frozenset(only or _IDS) - frozenset(skip)
    if not chosen:
        raise UsageError("--only and --skip leave no check to be carried out")
    return chosen
