"""Does a file parse as the format it claims? One parser per format, bounded in size and depth.

A parser takes the bytes and the OutputSpec, returns a Parsed or raises Unreadable with the place of the fault.
"""

import csv
import io
import re
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from xml.parsers import expat

from seatrial.model.base import MAX_JSON_DEPTH, plain
from seatrial.model.output import OutputFormat, OutputSpec
from seatrial.untrusted.json import Unreadable, decode, excerpt, parse_strict
from seatrial.verifier_kit import json_blocks


class Parsed(NamedTuple):
    """A file that parsed.

    `value` is what a JSON Schema is checked against; `keys` are the names a required key is looked up in (None when
    the format has none); `oddities` are faults of shape that leave the file readable, such as rows of unequal length.
    """

    value: Any = None
    keys: frozenset[str] | None = None
    oddities: tuple[str, ...] = ()


def keys_of(value: Any) -> frozenset[str] | None:
    """The keys of an object, or those every object of a list has; None for anything else."""
    if isinstance(value, dict):
        return frozenset(map(str, value))
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return frozenset.intersection(*(frozenset(map(str, item)) for item in value))
    return None


# Formats that carry data: JSON, JSON Lines, CSV, TSV, YAML, TOML.

# Their readers are some hundred times slower per byte than the others, and an agent chooses the bytes.
MAX_SLOW_BYTES = 2**20
_MAX_ODDITIES = 5


def parse_json_file(content: bytes, _: OutputSpec) -> Parsed:
    """One JSON value."""
    value = parse_strict(decode(content))
    return Parsed(value, keys_of(value))


def parse_jsonl(content: bytes, _: OutputSpec) -> Parsed:
    """One JSON value per line; blank lines are allowed, an empty file is not."""
    lines = decode(content).split("\n")
    values = [parse_strict(line, number) for number, line in enumerate(lines, start=1) if line.strip()]
    if not values:
        raise Unreadable("the file has no line with a value", 1, 1)
    return Parsed(values, keys_of(values))


def parse_csv(content: bytes, spec: OutputSpec) -> Parsed:
    """Comma-separated rows under a header."""
    return _parse_rows(content, ",", spec)


def parse_tsv(content: bytes, spec: OutputSpec) -> Parsed:
    """Tab-separated rows under a header."""
    return _parse_rows(content, "\t", spec)


def _parse_rows(content: bytes, delimiter: str, spec: OutputSpec) -> Parsed:
    rows = _Rows(decode(content), delimiter)
    header = next(iter(rows), None)
    if header is None:
        raise Unreadable("the file is empty, expected a header row", 1, 1)
    oddities, objects = [], []
    for row in rows:
        if len(row) != len(header):
            oddities.append(f"line {rows.line} has {len(row)} fields, the header has {len(header)}")
        if spec.shape.json_schema is not None:
            objects.append(dict(zip(header, row, strict=False)))
    return Parsed(objects, frozenset(header), tuple(oddities[:_MAX_ODDITIES]))


class _Rows:
    """The rows that are not blank, with the line the last one ended on."""

    def __init__(self, text: str, delimiter: str) -> None:
        self._reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)

    @property
    def line(self) -> int:
        return self._reader.line_num

    def __iter__(self) -> Iterator[list[str]]:
        try:
            for row in self._reader:
                if row:
                    yield row
        except csv.Error as error:
            raise Unreadable(str(error), self.line, 1) from None


def parse_toml(content: bytes, _: OutputSpec) -> Parsed:
    """One TOML document; dates are handed on as text."""
    try:
        value = plain(tomllib.loads(decode(_bounded(content)).replace("\r\n", "\n")))
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"^(.*) \(at line (\d+), column (\d+)\)$", str(error), re.DOTALL)
        if match:
            raise Unreadable(f"not TOML: {excerpt(match[1])}", int(match[2]), int(match[3])) from None
        raise Unreadable(f"not TOML: {excerpt(str(error))}") from None
    return Parsed(value, keys_of(value))


def parse_yaml(content: bytes, _: OutputSpec) -> Parsed:
    """One YAML document, or several as a list; only plain values, with aliases that cannot blow up."""
    from seatrial.untrusted.yaml import YamlError, read_documents  # noqa: PLC0415 - slow to import, and seldom needed

    try:
        documents = read_documents(decode(_bounded(content)))
    except YamlError as error:
        detail = f": {excerpt(error.detail)}" if error.detail else ""
        raise Unreadable(f"{error.message}{detail}", error.line, error.column) from None
    value = documents[0] if len(documents) == 1 else documents
    return Parsed(value, keys_of(value))


def _bounded(content: bytes) -> bytes:
    if len(content) > MAX_SLOW_BYTES:
        raise Unreadable(f"found {len(content):,} bytes, at most {MAX_SLOW_BYTES:,} are read of this format")
    return content


# Formats for people: plain text, Markdown with a JSON block, HTML, XML.

_ELEMENT = re.compile(r"<[A-Za-z][A-Za-z0-9-]*[\s/>]")


def parse_text(content: bytes, _: OutputSpec) -> Parsed:
    """UTF-8 text without NUL characters."""
    text = decode(content)
    if "\0" in text:
        before = text[: text.index("\0")]
        raise Unreadable("found a NUL character in a text file", before.count("\n") + 1, _column(before))
    return Parsed(text)


def _column(before: str) -> int:
    return len(before) - before.rfind("\n")


