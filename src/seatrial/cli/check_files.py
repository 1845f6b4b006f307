"""Writing what checks found to the files that were asked for, for other programs to read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from seatrial import __version__
from seatrial.check.junit import junit
from seatrial.check.sarif import sarif
from seatrial.model.base import to_json
from seatrial.model.check import CheckReport, TaskCheck
from seatrial.store.files import replace_file, storing

_FILES = ("json_file", "junit_file", "sarif_file")


def is_printed(options: Mapping[str, Any]) -> bool:
    """Whether a report goes to the standard output."""
    return any(str(options[name]) == "-" for name in _FILES)


def write_reports(
    checks: Sequence[TaskCheck], folders: Mapping[str, str], titles: Mapping[str, str], options: Mapping[str, Any]
) -> None:
    """Write the reports that the options name; `folders` are those of the tasks. Raises StoreError."""
    if path := options["json_file"]:
        _write(path, to_json(CheckReport(seatrial_version=__version__, tasks=tuple(checks))))
    if path := options["junit_file"]:
        _write(path, junit(checks, titles, options["fail_on"]))
    if path := options["sarif_file"]:
        _write(path, sarif(checks, titles, folders, __version__))


def _write(path: Path, content: bytes) -> None:
    if str(path) == "-":
        click.echo(content, nl=False)
        return
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)
