"""Figures and trials as words: numbers as people write them, and lines that stand beside tables.

Task ids, messages and logs are strangers' text; everything here has been through `harmless`.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from seatrial.analysis.figures import Figures
from seatrial.analysis.summary import FailureCount
from seatrial.model.evaluation import NEEDS_SYSTEM
from seatrial.model.outcome import Outcome, format_mean
from seatrial.store.index import TrialEntry

OUTCOME_WORDS: dict[Outcome, str] = {
    "pass": "passed",
    "partial": "partial",
    "fail": "failed",
    "invalid_output": "invalid output",
    "no_output": "no output",
    "verifier_error": "verifier error",
    "infrastructure_error": "infrastructure",
    "cancelled": "cancelled",
}
"""How an outcome is called on a page."""

# What most needs a look comes first: what was never judged, then what was judged worst.
_URGENCY: tuple[Outcome, ...] = (
    "infrastructure_error",
    "verifier_error",
    "cancelled",
    "invalid_output",
    "no_output",
    "fail",
    "partial",
    "pass",
)
_WIDEST_LINE = 2000
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number of things: `1 trial`, `2,000 trials`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def harmless(text: str) -> str:
    """A stranger's text on one line, without what would steer a terminal, and not endless."""
    if len(text) <= _WIDEST_LINE and text.isprintable():  # as nearly all are
        return text
    shown = "".join(character if character.isprintable() else " " for character in text[: _WIDEST_LINE + 1])
    return shown if len(text) <= _WIDEST_LINE else f"{shown[:_WIDEST_LINE]}…"


def shown_width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - slow to import; only characters two columns wide need it

    return cell_len(text)


def harmless_lines(text: str) -> list[str]:
    """A stranger's text of several lines, none of it lost and none of it able to steer a terminal."""
    if text.isprintable():
        return [text]
    lines = text.replace("\r\n", "\n").expandtabs(4).split("\n")
    return ["".join(character if character.isprintable() else " " for character in line) for line in lines]


