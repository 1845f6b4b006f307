"""How a page shows a file by its format: code, Markdown, tables, JSON, pictures, PDF, HTML, notebooks, and bytes.

Files are strangers' and so bounded, escaped and free of anything that runs or fetches. `show` chooses the format and
catches what a reader raises; archives are in `archives`.
"""

import base64
import binascii
import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import markupsafe
from markdown_it import MarkdownIt
from markdown_it.token import Token as MarkdownToken
from markupsafe import Markup
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_by_name, find_lexer_class_for_filename
from pygments.styles import get_style_by_name
from pygments.token import STANDARD_TYPES, Token
from pygments.util import ClassNotFound

from seatrial.report.text import counted, harmless
from seatrial.untrusted.files import BoundedContent
from seatrial.untrusted.json import Unreadable, decode, items, mapping, parse_strict
from seatrial.view.content import RawAddress, clean, image_type, scrolling_table, show_text

# Lexers are regular expressions on a stranger's text, some of them quadratic in the length of a line.
_MAX_MARKED, _MAX_LINE = 2**16, 2_000
# Languages in wide use, whose lexers many people have tried; the other five hundred are left alone.
_LANGUAGES = {
    "awk", "bash", "bat", "c", "cmake", "console", "cpp", "csharp", "css", "cython", "diff", "docker",
    "fortran", "go", "html", "ini", "java", "js", "json", "jsx", "julia", "kotlin", "lua", "make", "matlab",
    "md", "nginx", "ocaml", "octave", "perl", "php", "powershell", "properties", "protobuf", "py", "pycon", "r",
    "rb", "rust", "scala", "scheme", "sql", "swift", "tcl", "tex", "toml", "ts", "verilog", "vhdl", "xml",
    "yaml", "zig",
}  # fmt: skip
_LIGHT, _DARK = "default", "github-dark"


def show_code(text: str, lexer: Lexer | None = None) -> markupsafe.Markup:
    """Source with marked words and numbered lines; without marks where it is too long, or of no known language."""
    shown = clean(text)
    if lexer is None or len(shown) > _MAX_MARKED or max(map(len, shown.split("\n"))) > _MAX_LINE:
        lexer = find_lexer_class_by_name("text")(stripnl=False)
    page = highlight(shown, lexer, HtmlFormatter(cssclass="code", linenos="inline"))
    return markupsafe.Markup(page)  # noqa: S704 - the formatter has escaped all text


def lexer_for_file(name: str) -> Lexer | None:
    """What reads the language that a file's name speaks of, None for one that is not known."""
    return _made(find_lexer_class_for_filename(name[-256:]))


def lexer_for_language(language: str) -> Lexer | None:
    """What reads a language by its name, as Markdown and notebooks have one; None for one that is not known."""
    try:
        return _made(find_lexer_class_by_name(language[:64]))
    except ClassNotFound:
        return None


def code_style() -> str:
    """The colours of marked words in light and dark, which `static/code.css` holds."""
    dark = dict(get_style_by_name(_DARK))
    rules = [
        f".code .{short} {{ {_look(style, dark[token])} }}"
        for token, style in get_style_by_name(_LIGHT)
        if (short := STANDARD_TYPES.get(token)) and token not in Token.Text and style["color"]
    ]
    return "\n".join(["/* Made by code_style() in seatrial/view/documents.py. */", *rules, ""])


def _made(found: type[Lexer] | None) -> Lexer | None:
    known = found is not None and not _LANGUAGES.isdisjoint(found.aliases)
    return found(stripnl=False) if found and known else None


def _look(light: dict[str, object], dark: dict[str, object]) -> str:
    other = f"#{dark['color']}" if dark["color"] else "inherit"
    parts = [f"color: light-dark(#{light['color']}, {other});"]
    if light["bold"]:
        parts.append("font-weight: 600;")
    if light["italic"]:
        parts.append("font-style: italic;")
    return " ".join(parts)


# Markdown: no HTML of its own, addresses in plain sight, pictures as their words.

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


def _link_open(_: Any, tokens: Sequence[MarkdownToken], index: int, *__: Any) -> str:
    address = str(tokens[index].attrs.get("href", ""))
    if _is_outside(address):
        return str(Markup('<a href="{}" rel="noopener noreferrer">').format(address))
    return '<span class="link">'


