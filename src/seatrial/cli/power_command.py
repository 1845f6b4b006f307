"""`seatrial power JOB`: how many tasks or attempts it takes to see a difference, from the variance of a job."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from seatrial.analysis.arms import Arm, arms_of
from seatrial.analysis.loaded import load_job
from seatrial.analysis.power import (
    DifferenceVariance,
    PlanAsked,
    PowerPlan,
    half_width,
    plan_power,
    split_of,
    variance_of_one,
    variance_of_two,
)
from seatrial.cli.analysis_options import LEVEL
from seatrial.cli.job_view import warn_of_uncounted
from seatrial.cli.screen import show_line, show_table
from seatrial.errors import JobError, UsageError
from seatrial.model.outcome import format_mean
from seatrial.report.compared import (
    arm_line,
    attempts_line,
    power_answer,
    power_table,
    source_line,
    split_line,
    width_line,
)
from seatrial.report.text import harmless


@click.command("power")
@click.argument("job", type=click.Path(path_type=Path), required=False)
@click.option(
    "--difference",
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="What is to be seen; 0.05 is 5 points.",
)
@click.option("--tasks", type=click.IntRange(2), metavar="N", help="With so many tasks.  [those of the job, or 100]")
@click.option(
    "--attempts", type=click.IntRange(1), metavar="K", help="With so many attempts.  [those of the job, or 1]"
)
@click.option("--agent", "agents", multiple=True, metavar="AGENT", help="This agent, or these two.  [the first two]")
@click.option("--sd", type=click.FloatRange(0.0, 2.0, min_open=True), help="Without a job: how much B - A varies.")
@click.option(
    "--correlation",
    type=click.FloatRange(0.0, 1.0),
    default=0.0,
    show_default=True,
    help="How far tasks that are hard for one agent are hard for the other; for a job with one agent.",
)
@LEVEL
@click.option(
    "--power",
    type=click.FloatRange(0.5, 0.9999),
    default=0.8,
    show_default=True,
    help="How often the difference is to be seen.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
def command(job: Path | None, agents: tuple[str, ...], as_json: bool, **asked: Any) -> None:
    """Say how many tasks or attempts it takes to see a difference, from the variance of the job in folder JOB.

    Without a job, --sd says how much the difference of two agents varies from task to task; 0.5 is much.
    """
    if (job is None) == (asked["sd"] is None):
        raise UsageError("give a job folder to take the variance from, or --sd without a job; not both and not neither")
    arms = _arms(job, agents) if job else []
    if asked["correlation"] and len(arms) != 1:
        raise UsageError("--correlation is about another agent that one is to be compared with; name one by --agent")
    variance = _variance(arms, asked)
    plan = plan_power(_asked(arms, asked), variance)
    if arms:
        plan = replace(plan, half_width=half_width(arms[0], plan.asked))
    if as_json:
        click.echo(json.dumps(_as_json(plan, arms), indent=2))
    else:
        _show(plan, arms, asked["correlation"])


def _arms(job: Path, agents: tuple[str, ...]) -> list[Arm]:
    if len(agents) > 2:
        raise UsageError(f"{len(agents)} agents are named; name one, or two to plan from their differences")
    loaded = load_job(job)
    warn_of_uncounted([loaded])
    every = {arm.agent: arm for arm in arms_of([loaded])}
    if missing := [agent for agent in agents if agent not in every]:
        raise JobError(f"{job}: has no agent {missing[0]!r}; it has {', '.join(map(harmless, every))}")
    return [every[agent] for agent in dict.fromkeys(agents)] or [*every.values()][:2]


def _variance(arms: list[Arm], asked: dict[str, Any]) -> DifferenceVariance:
    if not arms:
        return DifferenceVariance(asked["sd"] ** 2, None, asked["attempts"] or 1, "given")
    if len(arms) == 2:
        return variance_of_two(arms[0], arms[1])
    return variance_of_one(arms[0], asked["correlation"])


def _asked(arms: list[Arm], asked: dict[str, Any]) -> PlanAsked:
    common = set.intersection(*(set(arm.rewards) for arm in arms)) if arms else ()
    tasks = asked["tasks"] or (len(common) if arms else 100)
    attempts = asked["attempts"] or (arms[0].job.file.spec.attempts if arms else 1)
    return PlanAsked(asked["difference"], tasks, attempts, asked["level"], asked["power"])


def _show(plan: PowerPlan, arms: list[Arm], correlation: float) -> None:
    show_line(power_answer(plan))
    click.echo()
    for name, arm in zip("AB", arms, strict=False):
        show_line(f"{name}  {arm_line(arm, plan.asked.level)}")
        show_line(f"   {split_line(split_of(arm))}")
    show_line(source_line(plan.variance, correlation))
    click.echo()
    show_table("", power_table(plan))
    click.echo()
    show_line(attempts_line(plan))
    if line := width_line(plan):
        show_line(line)
    asked = plan.asked
    power = format_mean(asked.power, ".0%")
    show_line(f"a difference is seen if {power} of such comparisons find it, at a level of {asked.level:g}")


def _as_json(plan: PowerPlan, arms: list[Arm]) -> dict[str, Any]:
    splits = {arm.agent: asdict(split_of(arm)) for arm in arms}
    return {**asdict(plan), "agents": splits}