def utf8_text(text: str) -> str:
    """A text with a replacement character for what UTF-8 has no way to write."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def utf8_value(value: Any) -> Any:
    """The same for a value of a table: text, a list of texts, or a mapping from texts."""
    if isinstance(value, str):
        return utf8_text(value)
    if isinstance(value, tuple | list):
        return [utf8_value(each) for each in value]
    if isinstance(value, dict):
        return {utf8_text(name): utf8_value(each) for name, each in value.items()}
    return value


def cache_use(cached: int, stored: int) -> str:
    """How many of the tokens that were just named came from a cache and went to it, if any did."""
    used = [f"{tokens:,} {word}" for tokens, word in ((cached, "cached"), (stored, "written to the cache")) if tokens]
    return f" ({', '.join(used)})" if used else ""


def format_cost(usd: float | None) -> str:
    """An amount of money with as many digits as it takes to see it, a dash for one that is not known."""
    if usd is None:
        return "-"
    return f"{usd:.4f} USD" if usd >= 0.01 or usd == 0 else f"{usd:.6f} USD"


def format_duration(seconds: float | None) -> str:
    """A length of time in the units people say it in, a dash for none."""
    if seconds is None:
        return "-"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def p_text(value: float) -> str:
    """A p-value with as many digits as matter."""
    if value < 0.001:
        return "p < 0.001"
    return f"p = {value:.3f}" if value < 0.1 else f"p = {value:.2f}"


def p_number(value: float | None) -> str:
    """The number of a p-value alone, a dash for none."""
    return "-" if value is None else p_text(value).removeprefix("p ").removeprefix("= ")


def points(share: float) -> str:
    """A share as points of 100; no minus before a zero."""
    text = f"{100 * share:.1f}"
    return "0.0" if text == "-0.0" else text


def bounds_text(low: float, high: float) -> str:
    """An interval of a difference in points of 100. A bound that is not 0 does not look like 0."""
    return " to ".join(
        points(each) if points(each) != "0.0" or each == 0.0 else f"{100 * each:.1g}" for each in (low, high)
    )


def interval_line(shown: Iterable[Figures]) -> str | None:
    """By what the intervals of a table were computed, None where it has none."""
    found = [figures.estimate for figures in shown if figures.estimate]
    if not found:
        return None
    least, most = (pick(each.groups for each in found) for pick in (min, max))
    tasks = counted(most, "task") if least == most else f"{least:,} to {most:,} tasks"
    added = "as if two more were solved and two more failed"
    return f"{found[0].level * 100:g} % intervals over {tasks}: {added}; docs/statistics.md"


def outcome_counts(figures: Figures) -> str:
    """How often each outcome occurred, on one line, with what has not been run yet."""
    counts = [f"{count:,} {outcome}" for outcome, count in figures.counts.items()]
    if figures.open:
        counts.append(f"{figures.open:,} not run yet")
    return ", ".join(counts) or "no trials"


_WARNINGS = {
    NEEDS_SYSTEM: "the task's own solution passes only on the system that it left",
    "agent_not_started": "the agent could not be started",
    "no_model_call": "the agent was given a model and never called it",
    "calls_refused": "every call of the agent was refused by the gateway",
    "calls_unanswered": "no call of the agent was answered",
    "host_busy": "other processes of this machine kept the agent or the verifier from running",
    "agent_timeout_busy": "the agent ran out of time while other processes kept it from running",
    "verifier_timeout": "the verifier ran out of time, which it had",
    "verifier_tool_missing": "the verifier lacked a tool of its own, so its 0 may say nothing about the agent",
    "services_ended": "services of the agent were ended before the verifier, which gave less than a pass",
    "services_beside": "the verifier met services of the agent with a copy of its files, and gave less than a pass",
}


def doubts(figures: Figures) -> list[str]:
    """What a reader should know about the verdicts before believing their mean."""
    lines = other_means(figures)
    if figures.disputed and figures.believed_mean is not None:
        verdicts = counted(figures.disputed, "verdict is", "verdicts are")
        lines.append(
            f"{verdicts} disputed; the mean would be {format_mean(figures.believed_mean)} with the higher ones"
        )
    if figures.regraded:
        mean = "there was no mean" if figures.first_mean is None else f"the mean was {format_mean(figures.first_mean)}"
        lines.append(f"{counted(figures.regraded, 'trial was', 'trials were')} judged again; {mean} before")
    if (others := figures.curated - figures.disputed) > 0:
        lines.append(f"in {counted(others, 'trial')} files of the agent's were hidden from the verifier or put back")
    if figures.unheld:
        named = ", ".join(f"{name} ({counted(trials, 'trial')})" for name, trials in figures.unheld.items())
        lines.append(f"limits that were asked for and not enforced: {named}")
    lines += [f"{counted(trials, 'trial')}: {_WARNINGS.get(code, code)}" for code, trials in figures.warnings.items()]
    return lines


def other_means(figures: Figures, noun: str = "trial", lacking: str = "a verdict") -> list[str]:
    """What the mean would be if it was taken otherwise, where that is seen in three digits."""
    lines = []
    missing = figures.finished - figures.scored
    if missing and _differ(figures.mean, figures.mean_if_failed):
        without = counted(missing, f"{noun} without {lacking}", f"{noun}s without {lacking}")
        lines.append(f"the mean would be {format_mean(figures.mean_if_failed)} with {without} as 0")
    if _differ(figures.mean, figures.trial_mean):
        mean, group = format_mean(figures.trial_mean), "tasks" if noun == "trial" else "examples"
        lines.append(f"the mean of {noun}s is {mean}: not all {group} have equally many that were judged")
    return lines


def _differ(mean: float | None, other: float | None) -> bool:
    return mean is not None and other is not None and format_mean(mean) != format_mean(other)


def stability_line(figures: Figures) -> str | None:
    """Whether attempts at one task end alike, None where no task was judged twice."""
    found = figures.stability
    if figures.scored <= found.tasks:
        return None
    counts = f"{found.always:,} always passed, {found.never:,} never, {found.flaky:,} sometimes"
    return f"of {counted(found.tasks, 'task')}, {counts}"


def times_line(figures: Figures) -> str | None:
    """How long trials took, None where there are not two."""
    times = figures.times
    if times is None or figures.finished < 2:
        return None
    shown = [format_duration(seconds) for seconds in (times.median, times.p90, times.total)]
    return f"trials took {shown[0]} (median), 90 % at most {shown[1]}, {shown[2]} in all"


def failure_line(failed: FailureCount) -> str:
    """Why trials could not be run, once for all that failed alike."""
    more = f" and {failed.trials - 1:,} more like this" if failed.trials > 1 else ""
    return harmless(f"not scored: {failed.example}{more}: {failed.reason}")


def prices_line(shown: Iterable[Figures]) -> str | None:
    """By which tables of prices costs were computed, None where there are no costs."""
    tables = sorted({table for figures in shown if figures.usage for table in figures.usage.prices})
    return harmless(f"costs by the prices of: {'; '.join(tables)}") if tables else None


def worst_first(entries: Iterable[TrialEntry], count: int | None = None) -> list[TrialEntry]:
    """Trials in the order in which they need a look, disputed ones before all others; the first `count` of them."""
    kinds: dict[tuple[bool, Outcome], list[TrialEntry]] = defaultdict(list)
    for entry in entries:
        kinds[entry.disputed_reward is None, entry.outcome].append(entry)
    worst: list[TrialEntry] = []
    for kind in sorted(kinds, key=lambda kind: (kind[0], _URGENCY.index(kind[1]))):
        if count is not None and len(worst) >= count:
            break
        worst += sorted(kinds[kind], key=lambda entry: (entry.reward or 0.0, _place(entry)))
    return worst[:count]


def by_task(entries: Iterable[TrialEntry]) -> list[TrialEntry]:
    """Trials in the order people look them up."""
    return sorted(entries, key=_place)


def _place(entry: TrialEntry) -> tuple[str, str, int]:
    return entry.task_id, entry.agent, entry.attempt
