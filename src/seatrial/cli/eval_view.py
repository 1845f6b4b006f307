"""The figures of an evaluation on the screen, each mean beside what it is a mean of."""

from pathlib import Path
from typing import Any

import click

from seatrial.cli.colours import OUTCOME_COLOURS, paint
from seatrial.cli.render import show_line, show_table
from seatrial.env.eval_figures import PASS_THRESHOLD, EvalFigures, figures_of
from seatrial.env.kept_outputs import read_metadata, read_outputs
from seatrial.env.metadata import named_figures
from seatrial.report.text import counted, format_cost, harmless

_NAMED = 5


def show_evaluation(folder: Path) -> None:
    """What the evaluation in a folder amounts to, recomputed from its rollouts. Raises StoreError."""
    show_figures(stored_figures(folder), str(read_metadata(folder).get("model") or "-"))


def stored_figures(folder: Path) -> EvalFigures:
    """The figures of the rollouts in a folder."""
    outputs, metadata = read_outputs(folder), read_metadata(folder)
    planned, threshold = metadata.get("planned"), metadata.get("pass_threshold")
    return figures_of(
        outputs,
        planned if isinstance(planned, int) else len(outputs),
        threshold if isinstance(threshold, int | float) else PASS_THRESHOLD,
        model=str(metadata.get("model") or ""),
    )


def figures_json(figures: EvalFigures) -> dict[str, Any]:
    """The figures as metadata.json has them, and what the model cost."""
    return {**named_figures(figures), "cost_usd": figures.cost_usd}


def show_figures(figures: EvalFigures, model: str) -> None:
    """Mean, interval and denominators; then what failed, pass@k, metrics and what the model used."""
    passed = f"{figures.passed:,} of {figures.scored:,}"
    scored = f"{figures.scored:,} of {figures.planned:,}"
    columns = ("model", "mean reward", "95 % interval", f"passed (≥ {figures.pass_threshold:g})", "scored")
    show_table("", columns, [(model, _number(figures.mean), _interval(figures), passed, scored)])
    _show_left_out(figures)
    if figures.pass_at_k:
        show_line(f"pass@k: {_by_k(figures.pass_at_k)}")
        show_line(f"pass^k: {_by_k(figures.pass_all_k)}")
    if figures.metrics:
        rows = [(name, _number(each.mean), f"{each.rollouts:,}") for name, each in figures.metrics.items()]
        show_table("metrics", ("metric", "mean", "rollouts"), rows)
    _show_usage(figures)


def _show_left_out(figures: EvalFigures) -> None:
    for each in figures.errors[:_NAMED]:
        line = f"not scored: {counted(each.rollouts, 'rollout')}, {each.kind}: {each.error}: {each.message}"
        click.echo(paint(harmless(line), OUTCOME_COLOURS["infrastructure_error"]))
    if (others := len(figures.errors) - _NAMED) > 0:
        click.echo(f"not scored: … and {counted(others, 'other reason')}; the rollouts name them")
    if figures.invalid:
        show_line(f"not scored: the verifier could not judge {counted(figures.invalid, 'rollout')}")
    if (open_ := figures.planned - figures.finished) > 0:
        show_line(f"{counted(open_, 'rollout')} not run yet")
    if figures.finished > figures.scored and figures.mean_failed_as_zero is not None and figures.scored:
        missing = counted(figures.finished - figures.scored, "rollout without a reward", "rollouts without a reward")
        show_line(f"the mean would be {figures.mean_failed_as_zero:.3f} with {missing} as 0, as verifiers counts them")


def _show_usage(figures: EvalFigures) -> None:
    used = figures.usage
    if used["calls"] or used["input_tokens"]:
        cached = f" ({used['cached_tokens']:,} cached)" if used["cached_tokens"] else ""
        tokens = f"{used['input_tokens']:,} tokens in{cached}, {used['output_tokens']:,} out"
        cost = format_cost(figures.cost_usd) if figures.cost_usd is not None else "cost not known"
        show_line(f"model: {counted(used['calls'], 'call')}, {tokens}, {cost}")


def _by_k(values: object) -> str:
    items = values.items() if hasattr(values, "items") else ()
    return ", ".join(f"{k}: {value:.3f}" for k, value in items)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _interval(figures: EvalFigures) -> str:
    return "-" if figures.interval is None else f"{figures.interval[0]:.3f} to {figures.interval[1]:.3f}"
