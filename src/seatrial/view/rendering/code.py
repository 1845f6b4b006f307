"""Source code with its words marked by Pygments: classes alone, whose colours `static/code.css` has."""

import markupsafe
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_by_name, find_lexer_class_for_filename
from pygments.styles import get_style_by_name
from pygments.token import STANDARD_TYPES, Token
from pygments.util import ClassNotFound

from seatrial.view.rendering.text import clean

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
    return "\n".join(["/* Made by code_style() in seatrial/view/rendering/code.py. */", *rules, ""])


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
