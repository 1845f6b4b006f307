"""`seatrial compare`: what differs comes first, then the answer, then where it is from; and gates for CI."""

import json
import os
import subprocess
import sys

import pytest

from seatrial.model.record import ModelUsage, Provenance
from tests.cli.conftest import PLAIN_ENVIRONMENT, SEATRIAL, Seatrial, cells, on_terminal
from tests.cli.job_folders import BROKEN, make_job, record

OLD, NEW = (Provenance(tests_digest=digit * 64, reward_file="reward.json") for digit in "de")


def tasks(rewards, **more):
    return [record(f"t{index}", reward, **more) for index, reward in enumerate(rewards)]


@pytest.fixture
def jobs(tmp_path):
    """A job that solves none of eight tasks, one that solves all, and one that was judged by other tests."""
    usage = ModelUsage(calls=1, input_tokens=100, output_tokens=10, cost_usd=0.5)
    make_job(tmp_path / "bad", *tasks([0.0] * 8, provenance=OLD, model_usage=usage))
    make_job(tmp_path / "good", *tasks([1.0] * 8, provenance=OLD, model_usage=usage))
    make_job(tmp_path / "other", *tasks([1.0] * 8, provenance=NEW))
    return tmp_path


def test_the_answer_and_where_it_comes_from(seatrial: Seatrial, jobs):
    shown = seatrial("compare", jobs / "bad", jobs / "good")
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0].startswith(f"A  oracle in {jobs}/bad: mean 0.000 (0.000 to ")
    assert lines[1].endswith("8 tasks, 8 of 8 trials scored")
    assert "both sides ran under the same conditions, as far as is known" in lines
    (answer,) = [line for line in lines if line.startswith("B is better by 100.0 points (")]
    assert "p = 0.008, 8 tasks won, 0 lost" in answer
    at = lines.index("passed by B and not by A (8 tasks)")
    assert lines[at + 1 : at + 4] == [
        "t0",
        f"  seatrial show {jobs}/bad t0.oracle.1",
        f"  seatrial show {jobs}/good t0.oracle.1",
    ]
    assert "… and 3 more tasks; --all shows them" in lines
    assert ["cost, USD", "0.5000", "0.5000", "0.0000", "0.0000 to 0.0000", "8"] in map(cells, lines)
    assert "… and" not in seatrial("compare", jobs / "bad", jobs / "good", "--all").out


@pytest.mark.parametrize(
    ("compared", "code", "said"),
    [
        ("bad good", 0, "gate: B is not worse than A by more than 2 points"),
        ("good bad", 1, "gate: B is worse than A by more than 2 points"),
        (
            "good bad --margin 0.9",
            3,
            "gate: inconclusive for a margin of 90 points; the interval of B - A is -100.0",
        ),
        ("good bad --margin 0.9 --inconclusive pass", 0, "gate: inconclusive for a margin of 90 points"),
        ("good bad --inconclusive pass", 1, "gate: B is worse"),
    ],
)
def test_a_gate_tells_by_its_exit_code(seatrial: Seatrial, jobs, compared, code, said):
    first, second, *more = compared.split()
    shown = seatrial("compare", jobs / first, jobs / second, "--gate", *more)
    assert (shown.code, said in shown.out) == (code, True)


def test_a_margin_alone_is_no_gate(seatrial: Seatrial, jobs):
    shown = seatrial("compare", jobs / "good", jobs / "bad", "--margin", "0.02")
    assert (shown.code, "gate: B is worse" in shown.out) == (0, True)


def test_other_tests_are_refused_and_forced_everywhere(seatrial: Seatrial, jobs):
    refused = seatrial("compare", jobs / "good", jobs / "other", "--gate")
    assert (refused.code, refused.out) == (2, "")
    assert "tests that judged: dddddddddddd / eeeeeeeeeeee (at 8 of the tasks, such as t0)" in refused.err
    forced = seatrial("compare", jobs / "good", jobs / "other", "--force")
    assert forced.out.startswith("FORCED: a reward does not mean the same on both sides (tests that judged)")
    assert json.loads(seatrial("compare", jobs / "good", jobs / "other", "--force", "--json").out)["forced"] is True
    assert "> **FORCED" in seatrial("compare", jobs / "good", jobs / "other", "--force", "--markdown").out


def test_json_has_every_number(seatrial: Seatrial, jobs):
    shown = json.loads(seatrial("compare", jobs / "bad", jobs / "good", "--json", "--gate", "--by", "category").out)
    (made,) = shown["comparisons"]
    assert (made["verdict"], made["gate"]["verdict"], made["paired"]["wins"]) == ("better", "not worse", 8)
    assert made["first"]["summary"]["scored"] == 8
    (first, *_), paired = made["gained"], made["paired"]
    assert first.pop("passed") == {"first": 0, "second": 1}
    assert first == {"task_id": "t0", "first": ["t0.oracle.1"], "second": ["t0.oracle.1"]}
    assert (paired["low"] > 0, made["adjusted_interval"]) == (True, None)
    assert (made["groups"], made["dropped"], len(made["tasks"])) == ({"category": []}, [], 8)