def _link_close(_: Any, tokens: Sequence[MarkdownToken], index: int, *__: Any) -> str:
    address = str(tokens[index].meta.get("href", ""))
    end = Markup("</a>") if _is_outside(address) else Markup("</span>")
    return str(Markup('{} <span class="address">({})</span>').format(end, address))


def _image(_: Any, tokens: Sequence[MarkdownToken], index: int, *__: Any) -> str:
    words, address = tokens[index].content, tokens[index].attrs.get("src", "")
    return str(Markup('<span class="address">[picture: {}, {}]</span>').format(words or "without words", address))


def _fence(_: Any, tokens: Sequence[MarkdownToken], index: int, *__: Any) -> str:
    language = tokens[index].info.strip().split(maxsplit=1)
    return str(show_code(tokens[index].content, lexer_for_language(language[0]) if language else None))


# CSV and TSV: the first rows, with those marked that do not fit the header.

_MAX_ROWS, _MAX_COLUMNS, _MAX_CELL = 200, 60, 400


def show_rows(content: BoundedContent, delimiter: str) -> tuple[Markup, str]:
    """The table, and a note on what is left out or odd; as text if it cannot be read as rows."""
    text = content.head.decode("utf-8", "replace").removeprefix("\ufeff")
    if not content.whole:
        text = text.rpartition("\n")[0]
    try:
        rows = list(islice(_rows(text, delimiter), _MAX_ROWS + 2))
    except csv.Error as error:
        return show_text(content.text()), f"shown as text: {error}"
    if not rows:
        return show_text(content.text()), "no row is in it"
    body = rows[1 : _MAX_ROWS + 1]
    odd = sum(len(row) != len(rows[0]) for row in body)
    cut = not content.whole or len(rows) > _MAX_ROWS + 1
    notes = [
        f"the first {len(body)} rows" if cut else counted(len(body), "row"),
        f"the first {_MAX_COLUMNS} of {len(rows[0]):,} columns" if len(rows[0]) > _MAX_COLUMNS else "",
        f"{odd} of them with more or fewer fields than the header's {len(rows[0])}" if odd else "",
    ]
    return scrolling_table("Rows", _cells(rows[0]), map(_cells, body)), ", ".join(filter(None, notes))


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    yield from filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))


def _cells(row: list[str]) -> list[str]:
    cut = (cell if len(cell) <= _MAX_CELL else f"{cell[:_MAX_CELL]}…" for cell in row[:_MAX_COLUMNS])
    return [clean(cell) for cell in cut]


# JSON: a tree folded by depth, with numbers as written and repeated keys kept.

_MAX_NODES, _MAX_TEXT, _MAX_LINES, _OPEN_LEVELS = 4_000, 4_000, 500, 2
_SUMMARY, _SUMMARY_MEMBERS = 80, 8
_WORDS = {None: "null", True: "true", False: "false"}
_BRANCH = Markup(
    '<details{}><summary>{}<span class="size">{}</span> <span class="gist">{}</span></summary>{}</details>'
)


class _Object(list[tuple[str, Any]]):
    """The members of an object, in order."""


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


def show_json(content: BoundedContent) -> tuple[Markup, str]:
    """A JSON file as a tree, and a note; as text with where it breaks if it is none."""
    if not content.whole:
        return show_text(content.text()), "too large to be shown as a tree"
    try:
        value = _exact(decode(content.head))
    except Unreadable as error:
        return show_text(content.text()), f"shown as text: {error}"
    return _Tree().top(value), ""


def show_json_lines(content: BoundedContent) -> tuple[Markup, str]:
    """A file of JSON values, one on each line, each a tree that is folded; lines that are broken as text."""
    tree, shown = _Tree(), []
    lines = list(_numbered(content))
    for label, line in lines[:_MAX_LINES]:
        shown.append(Markup('<li><span class="line">{}</span>{}</li>').format(label, _line(tree, line)))
    note = f"the first {_MAX_LINES} of {len(lines):,} lines" if len(lines) > _MAX_LINES else ""
    if not content.whole:
        note = f"{note or 'lines of the beginning and the end'}; {content.left_out:,} bytes between are left out"
    return Markup('<ol class="json-lines">{}</ol>').format(Markup().join(shown)), note


