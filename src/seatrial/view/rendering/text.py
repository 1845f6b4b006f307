"""Plain text for a page: without colours of terminals and what steers them, escaped."""

import re

import markupsafe

from seatrial.report.text import harmless_lines

# Colours and cursors, titles and links up to their end. All other text stays: nobody is to hide any from a reader.
_STEERING = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\](?:0|1|2|8;[^;\x07\x1b]*);[^\x07\x1b]*(?:\x07|\x1b\\)")


def clean(text: str) -> str:
    """Text without the colours of terminals and what steers them; what a line rewrote is still there."""
    return "\n".join(harmless_lines(_STEERING.sub("", text)))


def show_text(text: str) -> markupsafe.Markup:
    """Text of several lines as it is."""
    return markupsafe.Markup('<pre class="text">{}</pre>').format(clean(text))
