"""Markdown as HTML that fetches nothing: no HTML of its own, addresses in plain sight, pictures as their words."""

from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from seatrial.view.rendering.code import lexer_for_language, show_code
from seatrial.view.rendering.text import clean, show_text

# Some texts take its reader time that grows with the square of their length.
_MAX_READ = 3 * 2**14
# An address may be written once and used everywhere, so that a short text becomes a page of any length.
_MAX_ADDRESSES = 2**18
_MAX_HEADING = 6


class _TooLarge(Exception):
    """What a text would become is too large for a page."""


def show_markdown(text: str) -> tuple[Markup, str]:
    """The text laid out, and a note; as it is written if it is too long for that."""
    if len(text) > _MAX_READ:
        return show_text(text), f"shown as it is written: it has more than {_MAX_READ:,} characters"
    try:
        page = Markup(_reader().render(clean(text)))  # noqa: S704 - the reader escapes, and its HTML is off
    except _TooLarge:
        return show_text(text), f"shown as it is written: its links have more than {_MAX_ADDRESSES:,} characters"
    return Markup('<div class="markdown">{}</div>').format(page), ""


def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    reader.core.ruler.push("tame", _tame)
    for name, rule in (
        ("link_open", _link_open), ("link_close", _link_close), ("image", _image), ("fence", _fence),
    ):  # fmt: skip
        reader.add_render_rule(name, rule)
    return reader


def _tame(state: Any) -> None:
    """Headings go below those of the page; nothing has a style; a link's end knows where it led."""
    addresses = 0
    for token in state.tokens:
        token.attrs.pop("style", None)
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(_MAX_HEADING, int(token.tag[1]) + 2)}"
        leading: list[str] = []
        for child in token.children or ():
            addresses += sum(len(str(child.attrs.get(name, ""))) for name in ("href", "src", "title"))
            if addresses > _MAX_ADDRESSES:
                raise _TooLarge
            if child.type == "link_open":
                leading.append(str(child.attrs.get("href", "")))
            elif child.type == "link_close":
                child.meta = {"href": leading.pop() if leading else ""}


def _is_outside(address: str) -> bool:
    return address.lower().startswith(("http://", "https://"))


def _link_open(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    address = str(tokens[index].attrs.get("href", ""))
    if _is_outside(address):
        return str(Markup('<a href="{}" rel="noopener noreferrer">').format(address))
    return '<span class="link">'


def _link_close(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    address = str(tokens[index].meta.get("href", ""))
    end = Markup("</a>") if _is_outside(address) else Markup("</span>")
    return str(Markup('{} <span class="address">({})</span>').format(end, address))


def _image(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    words, address = tokens[index].content, tokens[index].attrs.get("src", "")
    return str(Markup('<span class="address">[picture: {}, {}]</span>').format(words or "without words", address))


def _fence(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    language = tokens[index].info.strip().split(maxsplit=1)
    return str(show_code(tokens[index].content, lexer_for_language(language[0]) if language else None))
