"""Tables as notebooks show them: plain HTML that looks right in light and dark, with every stranger's word escaped."""

import html
from collections.abc import Mapping, Sequence

from seatrial.analysis.tally import Tally
from seatrial.stats.estimates import Estimate
from seatrial.stats.paired import Paired

_LONGEST = 200
TALLY_COLUMNS = ("agent", "mean reward", "interval", "pass rate", "tasks", "scored", "planned", "not scored", "cost")
PAIR_COLUMNS = ("A", "B", "B - A", "interval", "p", "won", "lost", "tasks", "could have seen", "verdict")


def html_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """A table with a title above it and notes below; the first column is words, the others are to the right."""
    head = "".join(f"<th{_aligned(place)}>{_cell(name)}</th>" for place, name in enumerate(columns))
    body = "".join(
        f"<tr>{''.join(f'<td{_aligned(place)}>{_cell(text)}</td>' for place, text in enumerate(row))}</tr>"
        for row in rows
    )
    below = "".join(f"<p>{_cell(note)}</p>" for note in notes)
    above = f"<p><b>{_cell(title)}</b></p>"
    return f"<div>{above}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}</div>"


def tally_rows(tallies: Mapping[str, Tally]) -> list[tuple[str, ...]]:
    """A row of TALLY_COLUMNS for each name."""
    return [
        (
            name,
            number(tally.mean),
            interval(tally.estimate),
            number(tally.pass_rate),
            f"{tally.estimate.groups if tally.estimate else 0:,}",
            f"{tally.scored:,}",
            f"{tally.planned:,}",
            f"{tally.finished - tally.scored:,}",
            money(tally.usage.cost_usd if tally.usage else None),
        )
        for name, tally in tallies.items()
    ]


def pair_row(labels: tuple[str, str], paired: Paired | None, p_value: float | None, verdict: str) -> tuple[str, ...]:
    """A row of PAIR_COLUMNS; differences are in points of 100."""
    if paired is None:
        return (*labels, "-", "-", "-", "0", "0", "0", "-", verdict)
    return (
        *labels,
        f"{100 * paired.difference:+.1f}",
        f"{100 * paired.low:+.1f} to {100 * paired.high:+.1f}",
        "-" if p_value is None else f"{p_value:.2g}",
        f"{paired.wins:,}",
        f"{paired.losses:,}",
        f"{paired.tasks:,}",
        f"{100 * paired.detectable:.1f}" if paired.detectable <= 1.0 else "-",
        verdict,
    )


def number(value: float | None) -> str:
    """A share or a mean, a dash for none."""
    return "-" if value is None else f"{value:.3f}"


def interval(estimate: Estimate | None) -> str:
    """From where to where a mean may be, a dash for none."""
    return "-" if estimate is None else f"{estimate.low:.3f} to {estimate.high:.3f}"


def money(usd: float | None) -> str:
    """An amount of dollars, a dash for one that is not known."""
    return "-" if usd is None else f"${usd:,.2f}" if usd >= 1 else f"${usd:.4f}"


def _aligned(place: int) -> str:
    return f' style="text-align:{"right" if place else "left"}"'


def _cell(text: str) -> str:
    shown = "".join(character if character.isprintable() else " " for character in text[: _LONGEST + 1])
    return html.escape(shown if len(text) <= _LONGEST else f"{shown[:_LONGEST]}…")
