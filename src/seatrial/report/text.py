"""Summaries and trials as words: cells and lines, which a command prints as a table, in a pipe or on a display.

Task ids, messages and logs are strangers' text; everything here has been through `harmless`.
"""

from collections.abc import Iterable, Sequence

from seatrial.model.record import Outcome
from seatrial.report.summary import FailureCount, JobSummary, Tally, UsageTotal
from seatrial.store.index import TrialEntry

SUMMARY_COLUMNS = ("agent", "mean reward", "95 % interval", "pass rate", "scored", "outcomes")
TRIAL_COLUMNS = ("trial", "outcome", "reward", "time")
USED_COLUMNS = ("tokens", "cost")
USAGE_COLUMNS = ("agent", "trials", "calls", "tokens in", "tokens out", "cost", "cost per trial")

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
    shown = "".join(character if character.isprintable() else " " for character in text[: _WIDEST_LINE + 1])
    return shown if len(text) <= _WIDEST_LINE else f"{shown[:_WIDEST_LINE]}…"


def harmless_lines(text: str) -> list[str]:
    """A stranger's text of several lines, none of it lost and none of it able to steer a terminal."""
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
    """A reward as the verifier wrote it, a dash for none."""
    return "-" if reward is None else f"{reward:.6g}"


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
    """One row per agent: its mean, how many of the planned trials that mean rests on, and how all of them ended."""
    return [
        (harmless(name), *_judged(tally), _scored(tally), outcome_counts(tally))
        for name, tally in summary.agents.items()
    ]


def _judged(tally: Tally) -> tuple[str, str, str]:
    if tally.mean is None or tally.interval is None or tally.pass_rate is None:
        return "-", "-", "-"
    low, high = tally.interval
    return f"{tally.mean:.3f}", f"{low:.3f} to {high:.3f}", f"{tally.pass_rate:.1%}"


def _scored(tally: Tally) -> str:
    return f"{tally.scored:,} of {tally.planned:,}"


def outcome_counts(tally: Tally) -> str:
    """How often each outcome occurred, on one line, with what has not been run yet."""
    counts = [f"{count:,} {outcome}" for outcome, count in tally.counts.items()]
    if tally.open:
        counts.append(f"{tally.open:,} not run yet")
    return ", ".join(counts) or "no trials"


_WARNINGS = {
    "agent_not_started": "the agent could not be started",
    "no_model_call": "the agent was given a model and never called it",
    "calls_refused": "every call of the agent was refused by the gateway",
    "calls_unanswered": "no call of the agent was answered",
    "verifier_tool_missing": "the verifier lacked a tool of its own, so its 0 may say nothing about the agent",
}


def doubts(tally: Tally) -> list[str]:
    """What a reader should know about the verdicts before believing their mean."""
    lines = []
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


def failure_line(failed: FailureCount) -> str:
    """Why trials could not be run, once for all that failed alike."""
    more = f" and {failed.trials - 1:,} more like this" if failed.trials > 1 else ""
    return harmless(f"not scored: {failed.example}{more}: {failed.reason}")


def usage_rows(summary: JobSummary) -> list[tuple[str, ...]]:
    """One row for each agent that called a model, and when there are several one for all; none when none did."""
    used = {name: tally.usage for name, tally in summary.agents.items() if tally.usage and tally.usage.calls}
    rows = [(harmless(name), *_used(usage)) for name, usage in used.items()]
    return [*rows, ("(all)", *_used(_together([*used.values()])))] if len(rows) > 1 else rows


def prices_line(summary: JobSummary) -> str | None:
    """By which tables of prices the costs of a job were computed, None where there are no costs."""
    usage = summary.total.usage
    return harmless(f"costs by the prices of: {'; '.join(usage.prices)}") if usage and usage.prices else None


def _together(usages: Sequence[UsageTotal]) -> UsageTotal:
    """What several agents used; a cost only if each one's is known."""
    costs = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    return UsageTotal(
        trials=sum(usage.trials for usage in usages),
        calls=sum(usage.calls for usage in usages),
        input_tokens=sum(usage.input_tokens for usage in usages),
        output_tokens=sum(usage.output_tokens for usage in usages),
        cost_usd=sum(costs) if len(costs) == len(usages) else None,
    )


def _used(usage: UsageTotal) -> tuple[str, ...]:
    each = None if usage.cost_usd is None else usage.cost_usd / usage.trials
    numbers = (usage.trials, usage.calls, usage.input_tokens, usage.output_tokens)
    return (*(f"{number:,}" for number in numbers), format_cost(usage.cost_usd), format_cost(each))


def worst_first(entries: Iterable[TrialEntry]) -> list[TrialEntry]:
    """Trials in the order in which they need a look, disputed ones before all others."""
    ranks = {outcome: rank for rank, outcome in enumerate(_URGENCY)}

    def key(entry: TrialEntry) -> tuple[bool, int, float, tuple[str, str, int]]:
        return entry.disputed_reward is None, ranks[entry.outcome], entry.reward or 0.0, _place(entry)

    return sorted(entries, key=key)


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
    if entry.model_calls is None:
        return "-", "-"
    return f"{(entry.input_tokens or 0) + (entry.output_tokens or 0):,}", format_cost(entry.cost_usd)
