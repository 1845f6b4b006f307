"""Formats for people: plain text, Markdown with a JSON block, HTML, XML."""

import re
from xml.parsers import expat

from seatrial.model.base import MAX_JSON_DEPTH
from seatrial.model.output import OutputSpec
from seatrial.scoring.formats.parsed import Parsed, keys_of
from seatrial.scoring.text import Unreadable, decode, parse_json
from seatrial.verifier_kit import json_blocks

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
        value = parse_json(blocks[-1].body, blocks[-1].line)
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
