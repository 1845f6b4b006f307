"""The registry of formats: each has a writer of its own, is found by its endings, and is in the documentation."""

import io
from pathlib import Path

import pytest

from seatrial.errors import UsageError
from seatrial.report.document import make_document
from seatrial.report.formats import FORMATS, ReportFormat, format_named, format_of
from tests.report.sample_reports import sample_job

DOCS = Path(__file__).parents[2] / "docs" / "report-formats.md"


@pytest.mark.parametrize("form", [form for form in FORMATS if form.kind == "text"], ids=lambda form: form.name)
def test_each_format_is_written_by_its_own_writer(form: ReportFormat) -> None:
    document, out = make_document([sample_job(6)]), io.BytesIO()
    form.content(document.arms if form.source == "trials" else document)(out)
    begin = {
        "html": b"<!doctype html>",
        "markdown": b"## ",
        "junit": b"<?xml",
        "csv": b'"arm"',
        "jsonl": b'{"arm"',
        "latex": b"% Needs",
    }
    assert out.getvalue().lower().startswith(begin[form.name].lower())


def test_names_and_endings_mean_one_format_each() -> None:
    endings = [suffix for form in FORMATS for suffix in form.suffixes]
    assert len({*endings}) == len(endings)
    for form in FORMATS:
        assert format_named(form.name) is form
        assert all(format_of(Path(f"report{suffix.upper()}")) is form for suffix in form.suffixes)
    with pytest.raises(UsageError, match="does not say which format"):
        format_of(Path("report.docx"))


def test_each_format_is_in_the_documentation() -> None:
    text = DOCS.read_text()
    for form in FORMATS:
        assert f"| `{form.suffixes[0]}` | `{form.name}` |" in text
