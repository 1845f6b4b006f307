"""A heat map as characters: one for each task and arm, which reads without colours too. Values in, lines out.

Few tasks have a row each, with their names and numbers. Many have one character each, in rows that fold where the
screen ends.
"""

from collections.abc import Iterator, Sequence

from seatrial.analysis.groups import HeatCell, HeatMap
from seatrial.model.outcome import format_mean
from seatrial.report.text import counted, harmless, shown_width

FEW_TASKS = 60
"""Up to so many tasks have a row each."""

LEGEND = "█ 1  ▓ 2/3 or more  ▒ 1/3 or more  ░ above 0  . 0  ! not judged  ? not run"

_GAP = "  "
_NAME = 34
_NUMBER = len("█ 0.50")
_COLOURS = {"█": "green", "▓": "yellow", "▒": "yellow", "░": "yellow", ".": "red", "!": "magenta"}

Span = tuple[str, str | None]
"""Some text and the colour it has."""


def heat_lines(heat: HeatMap, width: int | None, *, everything: bool = False) -> Iterator[list[Span]]:
    """The lines of a heat map on a screen of so many columns; None is a pipe, in which nothing folds."""
    if not heat.tasks or not heat.arms:
        yield [("there is no task to draw", None)]
        return
    yield from _tall(heat, width) if everything or len(heat.tasks) <= FEW_TASKS else _dense(heat, width)
    yield [(LEGEND, None)]


def mark(cell: HeatCell) -> str:
    """The character of a cell."""
    if cell.mean is None:
        return "!" if cell.finished else "?" if cell.planned else " "
    if cell.mean >= 1.0:
        return "█"
    return "." if cell.mean <= 0.0 else "░▒▓"[min(2, int(cell.mean * 3))]


def _tall(heat: HeatMap, width: int | None) -> Iterator[list[Span]]:
    """A row for each task; where the arms do not fit beside each other, one block of rows after the other."""
    longest = max(len("task"), *(shown_width(harmless(task)) for task in heat.tasks))
    name = longest if width is None else min(longest, _NAME)
    labels = [harmless(arm.label) for arm in heat.arms]
    sizes = [max(_NUMBER, shown_width(label)) for label in labels]
    if width is not None and name + sum(len(_GAP) + size for size in sizes) > width:
        yield from _key(labels, width)
        labels = [str(number) for number in range(1, len(labels) + 1)]
        sizes = [_NUMBER] * len(labels)
    for block in _blocks(sizes, width, name):
        heads = [_padded("task", name), *(_padded(labels[at], sizes[at]) for at in block)]
        yield [(_GAP.join(heads).rstrip(), None)]
        for task, row in zip(heat.tasks, heat.cells, strict=True):
            line: list[Span] = [(_padded(_cut(harmless(task), name), name), None)]
            for at in block:
                sign, mean = mark(row[at]), row[at].mean
                number = "" if mean is None else format_mean(mean, ".2f").rjust(_NUMBER - 1)
                line += [(_GAP, None), (sign, _COLOURS.get(sign)), (number.ljust(sizes[at] - 1), None)]
            yield line


def _key(labels: Sequence[str], width: int) -> Iterator[list[Span]]:
    for number, label in enumerate(labels, start=1):
        yield [(_cut(f"{number} = {label}", width), None)]


def _blocks(sizes: Sequence[int], width: int | None, name: int) -> Iterator[list[int]]:
    """Which columns stand beside each other: as many as there is room for, and at least one."""
    block: list[int] = []
    used = name
    for at, size in enumerate(sizes):
        if block and width is not None and used + len(_GAP) + size > width:
            yield block
            block, used = [], name
        block.append(at)
        used += len(_GAP) + size
    if block:
        yield block


def _dense(heat: HeatMap, width: int | None) -> Iterator[list[Span]]:
    """A character for each task; each row of them is headed by the first and the last task in it."""
    labels = [harmless(arm.label) for arm in heat.arms]
    longest = max(map(shown_width, labels))
    name = longest if width is None else min(longest, _NAME)
    room = len(heat.tasks) if width is None else max(20, width - name - len(_GAP))
    for start in range(0, len(heat.tasks), room):
        part = range(start, min(start + room, len(heat.tasks)))
        ends = " to ".join(_cut(harmless(heat.tasks[at]), _NAME) for at in (part[0], part[-1]))
        numbers = f"{part[0] + 1:,} to {part[-1] + 1:,} of {counted(len(heat.tasks), 'task')}"
        yield [(f"{numbers}, easiest first:", None)]
        yield [(f"{_GAP}{ends}", None)]
        for column, label in enumerate(labels):
            signs = "".join(mark(heat.cells[at][column]) for at in part)
            yield [(_padded(_cut(label, name), name) + _GAP, None), *_runs(signs)]


def _runs(signs: str) -> Iterator[Span]:
    """Neighbours of one colour together."""
    start = 0
    for at in range(1, len(signs) + 1):
        if at == len(signs) or _COLOURS.get(signs[at]) != _COLOURS.get(signs[start]):
            yield signs[start:at], _COLOURS.get(signs[start])
            start = at


def _cut(text: str, width: int) -> str:
    """A name in at most so many columns; of a longer one both ends, which tell it from its neighbours."""
    if shown_width(text) <= width:
        return text
    head, tail = text[: len(text) // 2], text[len(text) // 2 :]
    while shown_width(head) + shown_width(tail) >= width:
        if shown_width(head) > shown_width(tail):
            head = head[:-1]
        else:
            tail = tail[1:]
    return f"{head}…{tail}"


def _padded(text: str, width: int) -> str:
    return text + " " * (width - shown_width(text))
