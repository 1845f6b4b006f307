"""A table that scrolls by itself, so that a wide one does not make the page wide."""

from collections.abc import Iterable, Sequence

from markupsafe import Markup

_FRAME = Markup(
    '<div class="scroll" tabindex="0" role="region" aria-label="{}"><table class="rows">'
    "<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>"
)
_HEADER, _CELL = Markup('<th scope="col">{}</th>'), Markup("<td>{}</td>")


def scrolling_table(label: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Cells of text under a header. A row with more or fewer cells than that is marked."""
    heads = Markup().join(_HEADER.format(each) for each in header)
    return _FRAME.format(label, heads, Markup().join(_row(row, len(header)) for row in rows))


def _row(row: Sequence[str], expected: int) -> Markup:
    cells = Markup().join(_CELL.format(each) for each in row)
    return (Markup("<tr>{}</tr>") if len(row) == expected else Markup('<tr class="odd">{}</tr>')).format(cells)
