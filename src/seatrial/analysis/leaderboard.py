"""A leaderboard: arms with the ranks they may have, which of them cannot be told apart, and which cannot be compared.

Only arms whose rewards mean the same are ranked together; the others are listed without a rank, with what differs.
Where so few tasks could tell no two of them apart, none has a rank.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from seatrial.analysis.arms import Arm
from seatrial.analysis.comparability import comparability, difference_line, printable
from seatrial.analysis.figures import Figures, figures_of
from seatrial.stats.paired import Rank, Ranking, rank_agents

_NAMED = 3


@dataclass(frozen=True, slots=True)
class LeaderboardRow:
    """An arm. `rank` is None where it was not judged, where its rewards mean something else than the others', and where
    no two could be told apart.

    `tie` is a letter that all arms have which cannot be told apart from the first one with it. `notes` are the numbers,
    from 1 on, of what a reader must know of it.
    """

    arm: Arm
    figures: Figures
    rank: Rank | None
    tie: str | None
    notes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """Rows in the order of their means, then those that cannot be compared with them. `reference` is the arm that
    others were held against to see whether they can be compared.
    """

    rows: tuple[LeaderboardRow, ...]
    notes: tuple[str, ...]
    reference: Arm | None
    ranking: Ranking
    """The tests of every two arms with a task in common, by their labels."""
    seed: int

    @property
    def compared(self) -> int:
        """How many pairs of arms were tested."""
        return len(self.ranking.tests)

    @property
    def level(self) -> float:
        return self.ranking.level


def rank_arms(
    arms: Sequence[Arm], *, clusters: Mapping[str, Hashable] | None = None, level: float = 0.95, seed: int = 0
) -> Leaderboard:
    """Rank arms by their means over tasks. `clusters` says which tasks belong together."""
    alike = max(_classes(arms), key=len, default=[])
    found = rank_agents({arm.label: arm.selected.task_means for arm in alike}, clusters, level, seed)
    places = {rank.agent: place for place, rank in enumerate(found.ranks)}
    ranks = {} if found.too_few else {rank.agent: rank for rank in found.ranks}
    order = sorted(arms, key=lambda arm: (places.get(arm.label, len(places)), -(arm.figures.mean or 0.0), arm.label))
    reference = order[0] if found.ranks else None
    notes: list[str] = []
    rows = [
        LeaderboardRow(
            arm=arm,
            figures=figures_of(arm.selected, clusters=clusters, level=level),
            rank=ranks.get(arm.label),
            tie=_letters(ranks[arm.label].group) if arm.label in ranks else None,
            notes=tuple(_number(note, notes) for note in _notes(arm, reference, alike)),
        )
        for arm in order
    ]
    return Leaderboard(tuple(rows), tuple(notes), reference, found, seed)


def _classes(arms: Sequence[Arm]) -> list[list[Arm]]:
    """Arms whose rewards mean the same, for every two: with the first alone one may have no task in common."""
    classes: list[list[Arm]] = []
    for arm in arms:
        for members in classes:
            if all(comparability(member, arm).comparable for member in members):
                members.append(arm)
                break
        else:
            classes.append([arm])
    return classes


def _letters(group: int) -> str:
    """A, B, … Z, AA, AB, …"""
    text = ""
    while group:
        group, at = divmod(group - 1, len(ascii_uppercase))
        text = ascii_uppercase[at] + text
    return text


def _notes(arm: Arm, reference: Arm | None, alike: Sequence[Arm]) -> Iterator[str]:
    """What a reader must know of an arm beside the one that the others are held against."""
    if reference is None:
        return
    if arm not in alike:
        other = next((each for each in (reference, *alike) if not comparability(each, arm).comparable), reference)
        name, differences = printable(other.label), comparability(other, arm).of("meaning")
        named = "; ".join(map(difference_line, differences[:_NAMED]))
        more = f"; and {len(differences) - _NAMED} more" if len(differences) > _NAMED else ""
        yield f"not ranked, since its rewards do not mean what those of {name} mean ({name} / here): {named}{more}"
    name = printable(reference.label)
    asked, others = arm.planned_tasks.keys(), reference.planned_tasks.keys()
    if asked != others:
        tasks = "task" if len(asked) == 1 else "tasks"
        yield f"has {len(asked):,} {tasks}, {len(asked & others):,} of them among the {len(others):,} of {name}"
    if len(arm.rewards) < len(asked):
        yield f"judged on {len(arm.rewards):,} of its {len(asked):,} tasks"


def _number(note: str, notes: list[str]) -> int:
    """The number of a note, which is added where it is new."""
    if note not in notes:
        notes.append(note)
    return notes.index(note) + 1
