"""Formats opened only far enough to know that they are what they claim: PDF, PNG, ZIP, XLSX, DOCX, notebooks."""

import io
import zipfile

from seatrial.model.output import OutputSpec
from seatrial.scoring.formats.markup import parse_xml
from seatrial.scoring.formats.parsed import Parsed, keys_of
from seatrial.scoring.text import Unreadable, decode, parse_json

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
    value = parse_json(decode(content))
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
