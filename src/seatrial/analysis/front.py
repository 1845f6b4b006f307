"""The Pareto front: which of several are not beaten in both what they cost and what they are worth."""

from collections.abc import Sequence


def on_front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """For each pair of cost and worth, whether no other is at least as good in both and better in one."""
    return [not any(_beats(other, point) for other in points) for point in points]


def _beats(other: tuple[float, float], point: tuple[float, float]) -> bool:
    return other[0] <= point[0] and other[1] >= point[1] and other != point
