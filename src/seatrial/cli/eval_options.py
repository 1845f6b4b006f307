"""The options of `seatrial eval`: the letters of `vf-eval` and `prime eval run`, with Harbor's and our own beside them.

Those of theirs that would have no effect here are refused; docs/eval.md says why of each.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from seatrial.cli.job_options import DISPLAY
from seatrial.cli.options import Decorator, OptionGroup, parse_duration, with_options
from seatrial.errors import UsageError

LATEST = ""
"""What `--resume` says without a folder: the newest evaluation that was not finished."""

_AT_LEAST_1 = click.IntRange(min=1)
_FOLDER = click.Path(path_type=Path)


def _parse_object(_: click.Context, option: click.Parameter, value: str | None) -> dict[str, Any]:
    """A JSON object. Raises click's BadParameter for anything else."""
    if value is None:
        return {}
    try:
        table = json.loads(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not JSON ({error}); write '{{\"key\": 1}}'", param=option) from None
    if not isinstance(table, dict):
        raise click.BadParameter(f"{value!r} is JSON and no object; write '{{\"key\": 1}}'", param=option)
    return table


def _parse_columns(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


def _parse_headers(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = [value.partition(":") for value in values]
    for name, colon, _value in pairs:
        if not colon or not name.strip():
            raise click.BadParameter(f"{name!r}: write 'Name: value'", param=option)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _refuse(_: click.Context, option: click.Parameter, value: str | bool | None) -> None:
    if value not in (None, False):
        raise UsageError(f"{option.opts[-1]} has no effect in Seatrial and was removed; leave it out")


ENVIRONMENT = OptionGroup(
    "Environment",
    (
        click.option(
            *("-a", "--env-args"),
            callback=_parse_object,
            metavar="JSON",
            help="Arguments of load_environment, as a JSON object.",
        ),
        click.option(
            *("-x", "--extra-env-kwargs"),
            callback=_parse_object,
            metavar="JSON",
            help="Attributes to set on the environment when it is loaded.",
        ),
        click.option("--env-dir-path", type=_FOLDER, metavar="DIR", help="Also look for ENV here.  [./environments]"),
        click.option(
            *("-n", "--num-examples", "--max-tasks", "--n-tasks"),
            "num_examples",
            type=int,
            metavar="N",
            help="Examples to evaluate; -1 for all.  [what its pyproject.toml says, else 5]",
        ),
        click.option(
            *("-r", "--rollouts-per-example", "--attempts", "--n-attempts"),
            "rollouts",
            type=_AT_LEAST_1,
            metavar="N",
            help="Rollouts of each example.  [what its pyproject.toml says, else 3]",
        ),
        click.option("--shuffle", is_flag=True, help="Choose the examples by lot."),
        click.option(*("--seed", "--shuffle-seed"), "seed", type=int, metavar="N", help="Of --shuffle.  [0]"),
        click.option(
            "--compat/--no-compat",
            default=None,
            help="Let `import verifiers` find Seatrial.  [if verifiers is not installed]",
        ),
    ),
)
MODEL = OptionGroup(
    "Model",
    (
        click.option("-m", "--model", metavar="MODEL", help="Its name, or one of the endpoints file.  [gpt-4.1-mini]"),
        click.option(*("-b", "--api-base-url"), "base_url", metavar="URL", help="Where it is served.  [OpenAI]"),
        click.option(
            *("-k", "--api-key-var"), "key_var", metavar="NAME", help="The variable with the key for that address."
        ),
        click.option(
            "--upstream", metavar="UPSTREAM", help="Instead of -b: openai, anthropic, scripted:FILE, replay:FILE, …"
        ),
        click.option("--provider", metavar="NAME", help="By name: openai, anthropic, openrouter, vllm, …"),
        click.option(
            *("-e", "--endpoints-path"),
            type=_FOLDER,
            metavar="FILE",
            help="Models by name.  [configs/endpoints.toml, .py]",
        ),
        click.option(
            "--header", "headers", multiple=True, callback=_parse_headers, metavar="'NAME: VALUE'", help="Sent along."
        ),
        click.option("-t", "--max-tokens", type=_AT_LEAST_1, metavar="N", help="Tokens that an answer may have."),
        click.option("-T", "--temperature", type=click.FloatRange(min=0), metavar="X", help="For sampling."),
        click.option(
            *("-S", "--sampling-args"),
            callback=_parse_object,
            metavar="JSON",
            help="All sampling arguments as a JSON object; goes before -t and -T.",
        ),
    ),
)
RUNNING = OptionGroup(
    "Running",
    (
        click.option(
            *("-c", "--max-concurrent", "--concurrent", "--n-concurrent"),
            "concurrent",
            type=int,
            metavar="N",
            help="Rollouts at a time.  [32]",
        ),
        click.option(
            "--timeout", "timeout_sec", callback=parse_duration, metavar="TIME", help="How long a rollout may take."
        ),
        click.option(
            *("--retries", "--max-retries"),
            "retries",
            type=click.IntRange(min=0),
            metavar="N",
            help="Further tries when the machine or a provider fails a rollout that is a trial.  [2]",
        ),
        click.option(
            *("-i", "--independent-scoring"),
            is_flag=True,
            help="Score each rollout for itself, not those of an example together.",
        ),
        click.option("--engine", metavar="NAME", help="Where rollouts run that are trials: local, or ray.  [local]"),
        click.option("--address", metavar="ADDRESS", help="The Ray cluster, such as auto."),
    ),
)
RESULTS = OptionGroup(
    "Results",
    (
        click.option(
            *("-o", "--output-dir", "--output"),
            "output",
            type=_FOLDER,
            metavar="FOLDER",
            help="Where they go.  [outputs/evals/ENV--MODEL/TIME]",
        ),
        click.option("-s/ ", "--save-results/--no-save-results", "save", default=True, help="Keep them.  [they are]"),
        click.option(
            *("-R", "--resume"),
            is_flag=False,
            flag_value=LATEST,
            metavar="[FOLDER]",
            help="Go on with an evaluation; without FOLDER, with the newest unfinished one of ENV and MODEL.",
        ),
        click.option(
            *("-C", "--state-columns"),
            multiple=True,
            callback=_parse_columns,
            metavar="NAMES",
            help="Keys of the state to keep with each rollout, with commas between.",
        ),
    ),
)
OUTPUT = OptionGroup(
    "Output",
    (
        *DISPLAY.options,
        click.option("-d", "--disable-tui", "plain", is_flag=True, help="A line for each rollout, also on a terminal."),
        click.option("-v", "--verbose", "--debug", "debug", is_flag=True, help="Show the log, and whole tracebacks."),
    ),
)

UNLISTED = frozenset(
    {
        *("--max-tasks", "--n-tasks", "--attempts", "--n-attempts", "--concurrent", "--n-concurrent", "--shuffle-seed"),
        *("--max-retries", "--output", "--silent", "--debug", "--output-dir"),
    }
)
_FLAGS_WITHOUT_EFFECT = (
    ("-N", "--no-interleave-scoring"),
    ("-f", "--fullscreen"),
    ("-A", "--abbreviated-summary"),
    ("-H", "--save-to-hf-hub"),
    ("--disable-env-server",),
)
_VALUES_WITHOUT_EFFECT = (
    ("-D", "--hf-hub-dataset-name"),
    ("-w", "--num-workers"),
    ("--max-concurrent-generation",),
    ("--max-concurrent-scoring",),
    ("--save-every",),
    ("--heartbeat-url",),
    ("--api-client-type",),
    ("--header-from-state",),
)
_HIDDEN: tuple[Decorator, ...] = (
    click.option("-p", "place_or_provider", hidden=True),
    *(
        click.option(*names, is_flag=True, hidden=True, expose_value=False, callback=_refuse)
        for names in _FLAGS_WITHOUT_EFFECT
    ),
    *(click.option(*names, hidden=True, expose_value=False, callback=_refuse) for names in _VALUES_WITHOUT_EFFECT),
)
GROUPS = (ENVIRONMENT, MODEL, RUNNING, RESULTS, OUTPUT)


def eval_options(command: Callable[..., Any]) -> Callable[..., Any]:
    command = with_options(command, _HIDDEN)
    for group in reversed(GROUPS):
        command = group(command)
    return click.argument("env", metavar="ENV")(command)
