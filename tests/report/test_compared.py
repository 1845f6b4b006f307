"""The answer in one sentence is right for every way a comparison can end, and Markdown lets no name do anything."""

from dataclasses import replace

import pytest

from seatrial.analysis.compare import CompareOptions, GateResult, compare_arms, compare_jobs
from seatrial.model.job import TrialOptions
from seatrial.report.compared import answer, arm_line, comparisons_markdown, gate_answer, how_tested
from seatrial.report.text import p_text, points
from tests.analysis.in_memory import arms, entries, entry, job

TEN = [f"t{index}" for index in range(10)]


def compared(first, second):
    return compare_arms(*arms(job("x", entries(first)), job("y", entries(second))))


def as_found(**changes):
    """A comparison with numbers of which a test knows how they look."""
    made = compared({task: [0.0] for task in TEN}, {task: [1.0] for task in TEN})
    assert made.paired is not None
    numbers = {"difference": 0.041, "low": 0.012, "high": 0.07, "p_value": 0.006, "sd": 0.3, "detectable": 0.059}
    return replace(made, paired=replace(made.paired, **{**numbers, "wins": 12, "losses": 3, **changes}))


def test_better_and_worse():
    better = "B is better by 4.1 points (1.2 to 7.0), p = 0.006, 12 tasks won, 3 lost; could have seen 5.9"
    assert answer(as_found()) == better
    worse = as_found(difference=-0.041, low=-0.07, high=-0.012, p_value=0.0001, wins=1, losses=0)
    assert answer(worse) == "B is worse by 4.1 points (1.2 to 7.0), p < 0.001, 1 task won, 0 lost; could have seen 5.9"


def test_no_difference_and_nothing_that_could_be_seen():
    seen = as_found(difference=-0.01, low=-0.05, high=0.03, p_value=0.5)
    assert answer(seen).startswith("no difference seen: B - A is -1.0 points (-5.0 to 3.0), p = 0.50, 12 tasks won")
    assert "could have seen" not in answer(as_found(detectable=1.3))


def test_inconclusive_says_why():
    few = compared({"a": [0.0], "b": [0.0]}, {"a": [1.0], "b": [1.0]})
    said = answer(few)
    assert said.startswith(
        "inconclusive: 2 tasks cannot show a difference: with all of them won, p = 0.50. B - A is 100.0"
    )
    assert "could have seen" not in answer(compared({"a": [0.0], "b": [0.5]}, {"a": [1.0], "b": [1.0]}))
    assert "with all of them won, p = 0.094 after Holm." in answer(replace(as_found(), adjusted_least=3 / 2**5))


def test_nothing_in_common():
    said = answer(compared({"a": [0.0], "b": [0.0]}, {"c": [1.0]}))
    assert said == "nothing to compare: A has 2 judged tasks, B has 1 judged task, and none is the same"


def test_corrected_p_values_are_shown_with_those_alone():
    assert "p = 0.012 after Holm (p = 0.006 alone)" in answer(replace(as_found(), adjusted_p=0.012))


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "p < 0.001"), (0.0009, "p < 0.001"), (0.001, "p = 0.001"), (0.25, "p = 0.25"), (1.0, "p = 1.00")],
)
def test_p_values(value, shown):
    assert p_text(value) == shown


def test_points_have_no_minus_before_zero():
    assert (points(-0.0001), points(-0.05), points(1.0)) == ("0.0", "-5.0", "100.0")


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        (GateResult("not worse", 0.02), "gate: B is not worse than A by more than 2 points; the interval"),
        (GateResult("worse", 0.025), "gate: B is worse than A by more than 2.5 points; the interval"),
        (GateResult("inconclusive", 0.02), "its middle is at the margin"),
        (
            GateResult("inconclusive", 0.02, 1234),
            "about 1,234 tasks like these 10 would decide it four times out of five",
        ),
    ],
)
def test_gates(gate, said):
    assert said in gate_answer(as_found(), gate)


def test_a_gate_with_nothing_in_common():
    assert "there is nothing to compare" in gate_answer(
        compared({"a": [1.0]}, {"b": [1.0]}), GateResult("inconclusive", 0.02)
    )


HOSTILE = "a|b`<script>alert(1)</script>[x](http://evil)\n@all #1 ![i](//e)\x1b[2J"


def test_markdown_shows_names_as_they_are():
    tasks = (HOSTILE, f"{HOSTILE}2")
    first = job("x", [entry(task, 0.0, HOSTILE, dimensions={HOSTILE: 0.5}) for task in tasks])
    better = [entry(task, 1.0, HOSTILE, dimensions={HOSTILE: 1.0}) for task in tasks]
    second = job("y", better, trial=TrialOptions(pass_threshold=0.5))
    made = compare_jobs(first, second, options=CompareOptions(force=True))
    text = comparisons_markdown(made, ("category",), [GateResult("worse", 0.02)])
    assert text.startswith("> **FORCED: a reward does not mean the same on both sides (pass")
    for harm in ("<script", "](http", "http://", "@all", "#1 ", "![", "\x1b", "b`"):
        assert harm not in text
    tables = [part.splitlines() for part in text.split("\n\n") if part.startswith("|")]
    assert [len({line.count("|") for line in table}) for table in tables] == [1] * 4


def test_the_same_comparison_has_the_same_bytes():
    first, second = (job(name, entries({task: [0.5, 1.0] for task in TEN})) for name in ("x", "y"))
    assert comparisons_markdown(compare_jobs(first, second)) == comparisons_markdown(compare_jobs(first, second))


def test_the_test_is_named():
    found = compared({task: [0.0] for task in TEN}, {task: [1.0] for task in TEN})
    assert how_tested(found) == (
        "sign-flip test, exact; this is McNemar's exact test, for one trial each that passed or not: p = 0.002"
    )
    many = {f"t{index}": [0.0] for index in range(60)}
    assert how_tested(compared(many, {task: [1.0] for task in many})) == (
        "sign-flip test, by random signs; they estimate McNemar's exact test, for one trial each that passed or not: "
        "p < 0.001"
    )
    assert how_tested(compared({"a": [0.5]}, {"a": [0.5]})) == "sign-flip test over 1 task, exact"
    assert (
        how_tested(replace(found, families=dict(zip(TEN, "aaaabbbbcc", strict=True))))
        == "sign-flip test by families of tasks (3), exact"
    )
    assert how_tested(compared({"a": [1.0]}, {"b": [1.0]})) is None


def test_the_mean_of_an_arm_has_an_interval_as_sure_as_asked():
    first, _ = arms(job("x", entries({task: [float(task < "t5")] for task in TEN})), job("y", entries({"t0": [1.0]})))
    assert "mean 0.500 (0.200 to 0.800), 10 tasks" in arm_line(first)
    assert "mean 0.500 (0.404 to 0.596), 10 tasks" in arm_line(first, 0.5)
    assert "mean 0.500 (0.000 to 1.000), 10 tasks" in arm_line(first, families=dict.fromkeys(TEN, "all"))