def _numbered(content: BoundedContent) -> Iterator[tuple[str, bytes]]:
    head, tail = content.head.split(b"\n"), content.tail.split(b"\n")[1:]
    if not content.whole:
        head = head[:-1]
    yield from ((f"{number:,}", line) for number, line in enumerate(head, 1) if line.strip())
    yield from ((f"{number - len(tail):,}", line) for number, line in enumerate(tail) if line.strip())


def _line(tree: "_Tree", line: bytes) -> Markup:
    try:
        return tree.top(_exact(decode(line)), opened=0)
    except Unreadable as error:
        return Markup('<span class="broken">{}</span>{}').format(str(error), show_text(line.decode("utf-8", "replace")))


def _exact(text: str) -> Any:
    """The value, once a strict reader has said that it is one. Raises Unreadable."""
    parse_strict(text)
    return json.loads(text, object_pairs_hook=_Object, parse_int=_Number, parse_float=_Number)


@dataclass(slots=True)
class _Tree:
    """Draws values until there are enough of them on the page."""

    left: int = field(default=_MAX_NODES)

    def top(self, value: Any, opened: int = _OPEN_LEVELS) -> Markup:
        return Markup('<div class="json">{}</div>').format(self._node(value, Markup(""), opened))

    def _node(self, value: Any, label: Markup, opened: int) -> Markup:
        self.left -= 1
        if isinstance(value, _Object):
            pairs = ((Markup('<span class="key">{}</span>: ').format(_cut(key)), each) for key, each in value)
            return self._branch(label, f"{{{len(value):,}}}", pairs, opened, _gist(value))
        if isinstance(value, list):
            pairs = ((Markup('<span class="index">{}</span> ').format(index), each) for index, each in enumerate(value))
            return self._branch(label, f"[{len(value):,}]", pairs, opened, "")
        return Markup('<div class="leaf">{}{}</div>').format(label, _leaf(value))

    def _branch(
        self, label: Markup, size: str, children: Iterable[tuple[Markup, Any]], opened: int, gist: str
    ) -> Markup:
        shown: list[Markup] = []
        for child, value in children:
            if self.left <= 0:
                shown.append(Markup('<div class="cut">… and more, which the raw file has</div>'))
                break
            shown.append(self._node(value, child, opened - 1))
        is_open = Markup(" open") if opened > 0 else Markup("")
        return _BRANCH.format(is_open, label, size, gist, Markup().join(shown))


def _gist(members: _Object) -> str:
    """The first members on one line, so that much need not be opened."""
    first = members[:_SUMMARY_MEMBERS]
    words = [key[:_SUMMARY] if isinstance(each, list) else f"{key[:_SUMMARY]}: {_word(each)}" for key, each in first]
    line = harmless(", ".join(words))
    return line if len(line) <= _SUMMARY and len(members) == len(first) else f"{line[:_SUMMARY]}…"


def _word(value: Any) -> str:
    return value[:_SUMMARY] if isinstance(value, str) else _WORDS[value]


def _leaf(value: Any) -> Markup:
    if isinstance(value, _Number):
        return Markup('<span class="number">{}</span>').format(_cut(value))
    if isinstance(value, str):
        return Markup('<span class="string">{}</span>').format(_cut(value))
    return Markup('<span class="word">{}</span>').format(_WORDS[value])


def _cut(text: str) -> str:
    shown = clean(text[:_MAX_TEXT])
    return shown if len(text) <= _MAX_TEXT else f"{shown}… ({len(text) - _MAX_TEXT:,} characters more)"


# Pictures, PDF and HTML, which a browser draws itself: nothing of them can run or fetch anything. What is served comes
# with a policy that forbids both; where it is not served, bytes are in the page or are not drawn.

_IMAGE = Markup('<img class="drawn-file" alt="{}" src="{}">')
# Documents may have scripts of their own, which a browser's viewer runs: only when somebody has asked to see it.
_UNFOLDED = Markup(
    "<details><summary>Show it here</summary>"
    '<iframe class="frame" loading="lazy" title="{}" src="{}"></iframe></details>'
)
_NOT_DRAWN = "shown as source: only a running viewer can draw it without letting it do anything"