def test_only_some_tasks(seatrial: Seatrial, jobs):
    shown = seatrial("compare", jobs / "bad", jobs / "good", "--where", "task=t0|t1")
    assert "2 tasks cannot show a difference" in shown.out
    assert f"{jobs}/bad: 2 of 8 finished trials, those where task=t0|t1" in shown.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("bad", "good", "--where", "outcome=pass"), "--where outcome=pass: compares only some results"),
        (("bad", "good", "--where", "task=none"), "bad: no trial is as asked for"),
        (("bad", "good", "--level", "95"), "95.0 is not in the range 0.5<=x<=0.9999999"),
        (("bad", "good", "--seed", "-1"), "-1 is not in the range x>=0"),
        (("bad", "good", "--json", "--markdown"), "--json and --markdown are both given"),
        (("bad", "nowhere"), "nowhere"),
        (("bad",), "has one agent, oracle; give a second job"),
    ],
)
def test_what_cannot_be_asked(seatrial: Seatrial, jobs, monkeypatch, arguments, said):
    monkeypatch.chdir(jobs)
    shown = seatrial("compare", *arguments)
    assert (shown.code, shown.out) == (2, "")
    assert said in shown.err


def test_nothing_judged_and_jobs_that_go_on(seatrial: Seatrial, jobs):
    make_job(jobs / "broken", record("t0", BROKEN), missing_tasks=2)
    shown = seatrial("compare", jobs / "good", jobs / "broken", "--gate")
    assert shown.code == 3
    assert "nothing to compare: A has 8 judged tasks, B has 0 judged tasks, and none is the same" in shown.out
    assert "Warning: 0% and 100% of the trials have no verdict" in shown.out
    assert "Warning: 2 planned trials of oracle (broken) have no record yet" in shown.out


def test_several_agents_of_one_job(seatrial: Seatrial, tmp_path):
    agents = [record(f"t{index}", float(agent == "q"), agent) for index in range(6) for agent in "pqr"]
    make_job(tmp_path / "job", *agents)
    shown = seatrial("compare", tmp_path / "job")
    assert "p = 0.062 after Holm (p = 0.031 alone), 6 tasks won" in shown.out
    assert "p-values of 2 comparisons, corrected together after Holm, and so are their intervals" in shown.out


def test_only_comparisons_that_were_made_are_corrected_for(seatrial: Seatrial, tmp_path):
    agents = [record(f"t{index}", 1.0, agent) for index in range(2) for agent in "pqr"]
    make_job(tmp_path / "job", *agents, record("t0", BROKEN, "s"))
    for more in ((), ("--markdown",)):
        assert "p-values of 2 comparisons, corrected together" in seatrial("compare", tmp_path / "job", *more).out


def test_it_fits_a_terminal_of_80_columns_and_names_steer_nothing(jobs):
    make_job(jobs / "odd", *[record(f"t{index}", 0.0, agent="o\x1b]0;x\x07") for index in range(2)])
    shown = on_terminal((*SEATRIAL, "compare", str(jobs / "bad"), str(jobs / "odd"), "--gate"), 80)
    assert "\x1b]" not in shown
    paths = str(jobs)
    text = [
        line for line in shown.replace("\x1b[0m", "").splitlines() if paths not in line and "seatrial show" not in line
    ]
    assert max(map(len, text)) <= 95  # with what makes colours


def test_nothing_slow_is_loaded_before_it_is_needed():
    slow = "{'scipy', 'jinja2', 'pandas', 'numpy'}"
    code = f"import sys; from seatrial.cli import compare_command, power_command; print({slow} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded == "set()\n"


def test_a_job_that_cannot_be_read_is_no_verdict_of_a_gate(seatrial: Seatrial, jobs):
    (jobs / "good" / "trials").rename(jobs / "gone")
    shown = seatrial("compare", jobs / "bad", jobs / "good", "--gate")
    assert (shown.code, "trials: cannot be stored or read" in shown.err) == (2, True)


def test_a_reader_that_has_seen_enough_changes_no_verdict(jobs):
    reading, writing = os.pipe()
    os.close(reading)
    command = [*SEATRIAL, "compare", str(jobs / "bad"), str(jobs / "good"), "--gate"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=PLAIN_ENVIRONMENT, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_means_of_both_are_as_sure_as_asked(seatrial: Seatrial, jobs):
    for more in ((), ("--markdown",)):
        usual, surer = (
            seatrial("compare", jobs / "bad", jobs / "good", *more, "--level", at).out for at in (0.95, 0.99)
        )
        assert "mean 1.000 (0.586 to 1.000)" in usual
        assert "mean 1.000 (0.484 to 1.000)" in surer
    told = json.loads(seatrial("compare", jobs / "bad", jobs / "good", "--level", 0.99, "--json").out)
    summary = told["comparisons"][0]["second"]["summary"]
    assert (summary["level"], summary["interval"]) == (0.99, summary["pass_interval"])
    assert summary["interval"][0] == pytest.approx(0.484, abs=0.0005)
