"""Does a file parse as the format it claims? One parser per format, bounded in size and depth.

A parser takes the bytes and the OutputSpec, returns a Parsed or raises Unreadable with the place of the fault.
"""

from collections.abc import Callable, Mapping

from seatrial.model.output import OutputFormat, OutputSpec
from seatrial.scoring.formats import binary, data, markup
from seatrial.scoring.formats.parsed import Parsed
from seatrial.scoring.text import Unreadable

__all__ = ["Parsed", "parse"]

PARSERS: Mapping[OutputFormat, Callable[[bytes, OutputSpec], Parsed]] = {
    "json": data.parse_json_file,
    "jsonl": data.parse_jsonl,
    "csv": data.parse_csv,
    "tsv": data.parse_tsv,
    "yaml": data.parse_yaml,
    "toml": data.parse_toml,
    "txt": markup.parse_text,
    "md": markup.parse_markdown,
    "html": markup.parse_html,
    "xml": markup.parse_xml,
    "pdf": binary.parse_pdf,
    "png": binary.parse_png,
    "zip": binary.parse_zip,
    "xlsx": binary.parse_xlsx,
    "docx": binary.parse_docx,
    "ipynb": binary.parse_notebook,
}


def parse(content: bytes, spec: OutputSpec) -> Parsed:
    """Parse `content` as `spec.format`. Raises Unreadable, and nothing else, whatever the bytes are."""
    if spec.format is None:
        return Parsed()
    try:
        return PARSERS[spec.format](content, spec)
    except (Unreadable, MemoryError):
        raise
    except RecursionError:
        raise Unreadable("nested too deeply") from None
    # The one place where foreign parsers meet arbitrary bytes; what they raise on them is not documented.
    except Exception as error:  # noqa: BLE001 - see above
        raise Unreadable(f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace").decode()) from None
