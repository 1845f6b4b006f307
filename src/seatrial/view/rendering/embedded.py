"""What a browser draws itself: pictures, PDF and HTML, each where nothing of it can run or fetch anything.

What is served comes with a policy that forbids both. Where it is not, bytes are in the page or are not drawn.
"""

import base64

from markupsafe import Markup

from seatrial.view.rendering.addresses import RawAddress
from seatrial.view.rendering.bounded import BoundedContent
from seatrial.view.rendering.code import lexer_for_language, show_code
from seatrial.view.rendering.kinds import image_type
from seatrial.view.rendering.text import clean

_IMAGE = Markup('<img class="drawn-file" alt="{}" src="{}">')
# Documents may have scripts of their own, which a browser's viewer runs: only when somebody has asked to see it.
_UNFOLDED = Markup(
    "<details><summary>Show it here</summary>"
    '<iframe class="frame" loading="lazy" title="{}" src="{}"></iframe></details>'
)
_NOT_DRAWN = "shown as source: only a running viewer can draw it without letting it do anything"


def show_picture(name: str, content: BoundedContent, raw: RawAddress | None) -> tuple[Markup, str]:
    """A picture made of pixels."""
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
