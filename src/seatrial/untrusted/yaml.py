"""YAML that strangers wrote: only plain values, bounded in depth, with aliases that cannot blow up.

libyaml reads, Python composes: libyaml's own composer crashes the process on a few thousand brackets.
"""

from collections.abc import Iterator
from typing import Any, Literal

import yaml
from yaml._yaml import CParser
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from seatrial.model.base import MAX_JSON_DEPTH

MAX_YAML_NODES = 1_000_000


class YamlError(ValueError):
    """A text is not YAML, or more than anybody should read; `detail` may quote it. Lines and columns count from 1."""

    def __init__(self, message: str, line: int = 1, column: int = 1, detail: str | None = None) -> None:
        super().__init__(f"{message}: {detail}" if detail else message)
        self.message = message
        self.line = line
        self.column = column
        self.detail = detail


def read_documents(text: str, repeated: Literal["last", "refuse"] = "last") -> list[Any]:
    """Every document of a text as plain values; dates stay text, as a JSON Schema expects them. Raises YamlError.

    Of a key that is repeated in its table, the last counts, as most readers of YAML have it, or it is refused.
    The caller bounds the length of the text: reading takes some hundred times longer per byte than JSON does.
    """
    loader = _Loader(text)
    documents = []
    try:
        while loader.check_node():
            node: Any = loader.get_node()
            _check_expansion(node)
            if repeated == "refuse":
                _check_repetition(node)
            documents.append(loader.construct_document(node))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise YamlError("not YAML", *place, error.problem or "unknown fault") from None
    except YamlError:
        raise
    except Exception as error:  # noqa: BLE001 - see below
        # A character that YAML forbids, or a tag on a value of another kind (`!!bool x`): PyYAML raises what it likes.
        raise YamlError("not YAML", detail=str(error).partition("\n")[0] or type(error).__name__) from None
    finally:
        loader.dispose()
    return documents


class _Loader(Composer, CParser, SafeConstructor, Resolver):
    """The safe loader with two differences: depth is bounded, and dates stay text."""

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
        if self._depth > MAX_JSON_DEPTH:
            event: Any = self.peek_event()
            raise YamlError(f"nested deeper than {MAX_JSON_DEPTH} levels", event.start_mark.line + 1)
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
            raise YamlError("an alias contains itself", node.start_mark.line + 1, node.start_mark.column + 1)
        if id(node) not in sizes:
            path.add(id(node))
            sizes[id(node)] = 1 + sum(map(size, _children(node)))
            path.remove(id(node))
        if sizes[id(node)] > MAX_YAML_NODES:
            raise YamlError(f"aliases expand to more than {MAX_YAML_NODES:,} values", node.start_mark.line + 1)
        return sizes[id(node)]

    size(root)


def _check_repetition(root: yaml.Node) -> None:
    waiting, seen = [root], {id(root)}
    while waiting:
        node = waiting.pop()
        keys = [key for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
        known: set[str] = set()
        for key in keys:
            if isinstance(key, yaml.ScalarNode) and key.value in known:
                mark = key.start_mark
                raise YamlError(f"the key {key.value!r} is given twice", mark.line + 1, mark.column + 1)
            known.add(str(key.value))
        below = [child for child in _children(node) if id(child) not in seen]
        seen.update(map(id, below))
        waiting.extend(below)


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value
