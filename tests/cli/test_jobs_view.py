"""`seatrial show` of one and several jobs: groups, filters, heat maps; on narrow screens, in pipes and as JSON."""

import json
import re
import sys

import pytest

from seatrial.model.job import TaskLabels
from seatrial.model.record import ModelUsage
from seatrial.store.job_store import JobStore
from tests.cli.conftest import SEATRIAL, Seatrial, cells, on_terminal, start
from tests.cli.job_folders import BROKEN, Result, make_job, record

HOSTILE = "\x1b[2J<b>|`=1+1\n\u202e\u9577\u3044" + "x" * 60
USAGE = ModelUsage(calls=2, input_tokens=1200, output_tokens=34, cost_usd=0.5)


def label(store: JobStore, **labels: TaskLabels) -> None:
    """Say what the tasks of a stored job say of themselves."""
    document = json.loads((store.path / "job.json").read_bytes())
    for task in document["tasks"]:
        if task["id"] in labels:
            task["labels"] = labels[task["id"]].model_dump(mode="json")
    (store.path / "job.json").write_text(json.dumps(document))


@pytest.fixture
def job(tmp_path):
    """Two agents with two attempts at three tasks."""
    results: dict[str, tuple[Result, ...]] = {
        "add": (1.0, 1.0, 1.0, 0.0),
        "sort": (1.0, 0.0, 0.0, 0.0),
        "prove": (0.0, BROKEN, 0.5, "no_output"),
    }
    records = [
        record(task, result, "good" if at < 2 else "weak", at % 2 + 1, model_usage=USAGE)
        for task, four in results.items()
        for at, result in enumerate(four)
    ]
    store = make_job(tmp_path / "job", *records, attempts=2)
    label(store, add=TaskLabels(category="maths", tags=("a", "b")), sort=TaskLabels(category="data", tags=("a",)))
    return tmp_path / "job"


def rows(text: str) -> list[list[str]]:
    return [cells(line) for line in text.splitlines()]


def test_a_row_for_each_category_and_agent(seatrial: Seatrial, job):
    shown = rows(seatrial("show", job, "--by", "category").out)
    assert shown[1] == ["category", "agent", "tasks", "mean", "95 % interval", "pass rate", "scored"]
    table = {(row[0], row[1]): row[2:] for row in shown[2:8]}
    assert [*table["maths", "good"][:2], *table["maths", "good"][3:]] == ["1", "1.000", "100.0%", "2 of 2"]
    assert table["(none)", "good"][-1] == "1 of 2"
    assert shown[8][0].startswith("95 % intervals over 1 task:")


def test_a_task_with_several_tags_counts_in_each_and_that_is_said(seatrial: Seatrial, job):
    shown = seatrial("show", job, "--by", "tag").out
    assert "A task with several tags counts in the row of each.\n" in shown
    assert [row[:3] for row in rows(shown)[2:4]] == [["a", "good", "2"], ["a", "weak", "2"]]


def test_tasks_have_counts_and_are_sorted(seatrial: Seatrial, job):
    shown = rows(seatrial("show", job, "--by", "task", "--sort", "-mean").out)
    assert shown[1] == ["task", "agent", "mean", "passed", "scored", "time", "cost"]
    assert shown[2] == ["prove", "good", "0.000", "0 of 1", "1 of 2", "2.0 s", "1.0000 USD"]
    assert shown[-1][:3] == ["add", "good", "1.000"]
    assert rows(seatrial("show", job, "--by", "task", "--sort", "mean").out)[2][:3] == ["add", "good", "1.000"]


def test_outcomes_have_shares(seatrial: Seatrial, job):
    shown = rows(seatrial("show", job, "--by", "outcome").out)
    assert ["pass", "good", "2", "3", "50.0%", "2.0 s", "1.5000 USD"] in shown