def show_picture(name: str, content: BoundedContent, raw: RawAddress | None) -> tuple[Markup, str]:
    if raw is not None:
        return _IMAGE.format(_words(name), raw.href), ""
    found = embedded_picture(content.head, _words(name)) if content.whole else None
    return found or Markup("<p>{}</p>").format("The picture is too large to be a part of this page."), ""


def embedded_picture(content: bytes, words: str) -> Markup | None:
    """A picture made of pixels whose bytes are in the page itself; None for anything else."""
    kind = image_type(content)
    return _IMAGE.format(words, _data(kind, content)) if kind else None


def show_svg(name: str, content: BoundedContent, raw: RawAddress | None) -> tuple[Markup, str]:
    """A drawing, only ever as an image, in which browsers run and fetch nothing; its source below."""
    source = show_code(content.text(), lexer_for_language("xml"))
    if raw is not None and raw.kind == "served":
        address = raw.href
    elif content.whole:
        address = _data("image/svg+xml", content.head)
    else:
        return source, "shown as source: too large to be drawn"
    return Markup("{}<details><summary>Source</summary>{}</details>").format(
        _IMAGE.format(_words(name), address), source
    ), ""


def show_pdf(name: str, _: BoundedContent, raw: RawAddress | None) -> tuple[Markup, str]:
    """A link to the document, and a folded frame with it; in an export only the link."""
    if raw is None:
        return Markup("<p>A PDF document.</p>"), ""
    link = Markup('<p><a href="{}">Open the document</a></p>').format(raw.href)
    if raw.kind == "exported":
        return link, ""
    return link + _UNFOLDED.format(_words(name), raw.href), ""


def show_html(name: str, content: BoundedContent, raw: RawAddress | None) -> tuple[Markup, str]:
    """The page of a stranger in a frame that runs and fetches nothing, and its source."""
    source = show_code(content.text(), lexer_for_language("html"))
    if raw is None or raw.kind == "exported":
        return source, _NOT_DRAWN
    frame = Markup('<iframe class="frame" sandbox="" title="{}" src="{}"></iframe>').format(_words(name), raw.href)
    note = "drawn without scripts, and without anything that it would fetch"
    return Markup('<div class="beside">{}<div>{}</div></div>').format(frame, source), note


def _words(name: str) -> str:
    return clean(name).replace("\n", " ")


