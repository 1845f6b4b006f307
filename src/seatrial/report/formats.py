"""The formats of reports by name and by the endings of files. A new format is a module and a line here."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Literal

from seatrial.errors import UsageError

Content = Callable[[BinaryIO], None]


@dataclass(frozen=True, slots=True)
class ReportFormat:
    """A format, and what writes it."""

    name: str
    suffixes: tuple[str, ...]
    """The endings of files that mean it."""
    writer: str
    """Module and function; it is imported when a report is written, for some need what is slow to import."""
    source: Literal["trials", "document"]
    """What the writer is given: arms, which need no estimates, or a document."""
    kind: Literal["text", "binary"] = "text"
    reviews: Literal["used", "unused"] = "unused"
    """Whether it has what reviewers said of each trial."""

    def content(self, source: Any) -> Content:
        """What writes such a report of arms or of a document, as `source` says."""
        module, _, function = self.writer.partition(":")
        write = getattr(import_module(f"seatrial.report.{module}"), function)
        return lambda out: write(source, out)


FORMATS = (
    ReportFormat("html", (".html", ".htm"), "html.page:write_html", "document"),
    ReportFormat("markdown", (".md", ".markdown"), "comment:write_markdown", "document"),
    ReportFormat("junit", (".xml",), "junit:write_junit", "trials"),
    ReportFormat("csv", (".csv",), "trial_rows:write_csv", "trials", reviews="used"),
    ReportFormat("jsonl", (".jsonl", ".ndjson"), "trial_rows:write_jsonl", "trials", reviews="used"),
    ReportFormat("parquet", (".parquet",), "trial_rows:write_parquet", "trials", "binary", reviews="used"),
    ReportFormat("latex", (".tex",), "latex:write_latex", "document"),
)
FORMAT_NAMES = tuple(form.name for form in FORMATS)


def format_named(name: str) -> ReportFormat:
    """The format of that name."""
    return next(form for form in FORMATS if form.name == name)


def format_of(path: Path) -> ReportFormat:
    """The format that the ending of a file's name means. Raises UsageError where it means none."""
    for form in FORMATS:
        if path.suffix.lower() in form.suffixes:
            return form
    endings = ", ".join(suffix for form in FORMATS for suffix in form.suffixes[:1])
    raise UsageError(f"{path}: its name does not say which format is meant; end it in {endings}, or give --format")
