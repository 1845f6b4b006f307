"""`seatrial score TASK --artifacts DIR`: a verifier's files to an EvaluationResult, without running anything."""

from pathlib import Path
from typing import get_args

import click

from seatrial.cli.screen import show_json, show_table
from seatrial.errors import UsageError
from seatrial.model.evaluation import EvaluationResult
from seatrial.model.loaded_task import Task, TaskStep
from seatrial.model.outcome import format_reward
from seatrial.model.output import RewardPolicy
from seatrial.model.record import outcome_of
from seatrial.report.trial import breakdown_table, confidence, tags_table
from seatrial.scoring.ingest import ingest
from seatrial.tasks.load import load_task
from seatrial.verify.artifacts import collect_artifacts, collect_output


@click.command("score")
@click.argument("task", type=click.Path())
@click.option("--artifacts", required=True, type=click.Path(path_type=Path), help="What the verifier wrote.")
@click.option("--output", type=click.Path(path_type=Path), help="The agent's output file; without it none is checked.")
@click.option("--step", help="The step to score, for a task with several.")
@click.option(
    "--policy",
    type=click.Choice(get_args(RewardPolicy)),
    default="declared",
    show_default=True,
    help="Which reward file decides when there are two.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the EvaluationResult as it is stored.")
def command(
    task: str, artifacts: Path, output: Path | None, step: str | None, policy: RewardPolicy, as_json: bool
) -> None:
    """Turn what the verifier of TASK wrote into an EvaluationResult."""
    judged = _judged(load_task(task), step)
    found = collect_output(output, judged.output) if output else None
    result = ingest(judged, collect_artifacts(artifacts, judged.verifier, found), policy)
    if as_json:
        show_json(result)
    else:
        _show(result)


def _judged(task: Task, step: str | None) -> Task | TaskStep:
    if step is None:
        return task
    steps = {candidate.spec.name: candidate for candidate in task.steps}
    if step not in steps:
        names = ", ".join(steps) or "none: the task has no steps"
        raise UsageError(f"{task.id} has no step {step!r}; its steps are {names}")
    return steps[step]


def _show(result: EvaluationResult) -> None:
    validity = result.validity
    click.echo(f"reward   {click.style(format_reward(result.reward), bold=True)}  ({outcome_of(result)})")
    flags = ("output_parseable", "schema_valid", "verifier_completed")
    click.echo("validity " + ", ".join(f"{flag}: {'yes' if getattr(validity, flag) else 'no'}" for flag in flags))
    for error in validity.errors:
        click.echo(f"  {error}")
    if sure := confidence(result):
        click.echo(f"confidence {sure}")
    for title, table in (("breakdown", breakdown_table(result)), ("error tags", tags_table(result))):
        if table.rows:
            show_table(title, table)
