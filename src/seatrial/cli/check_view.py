"""What checks found, as a table over all tasks and as words that the author of a task can act on."""

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence

import click

from seatrial.check.cases import Case, CaseVerdict
from seatrial.check.grade import WEIGHTS
from seatrial.cli.colours import paint
from seatrial.cli.render import show_table
from seatrial.model.check import CheckFinding, CheckOutcome, TaskCheck
from seatrial.report.text import counted, format_duration, format_reward, harmless, harmless_lines

_COLUMNS = ("task", "grade", *WEIGHTS, "runs", "time")
_WEIGHT_COLOURS = {"critical": "red", "major": "red", "minor": "yellow", "note": "cyan"}
_GRADE_COLOURS = {"A": "green", "B": "green", "C": "yellow", "D": "red", "F": "red"}
_LOG_LINES = 30


def show_table_of_tasks(checks: Sequence[TaskCheck]) -> None:
    """One row for each task: its grade, how many findings of which weight count, and what they cost."""
    show_table("Verifiers", _COLUMNS, map(_row, checks))


def _row(check: TaskCheck) -> tuple[str, ...]:
    counts = Counter(finding.weight for finding in check.findings if finding.counts)
    found = (str(counts[weight]) if counts[weight] else "" for weight in WEIGHTS)
    return check.task, check.grade or "-", *found, str(check.verifications), format_duration(check.duration_sec)


def result_line(check: TaskCheck) -> str:
    """One finished task on one line."""
    grade = paint(check.grade, _GRADE_COLOURS[check.grade], bold=True) if check.grade else "-"
    return f"{grade}  {harmless(check.task)}: {harmless('; '.join(check.reasons))}"


def show_findings(check: TaskCheck, *, notes: bool) -> None:
    """Every finding of a task with what to do about it; those that do not count on one line each."""
    shown = [finding for finding in check.findings if notes or finding.weight != "note"]
    for finding in sorted(shown, key=lambda each: WEIGHTS.index(each.weight)):
        _show_finding(check.task, finding)


def _show_finding(task: str, finding: CheckFinding) -> None:
    weight = paint(finding.weight, _WEIGHT_COLOURS[finding.weight])
    mark = "" if finding.counts else " (accepted)" if finding.accepted else " (known)"
    click.echo(f"{harmless(task)}: {weight}[{harmless(finding.id)}]{mark} {harmless(finding.message)}")
    if not finding.counts:
        return
    if finding.fix:
        click.echo(f"    fix: {harmless(finding.fix)}")
    click.echo(f"    reproduce: {harmless(finding.reproduce)}")
    click.echo(f'    accept: add "{harmless(finding.id)}" to `accept` in [check] of task.toml')


def show_outcomes(check: TaskCheck, titles: Mapping[str, str]) -> None:
    """How each check of one task went."""
    rows = [
        (outcome.check, titles.get(outcome.check, ""), outcome.status, _tried(outcome)) for outcome in check.outcomes
    ]
    show_table(check.task, ("", "check", "result", "runs"), rows)
    for outcome in check.outcomes:
        if outcome.reason:
            click.echo(f"{outcome.check}: {harmless(outcome.reason)}")


def _tried(outcome: CheckOutcome) -> str:
    total = outcome.tried + outcome.left_out
    return f"{outcome.tried} of {total}" if outcome.left_out else str(outcome.tried)


def totals_line(every: Sequence[TaskCheck], began: dt.datetime) -> str:
    """How much was done since a moment, in how long; results from before it are only counted."""
    checks = [check for check in every if check.finished_at >= began]
    seconds, before = (dt.datetime.now(dt.UTC) - began).total_seconds(), len(every) - len(checks)
    verifications = sum(check.verifications for check in checks)
    states, rebuilt = sum(check.states for check in checks), sum(check.rebuilt for check in checks)
    again = f", {rebuilt:,} rebuilt" if rebuilt else ""
    return (
        f"{counted(verifications, 'verification')} in {format_duration(seconds)} from "
        f"{counted(states, 'end state')}{again}" + (f"; {counted(before, 'task')} done before" if before else "")
    )


def show_case(case: Case) -> None:
    """What a case is: the end state, what is different in it, and under which conditions it is judged."""
    start = "the untouched environment, in which an agent runs a command" if case.command else f"the state {case.state}"
    click.echo(f"case: {start}")
    for edit in case.edits:
        what = "removed" if edit.content is None else f"with another content, {counted(len(edit.content), 'byte')}"
        click.echo(f"    {harmless(edit.path)}: {what}")
    for line in harmless_lines(case.command) if case.command else []:
        click.echo(f"    $ {line}")
    conditions = case.conditions
    named = [f"{name}={value}" for name, value in conditions.env.items()]
    named += [f"tests/{name} is another one" for name in conditions.tests]
    named += ["no network"] * (conditions.network == "none") + ["one processor"] * conditions.one_cpu
    for line in named:
        click.echo(f"    {harmless(line)}")


def show_verdict(verdict: CaseVerdict) -> None:
    """Everything about one verdict: reward, validity, breakdown, tags, and the end of what was printed."""
    evaluation = verdict.evaluation
    if evaluation is None:
        click.echo(f"{verdict.case}: no verdict: {harmless(verdict.failure or 'the verifier could not be asked')}")
        return
    click.echo(f"{verdict.case}: reward {format_reward(evaluation.reward)} ({verdict.outcome})")
    how = "out of time" if verdict.timed_out else f"exit status {verdict.exit_code}"
    click.echo(f"verifier: {how} after {format_duration(verdict.duration_sec)}")
    validity = evaluation.validity
    flags = ("output_parseable", "schema_valid", "verifier_completed")
    click.echo("validity: " + ", ".join(f"{flag} {getattr(validity, flag)}".lower() for flag in flags))
    for line in validity.errors:
        click.echo(f"    {harmless(line)}")
    for name, value in (evaluation.breakdown or {}).items():
        click.echo(f"breakdown: {harmless(name)}: {harmless(str(value))}")
    for tag in evaluation.error_taxonomy or ():
        click.echo(f"tag: {harmless(tag.category)}: {harmless(tag.description or '')}")
    if lines := harmless_lines(verdict.log.rstrip("\n"))[-_LOG_LINES:] if verdict.log.strip() else []:
        click.echo("the verifier printed:")
        for line in lines:
            click.echo(f"    {line}")
