"""The picture in the README: docs/demo.svg, made from what the demo shows on a terminal, live display included.

A few moments of the run follow each other, then the end stays. People who want no motion see only the end.
"""

import io
import re
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from examples.terminal import Screen, record

PICTURE = Path(__file__).parent.parent / "docs" / "demo.svg"
_COLUMNS, _ROWS = 80, 40
_MOMENTS = 5
_MOMENT_SEC, _END_SEC = 0.6, 9.0
_PORT = re.compile(r"127\.0\.0\.1:\d+")
_ID = "demo"
_PARTS = "{styles}\0{backgrounds}{matrix}"
_WHOLE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">
<style>
.demo-matrix {{ font: {char_height}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre }}
.demo-title {{ font: bold 18px sans-serif }}
FRAME_STYLES
</style>
<defs><clipPath id="demo-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" class="demo-matrix">
FRAMES
</g>
</svg>
"""


def main() -> None:
    """Run the demo and write the picture."""
    screens = watch()
    PICTURE.write_text(draw(screens), encoding="utf-8")
    click.echo(f"{PICTURE}: {len(screens)} moments, {PICTURE.stat().st_size / 1024:.0f} KiB")


def watch() -> list[list[str]]:
    """The lines on the screen at a few moments of the demo, the end last."""
    screen = Screen()
    seen = [["$ make demo"]]
    for output in record([sys.executable, "-m", "examples.demo"], _COLUMNS, _ROWS):
        screen.write(_PORT.sub("127.0.0.1:8000", output))
        lines = ["$ make demo", *screen.lines]
        if lines != seen[-1] and any("━" in line for line in lines):
            seen.append(lines)
    end = ["$ make demo", *screen.lines]
    step = max(1, len(seen) // _MOMENTS)
    return [*seen[::step][: _MOMENTS + 1], end]


def draw(screens: list[list[str]]) -> str:
    """The screens as one animated picture."""
    rows = max(_rows(lines) for lines in screens)
    styles, frames = [], []
    for number, lines in enumerate(screens):
        style, text = _export(lines, rows, _PARTS).split("\0")
        own = f"{_ID}-{number}-r"
        styles.append(style.replace(f"{_ID}-r", own))
        frames.append(f'<g class="frame frame-{number}">{text.replace(f"{_ID}-r", own)}</g>')
    whole = _export(screens[-1], rows, _WHOLE)
    moving = "\n".join([*styles, *_animation(len(screens))])
    return whole.replace("FRAME_STYLES", moving).replace("FRAMES", "\n".join(frames))


def _animation(count: int) -> list[str]:
    """Each frame has its turn; the last one stays longest, and is all there is for people who want no motion."""
    last = count - 1
    total = last * _MOMENT_SEC + _END_SEC
    rules = [f".frame {{ visibility: hidden; animation: {total:.1f}s step-end infinite }}"]
    for number in range(count):
        begin, end = number * _MOMENT_SEC / total, (number + 1) * _MOMENT_SEC / total
        until = "" if number == last else f" {end:.2%} {{ visibility: hidden }}"
        before = "" if number == 0 else "0% { visibility: hidden } "
        rules.append(f"@keyframes turn-{number} {{ {before}{begin:.2%} {{ visibility: visible }}{until} }}")
        rules.append(f".frame-{number} {{ animation-name: turn-{number} }}")
    still = f".frame {{ animation: none }} .frame-{last} {{ visibility: visible }}"
    return [*rules, f"@media (prefers-reduced-motion: reduce) {{ {still} }}"]


def _rows(lines: list[str]) -> int:
    return _printed(lines, 0).export_text(clear=False).count("\n")


def _export(lines: list[str], rows: int, code_format: str) -> str:
    console = _printed(lines, rows)
    return console.export_svg(title="make demo", code_format=code_format, unique_id=_ID)


def _printed(lines: list[str], rows: int) -> Console:
    """A console on which the lines are shown, with empty ones below up to so many rows."""
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    for line in lines:
        console.print(Text.from_ansi(line), soft_wrap=False)
    for _ in range(rows - console.export_text(clear=False).count("\n")):
        console.print()
    return console


if __name__ == "__main__":
    main()
