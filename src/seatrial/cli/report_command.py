"""`seatrial report JOB... -o FILE`: results as a page, for a pull request, for build servers, tables and papers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from seatrial.analysis.arms import arms_of
from seatrial.analysis.filters import Filter
from seatrial.analysis.loaded import LoadedJob, load_jobs
from seatrial.cli.export_filter import where_option
from seatrial.cli.job_view import warn_of_uncounted
from seatrial.cli.report_files import ReportFile, files_asked, write_files
from seatrial.cli.statistics_options import level_option, seed_option
from seatrial.errors import JobError
from seatrial.report.document import ReportOptions, make_document
from seatrial.report.formats.registry import FORMAT_NAMES, Content, document_content, trials_content
from seatrial.report.text import counted, harmless

_WITH_REVIEWS = ("csv", "jsonl", "parquet")
"""Formats that have what reviewers said."""


@click.command("report")
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    required=True,
    type=click.Path(path_type=Path),
    help="The file to write, several times for several; its ending says the format. A hyphen prints.",
)
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(FORMAT_NAMES),
    help="The format, where the file's ending does not say it; once for all files, or once for each.",
)
@where_option("Report")
@click.option("--title", help="The title of the report; otherwise the names of the jobs.")
@click.option("--baseline", metavar="AGENT", help="The agent that others are compared with; otherwise the first.")
@click.option("--family", is_flag=True, help="Take tasks of one family as one cluster in intervals.")
@level_option()
@seed_option()
@click.option("--force", is_flag=True, help="Also compare agents whose rewards mean different things; says so.")
def command(
    jobs: tuple[Path, ...], outputs: tuple[Path, ...], formats: tuple[str, ...], where: Filter, **asked: Any
) -> None:
    """Write a report of the jobs in the folders JOB.

    \b
    .html     a page with pictures, which needs no network
    .md       Markdown for the comment of a pull request
    .xml      JUnit, for build servers
    .json     CTRF, the common test report format
    .csv .jsonl .parquet   a row per trial, for other programs
    .tex      LaTeX tables
    """
    files = files_asked(outputs, formats)
    loaded = load_jobs(jobs, where)
    if where and not any(job.trials for job in loaded):
        raise JobError(f"no trial is as asked for by --where {where}; `seatrial show {jobs[0]}` lists them")
    warn_of_uncounted(loaded)
    if any(file.form.name in _WITH_REVIEWS for file in files):
        for job in loaded:
            job.store.annotations(_warn)
    write_files(_contents(files, loaded, _options(where, asked)))
    for file in files:
        if not file.is_printed:
            click.echo(f"{harmless(str(file.path))}: {file.form.name} report of {_told(loaded)}", err=True)


def _warn(message: str) -> None:
    click.echo(f"Warning: {harmless(message)}", err=True)


def _options(where: Filter, asked: dict[str, Any]) -> ReportOptions:
    return ReportOptions(
        title=asked["title"],
        baseline=asked["baseline"],
        level=asked["level"],
        seed=asked["seed"],
        clusters="family" if asked["family"] else "task",
        comparability="forced" if asked["force"] else "required",
        filters=(str(where),) if where else (),
    )


def _contents(
    files: Sequence[ReportFile], jobs: Sequence[LoadedJob], options: ReportOptions
) -> list[tuple[ReportFile, Content]]:
    """What writes each file. Estimates and comparisons are only made where a format has them."""
    if all(file.form.source == "trials" for file in files):
        arms = tuple(arms_of(jobs))
        return [(file, trials_content(file.form, arms)) for file in files]
    document = make_document(jobs, options)
    return [
        (file, trials_content(file.form, document.arms))
        if file.form.source == "trials"
        else (file, document_content(file.form, document, file.folder))
        for file in files
    ]


def _told(jobs: Sequence[LoadedJob]) -> str:
    trials = counted(sum(len(job.trials) for job in jobs), "trial")
    return f"{trials} in {counted(len(jobs), 'job')}"
