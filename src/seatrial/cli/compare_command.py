"""`seatrial compare A B`: is the second better, by how much, how sure is that, and is it a fair comparison?

Exit codes of a gate: 0 not worse, 1 worse, 3 inconclusive. 2 is a comparison that cannot be made.
"""

import gc
import json
from pathlib import Path
from typing import Any, Literal

import click

from seatrial.analysis.compare_jobs import CompareOptions, ComparisonSet, compare_jobs
from seatrial.analysis.comparison_json import set_json
from seatrial.analysis.contrasts import LABELS, Label
from seatrial.analysis.filters import Filter, parse_filter
from seatrial.analysis.gate import GateResult, judge_gate, worst_verdict
from seatrial.cli.compare_view import show_comparisons
from seatrial.cli.gates import readable_job
from seatrial.cli.job_view import warn_of_uncounted
from seatrial.cli.statistics_options import level_option, seed_option
from seatrial.errors import UsageError
from seatrial.report.compared_markdown import comparisons_markdown

_WORSE, _INCONCLUSIVE = 1, 3


@click.command("compare")
@click.argument("first", type=click.Path(path_type=Path), metavar="A")
@click.argument("second", type=click.Path(path_type=Path), metavar="[B]", required=False)
@click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="AGENT",
    help="Of two jobs: one that both have, or one of each. Of one job: the first is what others are compared with.",
)
@click.option(
    "--where",
    multiple=True,
    metavar="FILTER",
    help="Only tasks or attempts like this, such as 'task=easy-*' or 'category=data,attempt<=2'.",
)
@click.option("--by", multiple=True, type=click.Choice(LABELS), help="Show the difference for each of these too.")
@click.option("--gate", is_flag=True, help="Exit with 1 if B is worse by more than the margin, 3 if it cannot be told.")
@click.option(
    "--margin",
    type=click.FloatRange(0.0, 1.0),
    metavar="SHARE",
    help="By how much B may be worse, such as 0.02; for --gate.  [0.02]",
)
@click.option(
    "--inconclusive",
    type=click.Choice(["fail", "pass"]),
    default="fail",
    show_default=True,
    help="Whether a gate that cannot tell exits with 3, or with 0.",
)
@click.option("--family", is_flag=True, help="Count tasks of one family as variants of each other, not as independent.")
@click.option("--force", is_flag=True, help="Compare although a reward does not mean the same on both sides.")
@level_option()
@seed_option()
@click.option("--all", "everything", is_flag=True, help="Show every task that flipped.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@click.option("--markdown", is_flag=True, help="Print Markdown, such as for a pull request.")
def command(first: Path, second: Path | None, agents: tuple[str, ...], by: tuple[Label, ...], **asked: Any) -> None:
    """Compare the agents of job folders A and B, or those of job A alone, task by task."""
    options = _options(asked)
    wanted = _filter(asked["where"])
    one, other = (readable_job(each, wanted) if each else None for each in (first, second))
    assert one is not None  # noqa: S101 - click asks for it
    warn_of_uncounted(each for each in (one, other) if each)
    gc.freeze()  # what was read stays to the end: to look through 200,000 trials for garbage took half a second
    made = compare_jobs(one, other, agents, options)
    gates = _gates(made, asked)
    _show(made, by, gates, asked)
    if asked["gate"] and (code := _exit_code(gates, asked["inconclusive"])):
        raise click.exceptions.Exit(code)


def _show(made: ComparisonSet, by: tuple[Label, ...], gates: list[GateResult], asked: dict[str, Any]) -> None:
    if asked["as_json"]:
        click.echo(json.dumps(set_json(made, by, gates), indent=2))
    elif asked["markdown"]:
        click.echo(comparisons_markdown(made, by, gates), nl=False)
    else:
        show_comparisons(made, by, gates, everything=asked["everything"])


def _filter(texts: tuple[str, ...]) -> Filter:
    """Tasks can be chosen, and not results: to leave out what failed is to compare something else."""
    wanted = parse_filter(*texts)
    if not wanted.is_planned:
        wrong = next(each.text for each in wanted.conditions if not each.is_planned)
        raise UsageError(
            f"--where {wrong}: compares only some results, which makes any difference; choose by task, task_tag, "
            "category, difficulty, family, agent or attempt"
        )
    return wanted


def _options(asked: dict[str, Any]) -> CompareOptions:
    if asked["as_json"] and asked["markdown"]:
        raise UsageError("--json and --markdown are both given; choose one")
    unit: Literal["task", "family"] = "family" if asked["family"] else "task"
    return CompareOptions(asked["level"], asked["seed"], asked["force"], unit)


def _gates(made: ComparisonSet, asked: dict[str, Any]) -> list[GateResult]:
    """What was judged: for a gate, and also without one where somebody gave a margin."""
    if not asked["gate"] and asked["margin"] is None:
        return []
    margin = 0.02 if asked["margin"] is None else asked["margin"]
    return [judge_gate(each, margin) for each in made.comparisons]


def _exit_code(gates: list[GateResult], inconclusive: str) -> int:
    verdict = worst_verdict(gates)
    if verdict == "worse":
        return _WORSE
    return _INCONCLUSIVE if verdict == "inconclusive" and inconclusive == "fail" else 0
