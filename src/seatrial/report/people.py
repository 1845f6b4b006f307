"""What people say of trials, in words: how far they agree, what they make of the verifier, what is still missing.

Values in, tables and lines out, which commands print and reports lay out.
"""

from collections.abc import Mapping, Sequence

from seatrial.analysis.tables import Row, Table
from seatrial.model.outcome import format_mean, format_range, format_reward
from seatrial.report.text import counted, format_duration, harmless
from seatrial.review.agreement import AgreementReport, Readiness, ReviewerFigures, ReviewFigures, TaskReviews
from seatrial.review.cases import Dissent, VerifierFigures
from seatrial.review.verdicts import ReviewState
from seatrial.stats.agreement import AgreementEstimate, Metric, PairAgreement
from seatrial.stats.corrected import CorrectedRate, WeightedShare

MEASURES: dict[Metric, str] = {
    "percent": "the same verdict",
    "cohen_kappa": "Cohen's κ",
    "fleiss_kappa": "Fleiss' κ",
    "krippendorff_alpha": "Krippendorff's α",  # noqa: RUF001 - the measure's own letter
    "gwet_ac1": "Gwet's AC1",
}
_GATES = {
    "annotators": "reviewers",
    "agreement": "agreement",
    "interval_width": "width of its interval",
    "calibration_trials": "trials to calibrate by",
    "calibration_agreement": "right about those",
}
_REVIEW_STATES: dict[ReviewState, str] = {
    "agreed": "agreed on",
    "single": "judged by one reviewer",
    "needs": "to be settled",
    "adjudicated": "settled",
    "contested": "settled and contested",
    "open": "left open",
}
_STATES = {"open": "yes", "closed": "no", "unknown": "cannot tell"}
_READY = {
    "open": "Ready: what people say may be built on.",
    "closed": "Not ready: what people say should not be built on yet.",
    "unknown": "Nobody can tell yet whether what people say may be built on.",
}


def people_headline(figures: ReviewFigures) -> str:
    """The one sentence about how far people agree."""
    if not figures.reviewed:
        return f"Nobody has reviewed any of {counted(figures.trials, 'trial')}."
    found, metric = figures.agreement.first, figures.agreement.headline
    people = f"{counted(figures.annotators, 'reviewer')} looked at {figures.reviewed:,} of"
    reviewed = f"{people} {counted(figures.trials, 'trial')}"
    if found is None or metric is None:
        return f"{reviewed}. How far they agree cannot be said: {figures.agreement.reason}."
    sure = f" ({interval_text(found)})" if found.low is not None else ""
    value = f"{format_mean(found.value)}{sure}"
    return f"{reviewed}. {MEASURES[metric]} is {value}; this measure, because {figures.agreement.reason}."


def review_lines(figures: ReviewFigures) -> list[str]:
    """How trials stand, how often reviewers deferred, and what they said went wrong."""
    lines = []
    if figures.states:
        states = [
            f"{figures.states[state]:,} {word}" for state, word in _REVIEW_STATES.items() if state in figures.states
        ]
        lines.append(f"trials: {', '.join(states)}")
    if figures.deferred:
        lines.append(f"deferred: {format_mean(figures.deferred, '.1%')} of first verdicts")
    for name, part in (("blind", figures.blind), ("not blind", figures.sighted)):
        if part and part.first and part.headline:
            text = interval_text(part.first)
            value = f"{MEASURES[part.headline]} {format_mean(part.first.value)}"
            lines.append(f"{name}: {value} ({text}), {part.first.items:,} trials")
    if figures.categories:
        some = [f"{harmless(name)} {count:,}" for name, count in [*figures.categories.items()][:10]]
        lines.append(f"what went wrong: {', '.join(some)}")
    return lines


