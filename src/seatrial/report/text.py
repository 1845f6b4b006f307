"""Summaries and trials as words: cells and lines, which a command prints as a table, in a pipe or on a display.

Task ids, messages and logs are strangers' text; everything here has been through `harmless`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from seatrial.analysis.gathered import UsageTotal, added_usage
from seatrial.analysis.summary import FailureCount, JobSummary
from seatrial.analysis.tally import Tally
from seatrial.model.evaluation import NEEDS_SYSTEM
from seatrial.model.record import Outcome
from seatrial.stats.estimates import Estimate
from seatrial.store.index import TrialEntry

JUDGED_COLUMNS = ("mean", "95 % interval", "pass rate", "pass interval", "scored")
SUMMARY_COLUMNS = ("agent", *JUDGED_COLUMNS)
TRIAL_COLUMNS = ("trial", "outcome", "reward", "time")
USED_COLUMNS = ("tokens", "cost")
USAGE_COLUMNS = ("agent", "calls", "tokens in", "tokens out", "cost", "per trial", "per pass")

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


def cache_use(cached: int, stored: int) -> str:
    """How many of the tokens that were just named came from a cache and went to it, if any did."""
    used = [f"{tokens:,} {word}" for tokens, word in ((cached, "cached"), (stored, "written to the cache")) if tokens]
    return f" ({', '.join(used)})" if used else ""


def format_cost(usd: float | None) -> str:
    """An amount of money with as many digits as it takes to see it, a dash for one that is not known."""
    if usd is None:
        return "-"
    return f"{usd:.4f} USD" if usd >= 0.01 or usd == 0 else f"{usd:.6f} USD"


def format_reward(reward: float | None) -> str:
    """A reward as the verifier wrote it, a dash for none. One that is nearly 1 is not shown as a 1: it is no pass."""
    if reward is None:
        return "-"
    text = f"{reward:.6g}"
    return repr(reward) if text == "1" and reward < 1.0 else text


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


def summary_rows(summary: JobSummary) -> list[tuple[str, ...]]:
    """One row per agent: its mean and pass rate, and how many of the planned trials they rest on."""
    return [(harmless(name), *judged_cells(tally)) for name, tally in summary.agents.items()]


def judged_cells(tally: Tally) -> tuple[str, ...]:
    """The cells of JUDGED_COLUMNS: dashes where no trial was judged."""
    scored = f"{tally.scored:,} of {tally.planned:,}"
    return *estimate_cells(tally.estimate), *share_cells(tally.pass_estimate), scored


def estimate_cells(estimate: Estimate | None) -> tuple[str, str]:
    """A mean and its interval."""
    if estimate is None:
        return "-", "-"
    return f"{estimate.value:.3f}", f"{estimate.low:.3f} to {estimate.high:.3f}"


def share_cells(estimate: Estimate | None) -> tuple[str, str]:
    """A share and its interval, in percent."""
    if estimate is None:
        return "-", "-"
    return f"{estimate.value:.1%}", f"{100 * estimate.low:.1f} to {estimate.high:.1%}"


def interval_line(tallies: Iterable[Tally]) -> str | None:
    """By what the intervals of a table were computed, None where it has none."""
    found = [tally.estimate for tally in tallies if tally.estimate]
    if not found:
        return None
    least, most = (pick(each.groups for each in found) for pick in (min, max))
    tasks = counted(most, "task") if least == most else f"{least:,} to {most:,} tasks"
    added = "as if two more were solved and two more failed"
    return f"{found[0].level * 100:g} % intervals over {tasks}: {added}; docs/statistics.md"


def outcome_counts(tally: Tally) -> str:
    """How often each outcome occurred, on one line, with what has not been run yet."""
    counts = [f"{count:,} {outcome}" for outcome, count in tally.counts.items()]
    if tally.open:
        counts.append(f"{tally.open:,} not run yet")
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


def doubts(tally: Tally) -> list[str]:
    """What a reader should know about the verdicts before believing their mean."""
    lines = _other_means(tally)
    if tally.disputed and tally.believed_mean is not None:
        verdicts = counted(tally.disputed, "verdict is", "verdicts are")
        lines.append(f"{verdicts} disputed; the mean would be {tally.believed_mean:.3f} with the higher ones")
    if tally.regraded:
        mean = "there was no mean" if tally.first_mean is None else f"the mean was {tally.first_mean:.3f}"
        lines.append(f"{counted(tally.regraded, 'trial was', 'trials were')} judged again; {mean} before")
    if (others := tally.curated - tally.disputed) > 0:
        lines.append(f"in {counted(others, 'trial')} files of the agent's were hidden from the verifier or put back")
    lines += [f"{counted(trials, 'trial')}: {_WARNINGS.get(code, code)}" for code, trials in tally.warnings.items()]
    return lines


def _other_means(tally: Tally) -> list[str]:
    """What the mean would be if it was taken otherwise, where that is seen in three digits."""
    lines = []
    missing = tally.finished - tally.scored
    if missing and _differ(tally.mean, tally.mean_if_failed):
        trials = counted(missing, "trial without a verdict", "trials without a verdict")
        lines.append(f"the mean would be {tally.mean_if_failed:.3f} with {trials} as 0")
    if _differ(tally.mean, tally.trial_mean):
        lines.append(f"the mean of trials is {tally.trial_mean:.3f}: not all tasks have equally many that were judged")
    return lines


def _differ(mean: float | None, other: float | None) -> bool:
    return mean is not None and other is not None and f"{mean:.3f}" != f"{other:.3f}"


def failure_line(failed: FailureCount) -> str:
    """Why trials could not be run, once for all that failed alike."""
    more = f" and {failed.trials - 1:,} more like this" if failed.trials > 1 else ""
    return harmless(f"not scored: {failed.example}{more}: {failed.reason}")


def usage_rows(tallies: Mapping[str, Tally]) -> list[tuple[str, ...]]:
    """One row for each agent that called a model, and when there are several one for all; none when none did."""
    used = {
        name: tally
        for name, tally in tallies.items()
        if tally.usage and (tally.usage.calls or tally.usage.input_tokens)
    }
    rows = [(harmless(name), *_used(tally.usage, passes(tally))) for name, tally in used.items() if tally.usage]
    total = added_usage([tally.usage for tally in used.values() if tally.usage])
    if total is None or len(rows) <= 1:
        return rows
    return [*rows, ("(all)", *_used(total, sum(map(passes, used.values()))))]


def passes(tally: Tally) -> int:
    """How many trials passed."""
    return tally.counts.get("pass", 0)


def prices_line(tallies: Iterable[Tally]) -> str | None:
    """By which tables of prices costs were computed, None where there are no costs."""
    tables = sorted({table for tally in tallies if tally.usage for table in tally.usage.prices})
    return harmless(f"costs by the prices of: {'; '.join(tables)}") if tables else None


def _used(usage: UsageTotal, passed: int) -> tuple[str, ...]:
    cost = usage.cost_usd
    numbers = (usage.calls, usage.input_tokens, usage.output_tokens)
    each = (None if cost is None or not count else cost / count for count in (usage.trials, passed))
    return (*(f"{number:,}" for number in numbers), format_cost(cost), *map(_amount, each))


def _amount(usd: float | None) -> str:
    return format_cost(usd).removesuffix(" USD")


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


def trial_row(entry: TrialEntry) -> tuple[str, ...]:
    """The cells of one trial."""
    tries = f" ({entry.tries} tries)" if entry.tries > 1 else ""
    shown = format_reward(None if entry.outcome in {"verifier_error", "infrastructure_error"} else entry.reward)
    outcome: str = entry.outcome
    if entry.disputed_reward is not None:
        outcome, shown = f"{outcome}, disputed", f"{shown} (or {format_reward(entry.disputed_reward)})"
    regraded = (f"revision {entry.revision}",) if entry.revision else ()
    outcome = ", ".join((outcome, *entry.warnings, *regraded))
    return harmless(f"{entry.trial_id}{tries}"), outcome, shown, format_duration(entry.duration_sec)


def used_cells(entry: TrialEntry) -> tuple[str, str]:
    """What the model of one trial used, as further cells of its row."""
    if entry.input_tokens is None:
        return "-", "-"
    return f"{(entry.input_tokens or 0) + (entry.output_tokens or 0):,}", format_cost(entry.cost_usd)
