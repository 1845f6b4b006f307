"""Where reports go: to files that are there as a whole or not at all, or to the standard output."""

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from seatrial.errors import StoreError, UsageError
from seatrial.report.formats.registry import Content, ReportFormat, format_named, format_of
from seatrial.store.files import replacing
from seatrial.store.job_parts import job_with_part

_PRINTED = Path("-")


@dataclass(frozen=True, slots=True)
class ReportFile:
    """A report that was asked for: where it goes, and in which format."""

    path: Path
    form: ReportFormat

    @property
    def is_printed(self) -> bool:
        """Whether it goes to the standard output."""
        return self.path == _PRINTED

    @property
    def folder(self) -> Path | None:
        """The folder it will lie in, None where it is printed."""
        return None if self.is_printed else self.path.parent


def files_asked(paths: Sequence[Path], names: Sequence[str]) -> list[ReportFile]:
    """The files of `-o` with their formats: by their endings, or as `--format` says, once for all or once for each.

    Raises UsageError for what cannot be written there, before anything is computed.
    """
    if len(names) not in (0, 1, len(paths)):
        raise UsageError(f"--format is given {len(names)} times for {len(paths)} files; give it once, or for each -o")
    forms = [format_named(name) for name in names] * (len(paths) if len(names) == 1 else 1)
    files = [ReportFile(path, forms[index] if forms else _by_ending(path)) for index, path in enumerate(paths)]
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


def _check(file: ReportFile) -> None:
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


def write_files(contents: Sequence[tuple[ReportFile, Content]]) -> None:
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