def measures_table(figures: ReviewFigures) -> Table:
    """Every measure that applies, the one to look at first in front."""
    measures = figures.agreement.measures
    ordered = sorted(measures, key=lambda name: (name != figures.agreement.headline, [*MEASURES].index(name)))
    rows = [(MEASURES[name], *_measure(measures[name])) for name in ordered] if figures.agreement.shared > 1 else []
    return Table(("agreement", "value", "interval", "trials"), rows)


def _measure(found: AgreementEstimate | None) -> Row:
    if found is None:
        return "none", "-", "-"
    return format_mean(found.value), interval_text(found), f"{found.items:,}"


def interval_text(found: AgreementEstimate) -> str:
    """The interval of a measure."""
    if found.low is None or found.high is None:
        return "too few for one"
    return format_range(found.low, found.high)


def confusion_table(verifier: VerifierFigures, tested: str = "verifier") -> Table:
    """The table of the verifier, or who else is tested, against people; none where no trial has both verdicts."""
    found = verifier.confusion
    rows = [
        (f"{tested} pass", f"{found.both_pass:,}", f"{found.only_verifier:,}"),
        (f"{tested} fail", f"{found.only_people:,}", f"{found.both_fail:,}"),
    ]
    return Table(("", "people pass", "people fail"), rows if found.trials else [])


def shares_table(verifier: VerifierFigures, tested: str = "verifier") -> Table:
    """How often the verifier, or who else is tested, is right; trials that were drawn count by what they stand for."""
    found = verifier.confusion
    named: tuple[tuple[str, WeightedShare | None, str], ...] = (
        ("precision", found.precision, "of its passes, people pass"),
        ("recall", found.recall, "of what people pass, it passes"),
        ("specificity", found.specificity, "of what people fail, it fails"),
    )
    rows = [
        (_weighted(name, verifier), format_mean(share.value, ".1%"), percents(share), f"{share.trials:,}", meaning)
        for name, share, meaning in named
        if share
    ]
    return Table((tested, "share", "interval", "trials", "what it means"), rows)


def rates_table(verifier: VerifierFigures, tested: str = "verifier") -> Table:
    """The pass rate of the verifier, or who else is tested, and what people would have found if that is known."""
    columns = ("trials that pass", "share", "interval", "from")
    if verifier.pass_rate is None or not verifier.confusion.trials:
        return Table(columns, [])
    rows = [(f"by the {tested}", format_mean(verifier.pass_rate, ".1%"), "-", counted(verifier.judged, "trial"))]
    corrected = _weighted("corrected", verifier)
    methods: tuple[tuple[str, CorrectedRate | None, str], ...] = (
        (corrected, verifier.powered, "prediction-powered"),
        (corrected, verifier.gladen, "Rogan and Gladen"),
    )
    rows += [(name, format_mean(found.value, ".1%"), percents(found), how) for name, found, how in methods if found]
    return Table(columns, rows)


def agents_table(agents: Mapping[str, VerifierFigures], overall: VerifierFigures, tested: str = "verifier") -> Table:
    """What people would have found of each agent, the prediction-powered way; none for one that nobody reviewed."""
    rows = [
        (
            harmless(agent),
            format_mean(each.pass_rate, ".1%"),
            format_mean(each.powered.value, ".1%"),
            percents(each.powered),
            f"{each.powered.reviewed:,} of {each.judged:,}",
        )
        for agent, each in agents.items()
        if each.powered and each.pass_rate is not None
    ]
    corrected = _weighted("corrected", overall)
    return Table(("trials that pass", f"by the {tested}", corrected, "interval", "reviewed"), rows)


def _weighted(name: str, verifier: VerifierFigures) -> str:
    """A name with the fact that its share is not that of the counts beside it."""
    return f"{name}, weighted" if verifier.sampled else name


