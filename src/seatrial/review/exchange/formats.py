"""The formats that reviews are exported to and imported from, by name and by the ending of a file's name."""

from pathlib import PurePath

from seatrial.errors import UsageError
from seatrial.review.exchange.api import ReviewFormat
from seatrial.review.exchange.argilla import read_argilla, write_argilla
from seatrial.review.exchange.csv_rows import read_csv_rows, write_csv_rows
from seatrial.review.exchange.jsonl_lines import read_jsonl, write_jsonl
from seatrial.review.exchange.label_studio import read_label_studio, write_label_studio

FORMATS = {
    each.name: each
    for each in (
        ReviewFormat("jsonl", write_jsonl, read_jsonl),
        ReviewFormat("csv", write_csv_rows, read_csv_rows),
        ReviewFormat("label-studio", write_label_studio, read_label_studio),
        ReviewFormat("argilla", write_argilla, read_argilla),
    )
}
_ENDINGS = {".jsonl": "jsonl", ".csv": "csv"}


def format_of(name: str | None, file: PurePath) -> ReviewFormat:
    """The format of that name, or of a file by its ending. Raises UsageError where that does not say."""
    chosen = name or _ENDINGS.get(file.suffix.lower())
    if chosen is None:
        raise UsageError(f"{file}: the name does not say which format it is; give --format {'|'.join(FORMATS)}")
    return FORMATS[chosen]
