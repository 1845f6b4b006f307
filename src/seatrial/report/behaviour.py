"""What agents did as people read it: a line for a trial, and tables by agent, of transitions, and of what to do."""

from collections.abc import Sequence

from seatrial.analysis.behaviour import BehaviourFigures, ClassifiedTrial, WorkItem
from seatrial.analysis.tables import Row, Table
from seatrial.model.outcome import format_mean, format_range
from seatrial.report.text import counted, harmless
from seatrial.stats.estimates import Estimate
from seatrial.stats.sequences import Likeness
from seatrial.trajectories.behaviour import BEHAVIOURS, LOW

Fact = tuple[str, str]


def behaviour_words(found: ClassifiedTrial) -> str:
    """A trial on one line: `14 turns: 6 execution, 4 verification`, with what of it is uncertain."""
    counts = [f"{count} {name}" for name, count in found.counts.most_common()]
    uncertain = [f"{found.low} with confidence below {LOW}"] if found.low else []
    uncertain += [f"{found.unscored} unscored"] if found.unscored else []
    line = f"{counted(len(found.turns), 'turn')}: {', '.join(counts) or 'none classified'}"
    return f"{line} ({', '.join(uncertain)})" if uncertain else line


def behaviour_facts(found: Sequence[ClassifiedTrial]) -> list[Fact]:
    """A line for each source, and one for the first failing step."""
    facts = [("turns", f"{behaviour_words(each)}; {each.source}") for each in found if each.turns]
    failed = next((step for each in found if (step := each.first_failure)), None)
    if failed and failed.turn:
        facts.append(("first failure", f"call {failed.turn.call} of {failed.turn.thread}: {failed.votes[0].reason}"))
    return [(label, harmless(value)) for label, value in facts]


def behaviour_table(figures: Sequence[BehaviourFigures]) -> Table:
    """A row for each agent and source: the share of each behaviour with its interval."""
    rows = [
        (
            harmless(each.arm),
            harmless(each.source),
            f"{each.trials:,}",
            f"{each.turns:,}",
            f"{each.low:,}",
            *(_share(each.shares.get(name)) for name in BEHAVIOURS),
            _failing(each),
        )
        for each in figures
    ]
    head = ("agent", "source", "trials", "turns", f"below {LOW}", *BEHAVIOURS, "first failure at")
    return Table(head, rows, names=2)


def _share(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    low_high = format_range(estimate.low, estimate.high, ".0%").removesuffix("%")
    return f"{format_mean(estimate.value, '.0%').replace('%', ' %')} ({low_high})"


def _failing(each: BehaviourFigures) -> str:
    return "-" if each.failing_at is None else f"{_share(each.failing_at)} in {counted(each.failing, 'trial')}"


def transitions_table(each: BehaviourFigures) -> Table:
    """Which share of what follows a behaviour is each behaviour."""
    rows = [
        (name, *("-" if row is None else format_mean(value, ".2f") for value in row or [0.0] * len(BEHAVIOURS)))
        for name, row in zip(BEHAVIOURS, each.matrix, strict=True)
    ]
    return Table(("after", *BEHAVIOURS), rows)


LIKENESS_COLUMNS = (
    "trial",
    "outcome",
    "source",
    "turns",
    f"below {LOW}",
    "others",
    "cosine",
    "cosine p",
    "distance",
    "distance p",
)


def likeness_row(found: ClassifiedTrial, alike: Likeness | None) -> Row:
    """A trial, and how alike it and the other passed trials of its task are."""
    cells = (harmless(found.trial.trial_id), found.trial.outcome, harmless(found.source))
    counts = (f"{len(found.turns):,}", f"{found.low:,}")
    if alike is None:
        return (*cells, *counts, "0", "-", "-", "-", "-")
    cosine = "-" if alike.cosine is None else f"{alike.cosine:.2f}"
    cosine_p = "-" if alike.cosine_p is None else f"{alike.cosine_p:.3f}"
    distance = f"{alike.distance:.1f} ({alike.normalised:.2f})"
    return (*cells, *counts, f"{alike.others:,}", cosine, cosine_p, distance, f"{alike.distance_p:.3f}")


def worklist_table(items: Sequence[WorkItem], most: int) -> Table:
    """What to do about failures."""
    rows = [
        (each.action, each.category, each.source, ", ".join(each.arms), each.example, f"{each.trials:,}")
        for each in items[:most]
    ]
    return Table(("what to do", "category", "source", "agents", "such as", "trials"), rows, names=5)
