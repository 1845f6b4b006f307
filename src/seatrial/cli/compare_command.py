"""`seatrial compare A B`: is the second better, by how much, how sure is that, and is it a fair comparison?

Exit codes of a gate: 0 not worse, 1 worse, 3 inconclusive. 2 is a comparison that cannot be made. The comparison itself
is made in `seatrial.analysis.compare`.
"""

import gc
import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click

from seatrial.analysis.arms import Arm
from seatrial.analysis.comparability import Weight
from seatrial.analysis.compare import (
    LABELS,
    ComparedPair,
    CompareOptions,
    Comparison,
    ComparisonSet,
    Flip,
    GateResult,
    Label,
    TaskPair,
    compare_jobs,
    dimension_differences,
    group_differences,
    judge_gate,
    measured_differences,
    worst_verdict,
)
from seatrial.analysis.figures import figures_of, tally_json
from seatrial.analysis.loaded import Filter, LoadedJob, parse_filter
from seatrial.cli.analysis_options import LEVEL, SEED
from seatrial.cli.job_view import readable_job, warn_of_uncounted
from seatrial.cli.program import command_line
from seatrial.cli.screen import paint, screen_width, show_table
from seatrial.errors import UsageError
from seatrial.report.compared import (
    answer,
    arm_line,
    comparisons_markdown,
    differences_table,
    forced_line,
    gate_answer,
    how_tested,
    measured_table,
    parts_table,
    passed_of,
    several_tasks,
)
from seatrial.report.judges import judge_lines
from seatrial.report.markdown import md_prose
from seatrial.report.text import counted, harmless
from seatrial.review.judges import judge_figures, judges_in_short

_WORSE, _INCONCLUSIVE = 1, 3
_SHOWN = 5
_COLOURS = {"better": "green", "worse": "red", "no difference seen": "yellow", "inconclusive": "yellow"}
_GATE_COLOURS = {"not worse": "green", "worse": "red", "inconclusive": "yellow"}


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
@LEVEL
@SEED
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
    jobs = [*{job.path: job for job in (made.first, made.second)}.values()]
    judges = judge_figures(jobs, level=asked["level"], seed=asked["seed"])
    if asked["as_json"]:
        beside = {"judges": judges_in_short(judges)} if judges else {}
        click.echo(json.dumps({**set_json(made, by, gates), **beside}, indent=2))
    elif asked["markdown"]:
        click.echo(comparisons_markdown(made, by, gates), nl=False)
        for line in judge_lines(judges):
            click.echo(f"\n{md_prose(line)}")
    else:
        _show_comparisons(made, by, gates, everything=asked["everything"])
        for line in judge_lines(judges):
            _say(line)


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


def _show_comparisons(
    made: ComparisonSet, by: Sequence[Label], gates: Sequence[GateResult], *, everything: bool
) -> None:
    for line in dict.fromkeys(map(_filtered, (made.first, made.second))):
        if line:
            _say(line)
    for index, pair in enumerate(made.pairs):
        if index:
            click.echo()
        if line := forced_line(made):
            _say(line, "red")
        _show_arms(pair.comparison, made.options.level)
        _show_pair(pair, by, gates[index] if gates else None, everything=everything)
    if made.left_out:
        click.echo()
        _say(f"not compared, since only one side has them: {', '.join(map(harmless, made.left_out))}")
    if made.corrected:
        click.echo()
        _say(f"p-values of {made.corrected:,} comparisons, corrected together after Holm, and so are their intervals")


def _show_arms(comparison: Comparison, level: float) -> None:
    for name, arm in zip("AB", (comparison.first, comparison.second), strict=True):
        _say(f"{name}  {arm_line(arm, level, comparison.families)}", indent=3)


def _filtered(job: LoadedJob) -> str | None:
    return harmless(f"{job.path}: {job.shown}") if job.shown else None


def _show_pair(pair: ComparedPair, by: Sequence[Label], gate: GateResult | None, *, everything: bool) -> None:
    comparison = pair.comparison
    _show_differences(pair)
    for warning in pair.comparability.warnings:
        _say(f"Warning: {harmless(warning)}", "yellow")
    click.echo()
    _say(answer(comparison), _COLOURS[comparison.verdict])
    if line := how_tested(comparison):
        _say(line)
    if gate:
        _say(gate_answer(comparison, gate), _GATE_COLOURS[gate.verdict])
    _show_flips("passed by B and not by A", comparison.gained, comparison, everything=everything)
    _show_flips("passed by A and not by B", comparison.dropped, comparison, everything=everything)
    _show_details(comparison, by, everything=everything)


def _show_differences(pair: ComparedPair) -> None:
    found = pair.comparability
    titles: tuple[tuple[Weight, str], ...] = (
        ("meaning", "changes what a reward means"),
        ("condition", "conditions"),
        ("subject", "compared"),
    )
    for weight, title in titles:
        if differences := found.of(weight):
            click.echo()
            show_table("", differences_table(title, differences))
    if not found.differences:
        click.echo()
        click.echo("both sides ran under the same conditions, as far as is known")


