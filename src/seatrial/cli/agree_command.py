"""`seatrial agree JOB...`: how far reviewers agree, what they make of the verifier, and whether to build on it.

Exit codes of a gate: 0 ready, 1 not ready, 3 nobody can tell yet.
"""

import json
from collections.abc import Iterable
from pathlib import Path

import click

from seatrial.analysis.filters import Filter
from seatrial.analysis.loaded import LoadedJob
from seatrial.cli.agree_view import show_agreement
from seatrial.cli.export_filter import where_option
from seatrial.cli.gates import readable_job
from seatrial.cli.program import command_line
from seatrial.cli.render import show_warning
from seatrial.errors import UsageError
from seatrial.review.agreement import agreement_report
from seatrial.review.agreement_json import agreement_json
from seatrial.review.readiness import readiness

_EXIT_CODES = {"open": 0, "closed": 1, "unknown": 3}


@click.command("agree")
@click.argument("jobs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="JOB...")
@where_option("Look at")
@click.option("--gate", is_flag=True, help="Exit with 1 if reviews are not ready to build on, 3 if nobody can tell.")
@click.option("--level", type=float, default=0.95, show_default=True, help="How sure intervals are.")
@click.option("--seed", type=int, default=0, show_default=True, help="For the resampling of trials.")
@click.option("--all", "everything", is_flag=True, help="Show every task and every trial that people see otherwise.")
@click.option("--json", "as_json", is_flag=True, help="Print all of it as one JSON object.")
def command(  # noqa: PLR0913, PLR0917 - one for each option
    jobs: tuple[Path, ...], where: Filter, gate: bool, level: float, seed: int, everything: bool, as_json: bool
) -> None:
    """Say how far the reviewers of the jobs in folders JOB agree: with each other, and with the verifier."""
    if not 0.5 <= level < 1.0:
        raise UsageError(f"--level is {level:g}, expected at least 0.5 and less than 1, such as 0.95")
    if seed < 0:
        raise UsageError(f"--seed is {seed}, expected 0 or more")
    loaded = [readable_job(folder, where) for folder in jobs]
    _refuse_copies(loaded)
    for job in loaded:
        job.store.reviews(show_warning)
    report = agreement_report(loaded, level=level, seed=seed)
    ready = readiness(report.overall)
    if as_json:
        click.echo(json.dumps(agreement_json(report, ready), indent=2))
    else:
        show_agreement(report, ready, everything=everything)
        if not report.overall.reviewed:
            click.echo(f"Review them with: {command_line('view', *map(str, jobs))}", err=True)
    if gate and (code := _EXIT_CODES[ready.state]):
        raise click.exceptions.Exit(code)


def _refuse_copies(jobs: Iterable[LoadedJob]) -> None:
    """Raise UsageError where two folders hold the same job: every trial would count twice."""
    seen: dict[str | Path, LoadedJob] = {}
    for job in jobs:
        same = seen.setdefault(job.file.id or job.path.resolve(), job)
        if same is not job:
            raise UsageError(
                f"{same.path} and {job.path} hold the same job, whose trials would count twice; "
                "`seatrial annotations merge` brings the reviews of copies together"
            )
