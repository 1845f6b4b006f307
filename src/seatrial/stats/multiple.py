"""Several tests at once: among many, some are significant by chance, unless that is corrected for."""

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values after Holm, in the same order: what is below a level then is so in spite of all the others."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted, least = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = least
    return adjusted
