"""`seatrial report JOB... -o FILE`: results as a page, for a pull request, for build servers, tables and papers."""

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from seatrial.analysis.arms import arms_of
from seatrial.analysis.loaded import Filter, LoadedJob, load_jobs
from seatrial.cli.analysis_options import LEVEL, SEED, where_option
from seatrial.cli.job_view import warn_of_uncounted
from seatrial.errors import JobError, StoreError, UsageError
from seatrial.report.document import ReportOptions, make_document
from seatrial.report.formats import FORMAT_NAMES, Content, ReportFormat, format_named, format_of
from seatrial.report.text import counted, harmless
from seatrial.store.files import replacing
from seatrial.store.job_store import job_with_part

_PRINTED = Path("-")


@dataclass(frozen=True, slots=True)
class _ReportFile:
    """A report that was asked for: where it goes, and in which format."""

    path: Path
    form: ReportFormat

    @property
    def is_printed(self) -> bool:
        return self.path == _PRINTED

    @property
    def folder(self) -> Path | None:
        """The folder it will lie in, None where it is printed."""
        return None if self.is_printed else self.path.parent


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
@LEVEL
@SEED
@click.option("--force", is_flag=True, help="Also compare agents whose rewards mean different things; says so.")
def command(
    jobs: tuple[Path, ...], outputs: tuple[Path, ...], formats: tuple[str, ...], where: Filter, **asked: Any
) -> None:
    """Write a report of the jobs in the folders JOB.

    \b
    .html     a page with pictures, which needs no network
    .md       Markdown for the comment of a pull request
    .xml      JUnit, for build servers
    .csv .jsonl .parquet   a row per trial, for other programs
    .tex      LaTeX tables
    """
    files = _files_asked(outputs, formats)
    loaded = load_jobs(jobs, where)
    if where and not any(job.trials for job in loaded):
        raise JobError(f"no trial is as asked for by --where {where}; `seatrial show {jobs[0]}` lists them")
    warn_of_uncounted(loaded)
    if any(file.form.reviews == "used" for file in files):
        for job in loaded:
            job.store.annotations(_warn)
    _write_files(_contents(files, loaded, _options(where, asked)))
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
    files: Sequence[_ReportFile], jobs: Sequence[LoadedJob], options: ReportOptions
) -> list[tuple[_ReportFile, Content]]:
    """What writes each file. Estimates and comparisons are only made where a format has them."""
    if all(file.form.source == "trials" for file in files):
        arms = tuple(arms_of(jobs))
        return [(file, file.form.content(arms)) for file in files]
    document = make_document(jobs, options)
    sources = (
        document.arms if file.form.source == "trials" else replace(document, folder=file.folder) for file in files
    )
    return [(file, file.form.content(source)) for file, source in zip(files, sources, strict=True)]


def _told(jobs: Sequence[LoadedJob]) -> str:
    trials = counted(sum(len(job.trials) for job in jobs), "trial")
    return f"{trials} in {counted(len(jobs), 'job')}"


def _files_asked(paths: Sequence[Path], names: Sequence[str]) -> list[_ReportFile]:
    """The files of `-o` with their formats: by their endings, or as `--format` says, once for all or once for each.

    Raises UsageError for what cannot be written there, before anything is computed.
    """
    if len(names) not in (0, 1, len(paths)):
        raise UsageError(f"--format is given {len(names)} times for {len(paths)} files; give it once, or for each -o")
    forms = [format_named(name) for name in names] * (len(paths) if len(names) == 1 else 1)
    files = [_ReportFile(path, forms[index] if forms else _by_ending(path)) for index, path in enumerate(paths)]
    for path in paths:
        if sum(_same(path, other) for other in paths) > 1:
            raise UsageError(f"{path}: two reports cannot go to one place; name another with -o")
    for file in files:
        _check(file)
    return files


def _same(path: Path, other: Path) -> bool:
    return os.path.abspath(path) == os.path.abspath(other)  # noqa: PTH100 - Path.resolve would follow links


def _by_ending(path: Path) -> ReportFormat:
    if path == _PRINTED:
        raise UsageError("-o -: say which format is to be printed, such as --format markdown")
    return format_of(path)


def _check(file: _ReportFile) -> None:
    if file.is_printed:
        if file.form.kind == "binary":
            raise UsageError(f"{file.form.name} is not text and cannot be printed; name a file with -o")
        if sys.stdout is None:
            raise UsageError("-o -: the standard output is closed; name a file with -o")
        return
    if job := job_with_part(file.path):
        raise UsageError(f"{file.path} is a part of the job in {job}, which would be lost; name another with -o")
    try:
        mode = os.lstat(file.path).st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        found = "a folder" if stat.S_ISDIR(mode) else "a link" if stat.S_ISLNK(mode) else "no plain file"
        raise UsageError(f"{file.path} is {found}, and only plain files are replaced; name another with -o")


def _write_files(contents: Sequence[tuple[_ReportFile, Content]]) -> None:
    """Write all reports. No file is replaced before every one of them is on the disk. Raises StoreError."""
    with ExitStack() as stack:
        for file, write in contents:
            if not file.is_printed:
                stack.enter_context(_writing(file.path))
                file.path.parent.mkdir(parents=True, exist_ok=True)
                out = stack.enter_context(replacing(file.path))
                write(out)
                out.flush()  # a disk may have no room for the last bytes, and then says so only here
                os.fsync(out.fileno())
    for printed in (content for file, content in contents if file.is_printed):
        printed(sys.stdout.buffer)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise StoreError(f"{path}: the report cannot be written: {why}; name another with -o") from error
