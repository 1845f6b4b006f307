"""The figures of an evaluation on the screen, each mean beside what it is a mean of."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from seatrial.analysis.tables import Table, interval
from seatrial.cli.screen import OUTCOME_COLOURS, paint, show_line, show_table
from seatrial.env.figures import EvalFigures, evaluation_figures, named_figures
from seatrial.env.saving import read_metadata, read_outputs
from seatrial.model.outcome import PASS_THRESHOLD, format_mean, format_reward
from seatrial.report.text import counted, format_cost, harmless, other_means
from seatrial.untrusted.json import mapping

_NAMED = 5


def show_evaluation(folder: Path) -> None:
    """What the evaluation in a folder amounts to, recomputed from its rollouts. Raises StoreError."""
    show_figures(stored_figures(folder), str(read_metadata(folder).get("model") or "-"))


def stored_figures(folder: Path) -> EvalFigures:
    outputs, metadata = read_outputs(folder), read_metadata(folder)
    planned, threshold = metadata.get("planned"), metadata.get("pass_threshold")
    marks = mapping(metadata.get("pass_thresholds"))
    return evaluation_figures(
        outputs,
        planned if isinstance(planned, int) else len(outputs),
        threshold if isinstance(threshold, int | float) else PASS_THRESHOLD,
        {name: mark for name, mark in marks.items() if isinstance(mark, int | float)},
        model=str(metadata.get("model") or ""),
    )


def figures_json(figures: EvalFigures) -> dict[str, Any]:
    """The figures as metadata.json has them, and what the model cost."""
    return {**named_figures(figures), "cost_usd": figures.cost_usd}


def show_figures(evaluation: EvalFigures, model: str) -> None:
    """Mean, interval and denominators; then what failed, pass@k, metrics and what the model used."""
    figures = evaluation.figures
    passed = f"{figures.solved:,} of {figures.scored:,}"
    scored = f"{figures.scored:,} of {figures.planned:,}"
    mark = format_reward(evaluation.pass_threshold)
    columns = ("model", "mean reward", "95 % interval", f"passed (≥ {mark})", "scored")
    show_table("", Table(columns, [(model, format_mean(figures.mean), interval(figures.estimate), passed, scored)]))
    _show_left_out(evaluation)
    if evaluation.pass_at_k:
        show_line(f"pass@k: {_by_k(evaluation.pass_at_k)}")
        show_line(f"pass^k: {_by_k(evaluation.pass_all_k)}")
    if evaluation.metrics:
        rows = [(name, format_mean(each.mean), f"{each.rollouts:,}") for name, each in evaluation.metrics.items()]
        show_table("metrics", Table(("metric", "mean", "rollouts"), rows))
    _show_usage(evaluation)


def _show_left_out(evaluation: EvalFigures) -> None:
    figures = evaluation.figures
    for each in evaluation.errors[:_NAMED]:
        line = f"not scored: {counted(each.rollouts, 'rollout')}, {each.kind}: {each.error}: {each.message}"
        click.echo(paint(harmless(line), OUTCOME_COLOURS["infrastructure_error"]))
    if (others := len(evaluation.errors) - _NAMED) > 0:
        click.echo(f"not scored: … and {counted(others, 'other reason')}; the rollouts name them")
    if figures.invalid:
        show_line(f"not scored: the verifier could not judge {counted(figures.invalid, 'rollout')}")
    if figures.open:
        show_line(f"{counted(figures.open, 'rollout')} not run yet")
    for line in other_means(figures, "rollout", "a reward"):
        show_line(line)


def _show_usage(figures: EvalFigures) -> None:
    used = figures.usage
    if used["calls"] or used["input_tokens"]:
        cached = f" ({used['cached_tokens']:,} cached)" if used["cached_tokens"] else ""
        tokens = f"{used['input_tokens']:,} tokens in{cached}, {used['output_tokens']:,} out"
        cost = format_cost(figures.cost_usd) if figures.cost_usd is not None else "cost not known"
        show_line(f"model: {counted(used['calls'], 'call')}, {tokens}, {cost}")


def _by_k(values: Mapping[int, float]) -> str:
    return ", ".join(f"{k}: {format_mean(value)}" for k, value in values.items())
