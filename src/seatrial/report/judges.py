"""Whether judges are to be believed, in words: a line for each in results, tables for those who look into it."""

from collections.abc import Sequence

from seatrial.analysis.tables import Row, Table
from seatrial.model.outcome import format_mean, format_reward
from seatrial.report.people import interval_text, percents
from seatrial.report.text import counted, harmless
from seatrial.review.judges import JudgeAgainstPeople, JudgeFigures
from seatrial.stats.corrected import WeightedShare


def judge_lines(judges: Sequence[JudgeFigures]) -> list[str]:
    """A line for each judge: a rate where it may enter an aggregate, and else why it may not."""
    return [harmless(_line(each)) for each in judges]


def _line(judge: JudgeFigures) -> str:
    head = f"judge {judge.identity.name} ({judge.identity.version}) on {counted(judge.assessed, 'trial')}"
    if judge.ready.state != "open":
        return f"{head}: not calibrated ({', '.join(judge.ready.reasons)}); its scores are in no mean"
    found = judge.overall.figures
    rate = f"{head}: calibrated; passes {format_mean(found.pass_rate, '.1%')}"
    if found.powered is None:
        return rate
    return f"{rate}, corrected by people's labels {format_mean(found.powered.value, '.1%')} ({percents(found.powered)})"


def judges_table(judges: Sequence[JudgeFigures]) -> Table:
    """A row for each judge: versions of a rubric or a prompt are judges of their own."""
    rows = [
        (
            harmless(each.identity.name),
            harmless(each.identity.version),
            f"{each.assessed:,} of {each.trials:,}",
            f"{each.overall.figures.confusion.trials:,}",
            "yes" if each.ready.state == "open" else "no",
        )
        for each in judges
    ]
    return Table(("judge", "version", "assessed", "labelled too", "calibrated"), rows, names=2)


def judge_headline(judge: JudgeFigures) -> str:
    """What one judge is, and how far it agrees with people beyond chance."""
    head = f"{judge.identity.name} ({judge.identity.version})"
    found = judge.overall.kappa
    if found is None:
        return harmless(f"{head}: how far it agrees with people beyond chance is not known.")
    base = f"people pass {format_mean(judge.overall.base_rate, '.1%')} of these {counted(found.items, 'trial')}"
    return harmless(f"{head}: Cohen's κ {format_mean(found.value)} ({interval_text(found)}), where {base}.")


def questions_table(judge: JudgeFigures) -> Table:
    """A row for each question that people have an opinion on."""
    rows = [_question(each) for each in judge.questions if each.figures.confusion.trials]
    columns = ("question", "compared with", "trials", "precision", "recall", "specificity", "Cohen's κ", "people pass")
    return Table(columns, rows, names=2)


def _question(each: JudgeAgainstPeople) -> Row:
    found, kappa = each.figures.confusion, each.kappa
    return (
        harmless(each.question or ""),
        harmless(f"category {each.category}" if each.category else "verdict"),
        f"{found.trials:,}",
        *(_share(share) for share in (found.precision, found.recall, found.specificity)),
        f"{format_mean(kappa.value)} ({interval_text(kappa)})" if kappa else "-",
        format_mean(each.base_rate, ".1%"),
    )


def _share(share: WeightedShare | None) -> str:
    return f"{format_mean(share.value, '.1%')} ({percents(share)})" if share else "-"


def dissents_table(judge: JudgeFigures) -> Table:
    """Trials of which the judge and people say different things, by question."""
    rows = [
        (
            harmless(each.question or "score"),
            harmless(dissent.trial_id),
            said,
            "fail" if said == "pass" else "pass",
            format_reward(dissent.reward),
        )
        for each in (judge.overall, *judge.questions)
        for said, dissents in (("pass", each.figures.wrong_passes), ("fail", each.figures.wrong_fails))
        for dissent in dissents
    ]
    return Table(("question", "trial", "judge", "people", "reward"), rows, names=2)


def labels_line(judge: JudgeFigures) -> str:
    """How many labels of people a corrected rate takes."""
    width = f"for a corrected pass rate that is sure to {format_mean(judge.width / 2, '.1%')} either way"
    have = judge.overall.figures.confusion.trials
    if judge.labels_needed is None:
        why = "so far there are fewer than two" if have < 2 else "no number is enough with so few trials and tasks"
        return f"labels {width}: cannot be said, since {why}"
    if judge.labels_needed <= have:
        return f"labels {width}: {judge.labels_needed:,}, and there are {have:,}"
    more = f" (the judge has assessed {judge.assessed:,} trials)" if judge.labels_needed > judge.assessed else ""
    return f"labels {width}: about {judge.labels_needed:,}, drawn by lot; there are {have:,}{more}"
