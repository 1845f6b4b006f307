"""The first bytes of a file as numbers and letters, for what no page can show otherwise."""

from markupsafe import Markup

_SHOWN, _PER_LINE = 1024, 16


def show_bytes(content: bytes) -> Markup:
    """The beginning, sixteen bytes on each line."""
    shown = content[:_SHOWN]
    lines = (_line(start, shown[start : start + _PER_LINE]) for start in range(0, len(shown), _PER_LINE))
    return Markup('<pre class="bytes">{}</pre>').format("\n".join(lines))


def _line(start: int, some: bytes) -> str:
    letters = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in some)
    return f"{start:08x}  {some.hex(' '):<{3 * _PER_LINE}} {letters}"