def test_shares_are_of_all_trials_also_of_those_in_rows_that_are_not_shown(seatrial: Seatrial, tmp_path):
    make_job(tmp_path / "job", *(record(f"task-{n:02}", 0.0, "weak") for n in range(50)))
    asked = ("show", tmp_path / "job", "--by", "task", "--where", "outcome=fail")
    assert [row[3] for row in rows(seatrial(*asked).out)[3:43]] == ["2.0%"] * 40
    assert [row[3] for row in rows(seatrial(*asked, "--all").out)[3:53]] == ["2.0%"] * 50


def test_a_trial_with_several_tags_is_counted_once_in_what_shares_are_of(seatrial: Seatrial, tmp_path):
    store = make_job(tmp_path / "job", record("add", 0.0, "weak"), record("sort", 0.0, "weak"))
    label(store, add=TaskLabels(tags=("a", "b")), sort=TaskLabels(tags=("a",)))
    shown = rows(seatrial("show", store.path, "--by", "tag", "--where", "outcome=fail").out)
    assert [row[:4] for row in shown[3:5]] == [["a", "2", "2", "100.0%"], ["b", "1", "1", "50.0%"]]


def test_attempts_are_told_where_there_are_several(seatrial: Seatrial, job):
    shown = seatrial("show", job).out
    assert "good: of 3 tasks, 1 always passed, 1 never, 1 sometimes\n" in shown
    pass_at = [row for row in rows(shown) if row[:2] in (["good", "2"], ["weak", "2"])]
    assert [(row[0], row[2], row[4], row[6]) for row in pass_at] == [
        ("good", "1.000", "0.500", "2"),
        ("weak", "0.333", "0.000", "3"),
    ]
    asked = seatrial("show", job, "--k", "1,9").out
    assert "pass@9: no task was judged 9 times\n" in asked
    assert [row[1] for row in rows(asked) if len(row) == 7 and row[0] == "good" and row[1] in ("1", "2")] == ["1"]


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--k", "0", "expected whole numbers from 1 on"),
        ("--k", "two", "expected whole numbers from 1 on"),
        ("--sort", "speed", "is none of name, mean, pass, cost, time, scored"),
        ("--by", "colour", "is not one of"),
        ("--where", "color=red", "there is no key 'color'"),
    ],
)
def test_options_that_are_wrong_are_named(seatrial: Seatrial, job, option, value, words):
    shown = seatrial("show", job, option, value)
    assert (shown.code, shown.out) == (2, "")
    assert words in shown.err


def test_trials_chosen_by_their_verdict_have_no_mean(seatrial: Seatrial, job):
    shown = seatrial("show", job, "--where", "outcome=fail").out
    assert "5 of 12 finished trials, those where outcome=fail\n" in shown
    assert "These trials were chosen by their verdict, so a mean of them would say nothing." in shown
    assert "95 %" not in shown
    grouped = rows(seatrial("show", job, "--where", "reward<1", "--by", "task").out)
    assert grouped[2][:5] == ["task", "agent", "tasks", "trials", "share"]
    chosen = seatrial("show", job, "--where", "task=add").out
    assert ["good", "1.000"] in [row[:2] for row in rows(chosen)], "tasks may be chosen"


def test_several_jobs_have_a_row_for_each_of_their_agents(seatrial: Seatrial, job, tmp_path):
    make_job(tmp_path / "other", record("add", 0.0, "good"))
    shown = seatrial("show", job, tmp_path / "other")
    assert [line.split(" ·")[0] for line in shown.out.splitlines()[:2]] == ["job", "other"]
    assert [row[0] for row in rows(shown.out)[3:6]] == ["good (job)", "weak", "good (other)"]
    document = json.loads(seatrial("show", job, tmp_path / "other", "--json", "--heat", "--by", "agent").out)
    assert [each["job"]["spec"]["name"] for each in document["jobs"]] == ["job", "other"]
    assert [arm["label"] for arm in document["arms"]] == ["good (job)", "weak", "good (other)"]
    assert [group["name"] for group in document["grouped"]["groups"]] == ["good", "weak"]
    assert document["heat"]["tasks"][-1] == "prove"
    assert len(document["heat"]["cells"][0]) == 3


