"""Formats that carry data: JSON, JSON Lines, CSV, TSV, YAML, TOML."""

import csv
import io
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import yaml
from yaml._yaml import CParser
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from seatrial.model.base import MAX_JSON_DEPTH, plain
from seatrial.model.output import OutputSpec
from seatrial.scoring.findings import excerpt
from seatrial.scoring.formats.parsed import Parsed, keys_of
from seatrial.scoring.text import Unreadable, decode, parse_json

# Their readers are some hundred times slower per byte than the others, and an agent chooses the bytes.
MAX_SLOW_BYTES = 2**20
MAX_YAML_NODES = 1_000_000
_MAX_ODDITIES = 5


def parse_json_file(content: bytes, _: OutputSpec) -> Parsed:
    """One JSON value."""
    value = parse_json(decode(content))
    return Parsed(value, keys_of(value))


def parse_jsonl(content: bytes, _: OutputSpec) -> Parsed:
    """One JSON value per line; blank lines are allowed, an empty file is not."""
    lines = decode(content).split("\n")
    values = [parse_json(line, number) for number, line in enumerate(lines, start=1) if line.strip()]
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
    loader = _YamlLoader(decode(_bounded(content)))
    documents = []
    try:
        while loader.check_node():
            node: Any = loader.get_node()
            _check_expansion(node)
            documents.append(loader.construct_document(node))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise Unreadable(f"not YAML: {excerpt(error.problem or 'unknown fault')}", *place) from None
    finally:
        loader.dispose()
    value = documents[0] if len(documents) == 1 else documents
    return Parsed(value, keys_of(value))


class _YamlLoader(Composer, CParser, SafeConstructor, Resolver):
    """The safe loader with two differences: depth is bounded, and dates stay text, as a JSON Schema expects them.

    libyaml reads, Python composes: libyaml's own composer crashes the process on a few thousand brackets.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - the attribute PyYAML looks for
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in Resolver.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        CParser.__init__(self, text)
        for part in (Composer, SafeConstructor, Resolver):
            part.__init__(self)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """One node and all below it."""
        if self._depth > MAX_JSON_DEPTH:
            event: Any = self.peek_event()
            raise Unreadable(f"nested deeper than {MAX_JSON_DEPTH} levels", event.start_mark.line + 1, 1)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _check_expansion(root: yaml.Node) -> None:
    """Refuse a document in which aliases lead in circles or multiply; one shared node counts as often as it is used."""
    sizes: dict[int, int] = {}
    path: set[int] = set()

    def size(node: yaml.Node) -> int:
        if id(node) in path:
            raise Unreadable("an alias contains itself", node.start_mark.line + 1, node.start_mark.column + 1)
        if id(node) not in sizes:
            path.add(id(node))
            sizes[id(node)] = 1 + sum(map(size, _children(node)))
            path.remove(id(node))
        if sizes[id(node)] > MAX_YAML_NODES:
            raise Unreadable(f"aliases expand to more than {MAX_YAML_NODES:,} values", node.start_mark.line + 1, 1)
        return sizes[id(node)]

    size(root)


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _bounded(content: bytes) -> bytes:
    if len(content) > MAX_SLOW_BYTES:
        raise Unreadable(f"found {len(content):,} bytes, at most {MAX_SLOW_BYTES:,} are read of this format")
    return content