def sampling_line(verifier: VerifierFigures, tested: str = "verifier") -> str:
    """What the reviewed trials stand for."""
    if verifier.sampled:
        drawn = (
            "Trials were drawn for review: in weighted shares, each that was reviewed stands for those that it was "
            "drawn from."
        )
        rest = counted(verifier.unseen, "trial is of a kind", "trials are of kinds")
        open_end = f"corrected rates take the {tested}'s word for them, and their intervals leave open what they are."
        return f"{drawn} {rest} that nobody has looked at: {open_end}" if verifier.unseen else drawn
    return "Trials were not drawn by lot; those that were reviewed are taken for a fair sample of all."


def reviewers_table(reviewers: Sequence[ReviewerFigures]) -> Table:
    """What each reviewer tends to say."""
    rows = [
        (
            harmless(" · ".join(part for part in (each.reviewer_id, each.discipline) if part)),
            *(f"{count:,}" for count in (each.passed, each.failed, each.deferred)),
            format_duration(each.seconds),
            f"{each.right:,} of {each.calibrated:,}" if each.calibrated else "-",
        )
        for each in reviewers
    ]
    return Table(("reviewer", "pass", "fail", "defer", "time each", "right about gold"), rows)


def pairs_table(pairs: Sequence[PairAgreement]) -> Table:
    """Every two reviewers who judged a trial in common."""
    rows = [
        (
            harmless(pair.first),
            harmless(pair.second),
            f"{pair.items:,}",
            format_mean(pair.percent),
            format_mean(pair.kappa),
        )
        for pair in pairs
    ]
    return Table(("reviewers", "", "trials", "same", "Cohen's κ"), rows, names=2)


def tasks_table(tasks: Sequence[TaskReviews]) -> Table:
    """Every task that was reviewed."""
    rows = [
        (
            harmless(task.task_id),
            f"{task.reviewed:,} of {task.trials:,}",
            format_mean(task.same),
            *(f"{count:,}" for count in _cells(task)),
        )
        for task in tasks
    ]
    return Table(("task", "reviewed", "same", "both pass", "verifier only", "people only", "neither"), rows)


def _cells(task: TaskReviews) -> tuple[int, int, int, int]:
    found = task.confusion
    return found.both_pass, found.only_verifier, found.only_people, found.both_fail


def dissents_table(title: str, dissents: Sequence[Dissent]) -> Table:
    """Trials of which the verifier and people say different things."""
    rows = [(harmless(each.trial_id), harmless(each.agent), format_reward(each.reward)) for each in dissents]
    return Table((title, "agent", "reward"), rows, names=2)


def gates_table(ready: Readiness) -> Table:
    """What has to hold before anything is built on reviews, and whether it does."""
    rows = [(_GATES[gate.name], _STATES[gate.state], harmless(gate.reason)) for gate in ready.gates]
    return Table(("gate", "", "why"), rows, names=3)


def ready_line(ready: Readiness) -> str:
    """Whether reviews may be built on."""
    return _READY[ready.state]


def people_lines(report: AgreementReport) -> list[str]:
    """A few sentences for a report: how far people agree, and what they make of the verifier."""
    lines = [people_headline(report.overall)]
    verifier = report.overall.verifier
    if verifier.confusion.agreement:
        same = verifier.confusion.agreement
        passes, fails = len(verifier.wrong_passes), len(verifier.wrong_fails)
        lines.append(
            f"Of {counted(same.trials, 'trial')} that both judged, people agree with the verifier on "
            f"{_weighted(format_mean(same.value, '.1%'), verifier)} ({percents(same)}): it passed {passes:,} that "
            f"they fail and failed {fails:,} that they pass."
        )
    if verifier.powered and verifier.pass_rate is not None:
        found = verifier.powered
        lines.append(
            f"The verifier passes {format_mean(verifier.pass_rate, '.1%')} of {counted(verifier.judged, 'trial')}; "
            f"{_weighted('corrected', verifier)} by what people say it would be {format_mean(found.value, '.1%')} "
            f"({percents(found)})."
        )
    return lines


def percents(found: WeightedShare | CorrectedRate) -> str:
    """The interval of a share."""
    return format_range(found.low, found.high, ".1%")
