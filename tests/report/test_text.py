"""Words for numbers: durations, rewards, rows; and strangers' text made harmless."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.analysis.summary import summarise
from seatrial.report.text import (
    bounds_text,
    counted,
    doubts,
    failure_line,
    format_cost,
    format_duration,
    harmless,
    harmless_lines,
    outcome_counts,
    prices_line,
    worst_first,
)
from seatrial.store.index import TrialEntry


def entry(**values):
    usual = {"trial_id": "t", "task_id": "t", "agent": "a", "attempt": 1, "outcome": "pass", "reward": 1.0}
    usual |= {"tries": 1, "duration_sec": 3.0, "started_at": None, "failure": None}
    return TrialEntry(**{**usual, **values})


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (200, "3 min 20 s"),
        (3599.9, "1 h 00 min"),
        (90061, "25 h 01 min"),
    ],
)
def test_durations(seconds, text):
    assert format_duration(seconds) == text


@given(st.text())
def test_harmless_text_is_one_printable_line(text):
    shown = harmless(text)
    assert shown.isprintable()
    assert len(shown) <= max(len(text), 2001)
    assert not text.isprintable() or len(text) > 2000 or shown == text


@given(st.text())
def test_harmless_lines_lose_no_line_and_no_printable_character(text):
    lines = harmless_lines(text)
    assert all(line.isprintable() for line in lines)
    assert len(lines) == text.replace("\r\n", "\n").count("\n") + 1
    kept = "".join(character for character in text if character.isprintable() and character != " ")
    assert "".join(lines).replace(" ", "") == kept


@pytest.mark.parametrize(
    ("usd", "text"), [(None, "-"), (0.0, "0.0000 USD"), (1.5, "1.5000 USD"), (0.00012, "0.000120 USD")]
)
def test_costs(usd, text):
    assert format_cost(usd) == text


def test_the_tables_of_prices_behind_costs_are_told():
    used = {"model_calls": 3, "input_tokens": 4000, "output_tokens": 500, "cost_usd": 0.5}
    entries = [entry(**used), entry(**used)]
    assert prices_line(summarise(entries, {"a": 2}).agents.values()) is None
    noted = [*entries, entry(**used, prices="Seatrial 2026-11-16"), entry(**used, prices="mine.toml")]
    told = prices_line(summarise(noted, {"a": 2}).agents.values())
    assert told == "costs by the prices of: Seatrial 2026-11-16; mine.toml"


def test_endless_text_is_cut():
    assert len(harmless("x" * 10**6)) == 2001


def test_what_is_not_in_the_mean_is_told_beside_the_outcomes():
    broken = entry(outcome="infrastructure_error", reward=None)
    assert (
        outcome_counts(summarise([entry(), broken], {"a": 3}).total) == "1 pass, 1 infrastructure_error, 1 not run yet"
    )
    assert outcome_counts(summarise([broken], {"a": 1}).total) == "1 infrastructure_error"
    assert outcome_counts(summarise([], {"a": 2}).total) == "2 not run yet"


def test_failures_are_told_once_and_counted():
    failed = [
        entry(trial_id=f"t.{index}", outcome="infrastructure_error", reward=None, failure=f"E: port {index} is taken")
        for index in range(8)
    ]
    other = entry(trial_id="z", outcome="infrastructure_error", reward=None, failure="E: no disk")
    assert [failure_line(each) for each in summarise([other, *failed], {"a": 9}).failures] == [
        "not scored: t.0 and 7 more like this: E: port 0 is taken",
        "not scored: z: E: no disk",
    ]


@pytest.mark.parametrize(("number", "text"), [(0, "0 trials"), (1, "1 trial"), (2000, "2,000 trials")])
def test_numbers_of_things(number, text):
    assert counted(number, "trial") == text


def test_the_worst_come_first():
    outcomes = "pass partial fail no_output invalid_output cancelled verifier_error infrastructure_error".split()
    entries = [entry(outcome=outcome) for outcome in outcomes]
    assert [each.outcome for each in worst_first(entries)] == outcomes[::-1]
    partial = [entry(task_id=str(reward), outcome="partial", reward=reward) for reward in (0.9, 0.1, 0.5)]
    assert [each.reward for each in worst_first(partial)] == [0.1, 0.5, 0.9]


def test_disputes_are_told_in_words_and_come_first():
    disputed = entry(trial_id="d", outcome="fail", reward=0.0, disputed_reward=1.0, put_back=2)
    assert worst_first([entry(outcome="infrastructure_error", reward=None), disputed])[0] is disputed
    tally = summarise([disputed, entry()], {"a": 2}).total
    assert doubts(tally) == ["1 verdict is disputed; the mean would be 1.000 with the higher ones"]
    assert doubts(summarise([disputed, entry(put_back=1)], {"a": 2}).total)[1:] == [
        "in 1 trial files of the agent's were hidden from the verifier or put back"
    ]
    assert doubts(summarise([entry()], {"a": 1}).total) == []


def test_a_bound_that_is_not_0_does_not_look_like_0():
    assert bounds_text(0.0003, 0.0512) == "0.03 to 5.1"
    assert bounds_text(-0.1, -0.00002) == "-10.0 to -0.002"
    assert bounds_text(0.0, 1.0) == "0.0 to 100.0"