def _data(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


# Notebooks: cells with their sources and outputs, as far as these are text or a picture made of pixels.

_MAX_CELLS, _MAX_OUTPUTS, _MAX_NOTEBOOK_TEXT = 200, 20, 20_000
# To lay out Markdown and to mark code takes long, so of all cells together it is done for no more than this; what they
# put out is bounded as a whole too.
_MAX_LAID_OUT, _MAX_PUT_OUT = 2**17, 2**23
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def show_notebook(content: BoundedContent) -> tuple[Markup, str]:
    """The cells, and a note; as text if it is no notebook or was not read as a whole."""
    if not content.whole:
        return show_text(content.text()), "too large to be shown as a notebook"
    try:
        book = json.loads(content.head)
    except (ValueError, RecursionError) as error:
        return show_text(content.text()), f"shown as text: not JSON: {error}"
    if not isinstance(book, dict) or not isinstance(book.get("cells"), list):
        return show_text(content.text()), "shown as text: it has no list of `cells`, so it is no notebook"
    cells = [cell for cell in book["cells"] if isinstance(cell, dict)]
    pages = _Cells(_language(book), _MAX_LAID_OUT, _MAX_PUT_OUT)
    shown = Markup().join(pages.cell(cell) for cell in cells[:_MAX_CELLS])
    note = f"the first {_MAX_CELLS} of {len(cells):,} cells" if len(cells) > _MAX_CELLS else counted(len(cells), "cell")
    return Markup('<div class="notebook">{}</div>').format(shown), "; ".join(filter(None, (note, pages.note)))


@dataclass(slots=True)
class _Cells:
    """Shows cells, the later ones as they are written if the earlier ones took all that there is room and time for."""

    language: str
    to_lay_out: int
    to_put_out: int

    @property
    def note(self) -> str:
        """What was not done for want of room."""
        plain = "later cells are shown as they are written: there is much in this notebook"
        gone = "of what cells put out, the rest is left out"
        return "; ".join((*((plain,) if self.to_lay_out < 0 else ()), *((gone,) if self.to_put_out < 0 else ())))

    def cell(self, cell: dict[str, Any]) -> Markup:
        source = _text(cell.get("source"))
        self.to_lay_out -= len(source)
        kind = cell.get("cell_type") if self.to_lay_out >= 0 else None
        if kind == "markdown":
            shown = show_markdown(source)[0]
        else:
            shown = show_code(source, lexer_for_language(self.language)) if kind == "code" else show_text(source)
        if cell.get("cell_type") != "code":
            return Markup('<section class="cell">{}</section>').format(shown)
        template = Markup('<section class="cell">{}<div class="outputs">{}</div></section>')
        return template.format(shown, self._outputs(cell.get("outputs")))

    def _outputs(self, found: Any) -> Markup:
        outputs = [each for each in items(found) if isinstance(each, dict)]
        shown: list[Markup] = []
        for each in outputs[:_MAX_OUTPUTS]:
            made = _output(each) if self.to_put_out >= 0 else Markup("")
            self.to_put_out -= len(made)
            shown.append(made)
        if len(outputs) > _MAX_OUTPUTS:
            shown.append(Markup("<p>… and {} more outputs</p>").format(len(outputs) - _MAX_OUTPUTS))
        return Markup().join(shown)


def _language(book: dict[str, Any]) -> str:
    metadata = mapping(book.get("metadata"))
    named = mapping(metadata.get("language_info")).get("name") or mapping(metadata.get("kernelspec")).get("language")
    return named if isinstance(named, str) else "python"


def _output(output: dict[str, Any]) -> Markup:
    if output.get("output_type") == "stream":
        return show_text(_text(output.get("text")))
    if output.get("output_type") == "error":
        return Markup('<div class="broken">{}</div>').format(show_text(_traceback(output)))
    return Markup().join(_shown_data(mapping(output.get("data"))))


def _traceback(output: dict[str, Any]) -> str:
    lines = output.get("traceback")
    if isinstance(lines, list) and lines:
        return "\n".join(_text(line) for line in lines[:_MAX_OUTPUTS])
    return f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"


def _shown_data(data: dict[str, Any]) -> Iterator[Markup]:
    for kind in _PICTURES:
        if picture := _picture(_text(data.get(kind), limit=None)):
            yield picture
    if "text/plain" in data:
        yield show_text(_text(data["text/plain"]))
    for kind in sorted(str(key) for key in data if key not in (*_PICTURES, "text/plain"))[:_MAX_OUTPUTS]:
        template = Markup("<details><summary>{}, as text</summary>{}</details>")
        yield template.format(kind[:100], show_text(_text(data[kind])))


def _picture(encoded: str) -> Markup | None:
    try:
        content = base64.b64decode(encoded, validate=False)
    except (binascii.Error, ValueError):
        return None
    return embedded_picture(content, "Output of a cell")


def _text(value: Any, limit: int | None = _MAX_NOTEBOOK_TEXT) -> str:
    """Notebooks have texts as one string or as a list of lines."""
    if isinstance(value, list):
        value = "".join(each for each in value if isinstance(each, str))
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    if limit is None or len(text) <= limit:
        return text
    return f"{text[:limit]}\n… {len(text) - limit:,} characters more"


# Anything else: its first bytes as numbers and letters.

_SHOWN, _PER_LINE = 1024, 16


def show_bytes(content: bytes) -> Markup:
    """The beginning, sixteen bytes on each line."""
    shown = content[:_SHOWN]
    lines = (_hexadecimal_line(start, shown[start : start + _PER_LINE]) for start in range(0, len(shown), _PER_LINE))
    return Markup('<pre class="bytes">{}</pre>').format("\n".join(lines))


def _hexadecimal_line(start: int, some: bytes) -> str:
    letters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in some)
    return f"{start:08x}  {some.hex(' '):<{3 * _PER_LINE}} {letters}"
