"""The formats of reports by name and by the endings of files; what a format needs is imported when it is written."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO, Literal

from seatrial.analysis.arms import Arm
from seatrial.errors import UsageError
from seatrial.report.document import ReportDocument

FormatName = Literal["html", "markdown", "junit", "ctrf", "csv", "jsonl", "parquet", "latex"]
Content = Callable[[BinaryIO], None]


@dataclass(frozen=True, slots=True)
class ReportFormat:
    """A format: the endings that mean it, and what it is made from. `trials` need no estimates."""

    name: FormatName
    suffixes: tuple[str, ...]
    source: Literal["trials", "document"]
    kind: Literal["text", "binary"] = "text"


FORMATS = (
    ReportFormat("html", (".html", ".htm"), "document"),
    ReportFormat("markdown", (".md", ".markdown"), "document"),
    ReportFormat("junit", (".xml",), "trials"),
    ReportFormat("ctrf", (".json",), "trials"),
    ReportFormat("csv", (".csv",), "trials"),
    ReportFormat("jsonl", (".jsonl", ".ndjson"), "trials"),
    ReportFormat("parquet", (".parquet",), "trials", "binary"),
    ReportFormat("latex", (".tex",), "document"),
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


def trials_content(form: ReportFormat, arms: tuple[Arm, ...]) -> Content:
    """What writes a format that is made from trials."""
    if form.name == "junit":
        from seatrial.report.formats.junit_cases import write_junit  # noqa: PLC0415 - only where it is asked for

        return lambda out: write_junit(arms, out)
    if form.name == "ctrf":
        from seatrial.report.formats.ctrf_tests import write_ctrf  # noqa: PLC0415 - likewise

        return lambda out: write_ctrf(arms, out, version("seatrial"))
    if form.name == "csv":
        from seatrial.report.formats.csv_table import write_csv  # noqa: PLC0415 - likewise

        return lambda out: write_csv(arms, out)
    if form.name == "jsonl":
        from seatrial.report.formats.jsonl_table import write_jsonl  # noqa: PLC0415 - likewise

        return lambda out: write_jsonl(arms, out)
    from seatrial.report.formats.parquet_table import write_parquet  # noqa: PLC0415 - likewise

    return lambda out: write_parquet(arms, out)


def document_content(form: ReportFormat, document: ReportDocument, folder: Path | None = None) -> Content:
    """What writes a format that is made from a document; `folder` is where the file will lie, for what links to it."""
    if form.name == "html":
        from seatrial.report.html.page import render_html  # noqa: PLC0415 - likewise

        return lambda out: _put(out, render_html(document, folder))
    if form.name == "markdown":
        from seatrial.report.formats.markdown_comment import write_markdown  # noqa: PLC0415 - likewise

        return lambda out: write_markdown(document, out)
    from seatrial.report.formats.latex_tables import write_latex  # noqa: PLC0415 - likewise

    return lambda out: write_latex(document, out)


def _put(out: BinaryIO, content: bytes) -> None:
    out.write(content)