def parse_markdown(content: bytes, spec: OutputSpec) -> Parsed:
    """Markdown. Its last fenced JSON block is its value, and must be there when the instruction shows one."""
    text = decode(content)
    blocks = json_blocks(text)
    if blocks and (spec.ends_in_json_block or spec.shape.source != "none"):
        value = parse_strict(blocks[-1].body, blocks[-1].line)
        return Parsed(value, keys_of(value))
    if spec.ends_in_json_block:
        raise Unreadable("the report has no fenced JSON block, expected it to end in one", text.count("\n") + 1, 1)
    return Parsed(text)


def parse_html(content: bytes, _: OutputSpec) -> Parsed:
    """HTML: any text is, so all that can be asked for is one element."""
    text = decode(content)
    if not _ELEMENT.search(text):
        raise Unreadable("found no element, expected an HTML document", 1, 1)
    return Parsed(text)


def parse_xml(content: bytes, _: OutputSpec) -> Parsed:
    """Well-formed XML. Entity declarations are refused: they are how a small file becomes a large one."""
    depth, names = 0, set()
    parser = expat.ParserCreate()

    def start(name: str, _: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_JSON_DEPTH:
            raise Unreadable(f"nested deeper than {MAX_JSON_DEPTH} levels", *_place(parser))
        if depth == 2:
            names.add(name)

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    def refuse(name: str, *_: object) -> None:
        raise Unreadable(f"the entity {name} is declared, which is not allowed", *_place(parser))

    parser.StartElementHandler, parser.EndElementHandler, parser.EntityDeclHandler = start, end, refuse
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise Unreadable(f"not XML: {expat.ErrorString(error.code)}", error.lineno, error.offset + 1) from None
    return Parsed(keys=frozenset(names))


def _place(parser: expat.XMLParserType) -> tuple[int, int]:
    return parser.CurrentLineNumber, parser.CurrentColumnNumber + 1


# Formats opened only far enough to know that they are what they claim: PDF, PNG, ZIP, XLSX, DOCX, notebooks.

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_MAX_MEMBERS = 100_000
_MAX_PART_BYTES = 32 * 2**20


def parse_pdf(content: bytes, _: OutputSpec) -> Parsed:
    """A PDF has its header near the start and an end marker near the end."""
    if b"%PDF-" not in content[:1024]:
        raise Unreadable("found no %PDF- header in the first 1,024 bytes")
    if b"%%EOF" not in content[-2048:]:
        raise Unreadable("found no %%EOF marker at the end: the file is cut short")
    return Parsed()


def parse_png(content: bytes, _: OutputSpec) -> Parsed:
    """A PNG is a signature and a chain of chunks from IHDR to IEND."""
    if not content.startswith(_PNG_SIGNATURE):
        raise Unreadable(f"found {content[:8].hex(' ') or 'nothing'}, expected the PNG signature")
    position, kind = len(_PNG_SIGNATURE), b""
    while kind != b"IEND":
        length, kind = int.from_bytes(content[position : position + 4]), content[position + 4 : position + 8]
        if position == len(_PNG_SIGNATURE) and (kind, length) != (b"IHDR", 13):
            raise Unreadable("the first chunk is not a PNG header")
        position += 12 + length
        if position > len(content):
            raise Unreadable(f"the image is cut short at byte {len(content):,}")
    return Parsed()


def parse_zip(content: bytes, _: OutputSpec) -> Parsed:
    """A ZIP archive whose directory can be read; nothing is unpacked."""
    return Parsed(keys=frozenset(_open(content).namelist()))


def parse_xlsx(content: bytes, spec: OutputSpec) -> Parsed:
    """A workbook: a ZIP archive with a workbook part."""
    return _office(content, "xl/workbook.xml", spec)


def parse_docx(content: bytes, spec: OutputSpec) -> Parsed:
    """A document: a ZIP archive with a document part."""
    return _office(content, "word/document.xml", spec)


def parse_notebook(content: bytes, _: OutputSpec) -> Parsed:
    """A Jupyter notebook: JSON with a format number and a list of cells."""
    value = parse_strict(decode(content))
    if not isinstance(value, dict) or "nbformat" not in value or not isinstance(value.get("cells"), list):
        raise Unreadable("found JSON without `nbformat` and a list of `cells`, expected a notebook")
    return Parsed(value, keys_of(value))


def _office(content: bytes, part: str, spec: OutputSpec) -> Parsed:
    archive = _open(content)
    names = archive.namelist()
    for wanted in ("[Content_Types].xml", part):
        if wanted not in names:
            raise Unreadable(f"the archive has no {wanted}")
    with archive.open(part) as file:
        data = file.read(_MAX_PART_BYTES + 1)
    if len(data) > _MAX_PART_BYTES:
        raise Unreadable(f"{part} unpacks to more than {_MAX_PART_BYTES:,} bytes")
    parse_xml(data, spec)
    return Parsed()


def _open(content: bytes) -> zipfile.ZipFile:
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except zipfile.BadZipFile as error:
        raise Unreadable(f"not a ZIP archive: {error}") from None
    if len(archive.infolist()) > _MAX_MEMBERS:
        raise Unreadable(f"the archive has more than {_MAX_MEMBERS:,} members")
    return archive


PARSERS: Mapping[OutputFormat, Callable[[bytes, OutputSpec], Parsed]] = {
    "json": parse_json_file,
    "jsonl": parse_jsonl,
    "csv": parse_csv,
    "tsv": parse_tsv,
    "yaml": parse_yaml,
    "toml": parse_toml,
    "txt": parse_text,
    "md": parse_markdown,
    "html": parse_html,
    "xml": parse_xml,
    "pdf": parse_pdf,
    "png": parse_png,
    "zip": parse_zip,
    "xlsx": parse_xlsx,
    "docx": parse_docx,
    "ipynb": parse_notebook,
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