def test_the_document_of_one_job_keeps_its_place_and_gets_more(seatrial: Seatrial, job):
    document = json.loads(seatrial("show", job, "--json").out)
    assert {"folder", "job", "summary", "trials", "uncounted", "annotations", "arms", "failures"} <= {*document}
    figures = document["arms"][0]["figures"]
    assert figures["pass_at"]["2"]["value"] == 1.0
    assert figures["stability"] == {"tasks": 3, "always": 1, "never": 1, "flaky": 1}
    assert figures["cost_per_solved"] == 1.0
    assert document["summary"]["agents"]["good"]["pass_interval"] is not None


def test_a_heat_map_in_a_pipe(seatrial: Seatrial, job):
    assert seatrial("show", job, "--heat").out.splitlines()[1:5] == [
        "task   good    weak",
        "add    █ 1.00  ▒ 0.50",
        "sort   ▒ 0.50  . 0.00",
        "prove  . 0.00  ░ 0.25",
    ]


def test_colours_are_for_terminals_that_want_them(job):
    command = (*SEATRIAL, "show", str(job), "--heat")
    assert "\x1b[32m█" in on_terminal(command, columns=80)
    assert "\x1b" not in start("show", job, "--heat").out
    plain = on_terminal(("env", "NO_COLOR=1", *command), columns=80)
    assert "\x1b" not in plain
    assert "█ 1.00" in plain


VIEWS = ((), ("--heat",), ("--by", "task"), ("--by", "agent"), ("--by", "category"), ("--by", "outcome"))


def screen(job, *more: str) -> list[str]:
    shown = on_terminal((*SEATRIAL, "show", str(job), *more), columns=80)
    return [re.sub(r"\x1b\[\d*m", "", line) for line in shown.splitlines()]


def test_usual_names_fit_80_columns(tmp_path):
    names = ("claude-code", "codex")
    usual = [record(f"task-{n}", n / 2, name, model_usage=USAGE) for n in range(3) for name in names]
    make_job(tmp_path / "job", *usual)
    for more in ((), ("--heat", "--by", "task"), ("--by", "agent")):
        assert [line for line in screen(tmp_path / "job", *more) if len(line) > 80] == []


def test_hostile_names_steer_no_terminal(seatrial: Seatrial, tmp_path):
    store = make_job(tmp_path / "job", record("crc", 0.5, "agent"))
    label(store, crc=TaskLabels(category=HOSTILE, tags=(HOSTILE,)))
    for more in (*VIEWS, ("--by", "tag")):
        shown = seatrial("show", store.path, *more)
        assert shown.code == 0
        assert all(line.isprintable() for line in shown.out.splitlines())


def test_empty_jobs_have_tables_without_numbers(seatrial: Seatrial, tmp_path):
    make_job(tmp_path / "job", missing_tasks=2)
    for more in ((), ("--heat",), ("--by", "task"), ("--by", "outcome"), ("--by", "model"), ("--k", "2")):
        assert seatrial("show", tmp_path / "job", *more).code == 0
    assert "There is no trial to group." in seatrial("show", tmp_path / "job", "--by", "outcome").out
    assert ["open-0", "?"] in rows(seatrial("show", tmp_path / "job", "--heat").out)


def test_show_loads_no_numerics(job):
    script = (
        "import sys; from seatrial.cli import main; main.run(['show', sys.argv[1], '--heat', '--by', 'task'])\n"
        "main.run(['show', sys.argv[1]])\n"
        "print(sorted(name for name in ('numpy', 'scipy', 'jinja2', 'rich') if name in sys.modules))\n"
    )
    assert on_terminal((sys.executable, "-c", script, str(job))).splitlines()[-1] == "[]"
