"""Notebooks: cells with their sources and what these put out, as far as it is text or a picture made of pixels."""

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from seatrial.report.text import counted
from seatrial.view.rendering.bounded import BoundedContent
from seatrial.view.rendering.code import lexer_for_language, show_code
from seatrial.view.rendering.embedded import embedded_picture
from seatrial.view.rendering.markdown import show_markdown
from seatrial.view.rendering.text import show_text

_MAX_CELLS, _MAX_OUTPUTS, _MAX_TEXT = 200, 20, 20_000
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
        outputs = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
        shown: list[Markup] = []
        for each in outputs[:_MAX_OUTPUTS]:
            made = _output(each) if self.to_put_out >= 0 else Markup("")
            self.to_put_out -= len(made)
            shown.append(made)
        if len(outputs) > _MAX_OUTPUTS:
            shown.append(Markup("<p>… and {} more outputs</p>").format(len(outputs) - _MAX_OUTPUTS))
        return Markup().join(shown)


def _language(book: dict[str, Any]) -> str:
    metadata = _mapping(book.get("metadata"))
    named = _mapping(metadata.get("language_info")).get("name") or _mapping(metadata.get("kernelspec")).get("language")
    return named if isinstance(named, str) else "python"


def _output(output: dict[str, Any]) -> Markup:
    if output.get("output_type") == "stream":
        return show_text(_text(output.get("text")))
    if output.get("output_type") == "error":
        return Markup('<div class="broken">{}</div>').format(show_text(_traceback(output)))
    return Markup().join(_shown_data(_mapping(output.get("data"))))


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


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any, limit: int | None = _MAX_TEXT) -> str:
    """Notebooks have texts as one string or as a list of lines."""
    if isinstance(value, list):
        value = "".join(each for each in value if isinstance(each, str))
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    if limit is None or len(text) <= limit:
        return text
    return f"{text[:limit]}\n… {len(text) - limit:,} characters more"
