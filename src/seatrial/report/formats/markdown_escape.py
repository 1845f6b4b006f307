"""Strangers' text in Markdown that is shown on a code host: no markup, no table cell that ends early, nobody notified.

Characters are written as references, which can begin no markup. A code host looks for people and issues in the text
that it shows, whatever it was written as; it finds none in code, nor where an invisible character is in between.
"""

import re

from seatrial.report.text import harmless

_LONGEST_NAME = 100
_MARKUP = re.compile(r"[^\w .,:;%/+=()'-]|_|(?<=www)\.|:(?=/)|(?<=mailto):|(?<=xmpp):", re.IGNORECASE)
_CALLS = re.compile(r"[@#]|(?i:gh)(?=-\d)")
_WORD_JOINER = "\u2060"


def _escaped(text: str) -> str:
    return _MARKUP.sub(lambda found: f"&#{ord(found[0])};", text)


def md_name(text: str) -> str:
    """A name as code, on one line and of a bounded length."""
    shown = harmless(text)
    shown = shown if len(shown) <= _LONGEST_NAME else f"{shown[:_LONGEST_NAME]}…"
    return f"<code>{_escaped(shown) or ' '}</code>"


def md_prose(text: str) -> str:
    """A sentence in which strangers' names may be."""
    return _escaped(_CALLS.sub(lambda found: found[0] + _WORD_JOINER, harmless(text)))


def md_heading(text: str) -> str:
    """A stranger's words as a title."""
    return md_prose(text[:_LONGEST_NAME]).strip() or "Report"
