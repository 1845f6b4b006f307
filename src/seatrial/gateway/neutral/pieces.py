"""How the text of a whole answer is cut when it is sent as a stream."""

from collections.abc import Iterator

_PIECE = 16
_MOST_PIECES = 64


def pieces(text: str) -> Iterator[str]:
    """The text in several parts, at most 64 of them; nothing for no text."""
    size = max(_PIECE, -(-len(text) // _MOST_PIECES))
    return (text[start : start + size] for start in range(0, len(text), size))