def _show_flips(title: str, flips: Sequence[Flip], comparison: Comparison, *, everything: bool) -> None:
    if not flips:
        return
    click.echo()
    click.echo(paint(f"{title} ({counted(len(flips), 'task')})", bold=True))
    shown = flips if everything else flips[:_SHOWN]
    for flip in shown:
        click.echo(harmless(flip.task_id))
        sides = (comparison.first, flip.first, flip.passed[0]), (comparison.second, flip.second, flip.passed[1])
        for side in sides:
            click.echo(f"  {_how_to_look(*side)}")
    if len(flips) > len(shown):
        click.echo(f"… and {counted(len(flips) - len(shown), 'more task')}; --all shows them")


def _how_to_look(arm: Arm, trials: Sequence[str], passed: int) -> str:
    several = f"  ({passed_of(trials, passed)})" if len(trials) > 1 else ""
    return harmless(command_line("show", str(arm.job.path), trials[0])) + several


def _show_details(comparison: Comparison, by: Sequence[Label], *, everything: bool) -> None:
    parts = dimension_differences(comparison)
    shown = parts if everything else several_tasks(parts)
    tables = [parts_table("part of the breakdown", shown)]
    tables += [parts_table(label, group_differences(comparison, label)) for label in by]
    tables.append(measured_table("a scored trial took", measured_differences(comparison)))
    for table in tables:
        if table.rows:
            click.echo()
            show_table("", table)
    if len(shown) < len(parts):
        single = counted(len(parts) - len(shown), "part of the breakdown is", "parts of the breakdown are")
        _say(f"{single} of a single task; --all shows them")


def _say(text: str, colour: str | None = None, indent: int = 0) -> None:
    """A sentence: as one line in a pipe, and as several on a terminal where it is too long for one."""
    width = screen_width()
    for line in [text] if width is None else textwrap.wrap(text, width, subsequent_indent=" " * indent):
        click.echo(paint(line, colour) if colour else line)


def set_json(made: ComparisonSet, by: Sequence[Label] = (), gates: Sequence[GateResult] = ()) -> dict[str, Any]:
    """Comparisons made together; `gates` are what was judged of each, or nothing."""
    pairs = [_pair_json(pair, by, made.options.level) for pair in made.pairs]
    judged: list[dict[str, Any] | None] = [asdict(gate) for gate in gates]
    judged = judged or [None] * len(pairs)
    return {
        "level": made.options.level,
        "seed": made.options.seed,
        "forced": bool(made.forced),
        "corrected": "holm" if made.corrected else None,
        "left_out": list(made.left_out),
        "comparisons": [{**pair, "gate": gate} for pair, gate in zip(pairs, judged, strict=True)],
    }


def _pair_json(pair: ComparedPair, by: Sequence[Label], level: float) -> dict[str, Any]:
    comparison = pair.comparison
    return {
        "first": _arm_json(comparison.first, level, comparison.families),
        "second": _arm_json(comparison.second, level, comparison.families),
        "comparable": pair.comparability.comparable,
        "differences": [asdict(each) for each in pair.comparability.differences],
        "warnings": list(pair.comparability.warnings),
        "verdict": comparison.verdict,
        "paired": asdict(comparison.paired) if comparison.paired else None,
        "adjusted_p": comparison.adjusted_p,
        "adjusted_interval": comparison.adjusted_interval,
        "mcnemar_p": comparison.mcnemar_p,
        "families": comparison.family_count,
        "gained": [_flip_json(flip) for flip in comparison.gained],
        "dropped": [_flip_json(flip) for flip in comparison.dropped],
        **_details(comparison, by),
        "tasks": [_task_json(task) for task in comparison.pairs],
    }


def _arm_json(arm: Arm, level: float, families: Mapping[str, str] | None) -> dict[str, Any]:
    """An arm alone, with intervals as sure as those of the comparison."""
    summary = tally_json(figures_of(arm.selected, clusters=families, level=level, ks=()))
    return {"label": arm.label, "agent": arm.agent, "folder": str(arm.job.path), "summary": summary}


def _details(comparison: Comparison, by: Sequence[Label]) -> dict[str, Any]:
    return {
        "dimensions": [asdict(part) for part in dimension_differences(comparison)],
        "measures": [
            {**asdict(each.amounts), "name": each.name, "unit": each.unit} for each in measured_differences(comparison)
        ],
        "groups": {label: [asdict(part) for part in group_differences(comparison, label)] for label in by},
    }


def _flip_json(flip: Flip) -> dict[str, Any]:
    passed = dict(zip(("first", "second"), flip.passed, strict=True))
    return {"task_id": flip.task_id, "first": list(flip.first), "second": list(flip.second), "passed": passed}


def _task_json(pair: TaskPair) -> dict[str, Any]:
    return {"task_id": pair.task_id, "first": pair.first, "second": pair.second, "difference": pair.difference}
