"""`seatrial show`: the job with its denominators, one trial with its evidence, and no power over the terminal."""

import json
import os
import re
import sys

import pytest

from seatrial.cli.show_command import read_words
from seatrial.cli.trial_view import read_tail
from seatrial.errors import UsageError
from seatrial.model.job import TaskLabels
from seatrial.model.record import FileChanges, LimitSpec, ModelUsage, SandboxRef, TrialRecord
from seatrial.report.tables import estimate_cells, share_cells
from seatrial.stats.estimates import estimate_mean
from seatrial.store.job_store import JobStore
from tests.cli.conftest import SEATRIAL, Seatrial, cells, on_terminal, start
from tests.cli.job_folders import BROKEN, Result, full_record, make_job, record


@pytest.fixture
def job(tmp_path):
    """A job of six tasks with every kind of outcome, one of them open."""
    make_job(
        tmp_path / "job",
        record("volts", 1.0),
        record("crc", 0.0),
        record("none", "no_output"),
        record("judge", "verifier_error"),
        record("disk", BROKEN),
        missing_tasks=1,
    )
    return tmp_path / "job"


def test_a_job_is_its_summary_and_its_trials(seatrial: Seatrial, job):
    shown = seatrial("show", job)
    assert shown.code == 0
    head, columns, row, method, outcomes, missing, times, failure, tags, tag, *rest = shown.out.splitlines()
    trial_columns, *trials = rest
    assert head == "job · 6 tasks · 1 attempt · agents oracle · begun 2026-05-01 12:00:00+00:00"
    numbers = dict(zip(cells(columns), cells(row), strict=True))
    assert numbers["mean"] == "0.333"
    estimate = estimate_mean([[1.0], [0.0], [0.0]])
    assert (numbers["pass rate"], numbers["pass interval"]) == share_cells(estimate)
    assert numbers["95 % interval"] == estimate_cells(estimate)[1]
    assert numbers["scored"] == "3 of 6"
    assert method == "95 % intervals over 3 tasks: as if two more were solved and two more failed; docs/statistics.md"
    counts = "1 pass, 1 fail, 1 no_output, 1 verifier_error, 1 infrastructure_error, 1 not run yet"
    assert outcomes == f"oracle: {counts}"
    assert missing == "oracle: the mean would be 0.200 with 2 trials without a verdict as 0"
    assert times == "oracle: trials took 2.0 s (median), 90 % at most 2.0 s, 10 s in all"
    assert [cells(tags), cells(tag)] == [["tag", "trials", "such as"], ["no_output (mechanical)", "1", "none.oracle.1"]]
    assert failure == "not scored: disk.oracle.1: SandboxError: the disk  [31mburns"
    assert cells(trial_columns) == ["trial", "outcome", "reward", "time"]
    assert [cells(line) for line in trials][:3] == [
        ["crc.oracle.1", "fail", "0", "2.0 s"],
        ["disk.oracle.1", "infrastructure_error", "-", "2.0 s"],
        ["judge.oracle.1", "verifier_error", "-", "2.0 s"],
    ]
    assert f"1 trial has not run yet. Continue with: seatrial resume {job}" in shown.err


def test_a_job_as_json(seatrial: Seatrial, job):
    document = json.loads(seatrial("show", job, "--json").out)
    assert document["summary"]["total"]["scored"] == 3
    assert document["job"]["spec"]["name"] == "job"
    assert len(document["trials"]) == 5
    assert {entry["reward"] for entry in document["trials"] if entry["failure"]} == {None}


def test_what_does_not_count_is_named_once_and_blocks_nothing(seatrial: Seatrial, job):
    (job / "trials/volts.oracle.1/record.json").write_text("{")
    (job / "trials/crc.oracle.1").rename(job / "trials/a-copy")
    shown = seatrial("show", job)
    assert shown.code == 0
    assert "1 no_output, 1 verifier_error, 1 infrastructure_error" in shown.out
    said = [line for line in shown.err.splitlines() if line.startswith("Warning: ")]
    resume = f"`seatrial resume {job}` keeps what is there in damaged/ and runs the trial again"
    stray = f"it is no trial of this job, so move it out of {job / 'trials'}"
    assert said == [
        f"Warning: a-copy does not count: it holds the record of another trial, crc.oracle.1; {stray}",
        f"Warning: crc.oracle.1 does not count: its folder is gone, though the index names it; {resume}",
        f"Warning: volts.oracle.1 does not count: its record.json is no whole JSON; {resume}",
    ]
    document = json.loads(seatrial("show", job, "--json").out)
    assert [each["trial_id"] for each in document["uncounted"]] == ["a-copy", "crc.oracle.1", "volts.oracle.1"]
    assert document["summary"]["total"]["scored"] == 1


@pytest.mark.parametrize("command", ["show", "calls", "annotate"])
def test_a_trial_that_does_not_count_is_explained(seatrial: Seatrial, job, command):
    (job / "trials/volts.oracle.1/record.json").write_text("{")
    verdict = ("--judgment", "pass", "--reviewer", "ada") if command == "annotate" else ()
    shown = seatrial(command, job, "volts", *verdict)
    assert shown.code == 1
    assert "volts.oracle.1 does not count: its record.json is no whole JSON; `seatrial resume" in shown.err


def test_what_models_used_is_shown_per_agent_per_trial_and_as_json(seatrial: Seatrial, tmp_path):
    usage = ModelUsage(
        calls=2, input_tokens=1200, cached_tokens=200, output_tokens=34, cost_usd=0.5, prices="Seatrial 2026-11-16"
    )
    make_job(tmp_path / "job", record("crc", 1.0, model_usage=usage), record("volts", BROKEN, model_usage=usage))
    shown = [cells(line) for line in seatrial("show", tmp_path / "job").out.splitlines()]
    assert ["oracle", "4", "2,400", "68", "1.0000 USD", "0.5000", "1.0000"] in shown
    assert ["crc.oracle.1", "pass", "1", "2.0 s", "1,234", "0.5000 USD"] in shown
    document = json.loads(seatrial("show", tmp_path / "job", "--json").out)
    assert document["summary"]["agents"]["oracle"]["usage"]["cost_usd"] == 1.0
    assert document["trials"][0]["input_tokens"] == 1200
    told = seatrial("show", tmp_path / "job", "crc").out
    assert (
        "model       2 calls, 1,200 tokens in (200 cached), 34 out, 0.5000 USD by the prices of Seatrial 2026-11-16\n"
        in told
    )


def test_a_job_without_scored_trials_has_no_mean(seatrial: Seatrial, tmp_path):
    make_job(tmp_path / "job", record("disk", BROKEN))
    lines = seatrial("show", tmp_path / "job").out.splitlines()
    assert ["oracle", "-", "-", "-", "-", "0 of 1"] in [cells(line) for line in lines]
    assert "oracle: 1 infrastructure_error" in lines
    assert not [line for line in lines if "intervals over" in line], "no interval, so no word about one"


def test_a_job_that_has_not_begun_is_shown(seatrial: Seatrial, tmp_path):
    make_job(tmp_path / "job", missing_tasks=2)
    shown = seatrial("show", tmp_path / "job")
    assert (shown.code, "0 of 2\noracle: 2 not run yet\n" in shown.out) == (0, True)


def test_of_many_trials_the_worst_are_shown(seatrial: Seatrial, tmp_path):
    good = [record(f"good-{index}", 1.0) for index in range(60)]
    make_job(tmp_path / "job", *good, record("zz-bad", 0.0), record("zz-broken", BROKEN))
    short, full = seatrial("show", tmp_path / "job"), seatrial("show", tmp_path / "job", "--all")
    rows = short.out.split("time\n")[1].splitlines()
    assert [cells(row)[0] for row in rows[:2]] == ["zz-broken.oracle.1", "zz-bad.oracle.1"]
    assert len(rows) == 40
    assert "22 more trials, none worse; --all shows them" in short.err
    assert full.out.split("time\n")[1].count("\n") == 62
    assert "more trials" not in full.err


@pytest.fixture
def detailed(tmp_path):
    """A job with one trial that has something to say everywhere, and the folder of that trial."""
    stored = full_record("volts")
    store = make_job(tmp_path / "job", stored, record("volts-2", 1.0))
    folder = store.trial_folder(stored.trial_id)
    changes = FileChanges(added=tuple(f"/workspace/{index}" for index in range(12)), modified=("/etc/\x1b[2Jpasswd",))
    (folder / "changes.json").write_text(changes.model_dump_json())
    for name, text in {
        "agent/stdout.txt": "working\n" * 30 + "done\x1b]0;owned\x07\n",
        "verifier/stderr.txt": "oh",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return tmp_path / "job", stored, folder


def test_a_trial_is_told_in_full(seatrial: Seatrial, detailed):
    job, stored, folder = detailed
    shown = seatrial("show", job, stored.trial_id)
    assert shown.code == 0
    for part in (
        "outcome     partial",
        "reward      0.5",
        "attempt     1, after 2 tries",
        "validity    output_parseable: yes, schema_valid: no, verifier_completed: yes",
        "drop       0.5 / 1.0  found 3 [2J",
        "count                 7",
        "unit_mismatch  mechanical\n",
        "agent       exited with 3 after 2.0 s",
        "isolation   guarded",
        "survivors   sleep 1000",
        "put back    /usr/bin/python3",
        "verifier    exited with 1 after 0.5 s, its output was cut",
        "changes     12 added, 1 modified, 0 removed",
        "added       /workspace/0, /workspace/1, ",
        "/workspace/9 and 2 more",
        "modified    /etc/ [2Jpasswd",
        "not held    memory_mb 64",
        "used        1.25 s CPU, 3.0 MiB memory at the peak, 1 process killed for lack of memory",
        "first       -  exit 1    partial        0.5",
        "second      -  -         not judged       -",
        "agent        2.0 s  2026-05-01 12:00:00+00:00",
        "--- agent/stdout.txt\nworking\n",
        "done ]0;owned \n",
        "--- verifier/stderr.txt\noh\n",
        f"files       {folder}",
    ):
        assert part in shown.out
    assert shown.out.count("working") == 19
    assert "\x1b" not in shown.out
    assert "\x07" not in shown.out


def test_a_failed_trial_says_why(seatrial: Seatrial, job):
    shown = seatrial("show", job, "disk")
    assert "failure     the disk  [31mburns (SandboxError, while the sandbox was set up)" in shown.out
    assert "reward      none: the trial was never judged" in shown.out


def test_a_trial_as_json_is_its_record(seatrial: Seatrial, detailed):
    job, stored, _ = detailed
    assert TrialRecord.model_validate_json(seatrial("show", job, stored.trial_id, "--json").out) == stored


def test_a_part_of_the_name_is_enough_when_it_is_the_only_one(seatrial: Seatrial, job):
    assert "task        crc" in seatrial("show", job, "crc").out


def test_the_name_of_a_task_goes_before_a_part_of_another(seatrial: Seatrial, tmp_path):
    make_job(tmp_path / "job", record("crc", 1.0), record("crc-32", 0.0))
    assert "task        crc\n" in seatrial("show", tmp_path / "job", "crc").out


def test_an_ambiguous_name_is_refused_with_the_candidates(seatrial: Seatrial, detailed):
    job, stored, _ = detailed
    shown = seatrial("show", job, "olts")
    assert (shown.code, shown.out) == (2, "")
    assert f"'olts' is part of 2 trials of {job}: " in shown.err
    assert stored.trial_id in shown.err
    assert "give more of the name" in shown.err


@pytest.mark.parametrize(("name", "hint"), [("vlots", "did you mean volts"), ("xyz?!", "there are: crc.oracle.1, ")])
def test_a_trial_that_is_none_is_refused_with_what_there_is(seatrial: Seatrial, job, name, hint):
    shown = seatrial("show", job, name)
    assert shown.code == 2
    assert hint in shown.err


def test_a_damaged_list_of_changes_is_a_warning(seatrial: Seatrial, detailed):
    job, stored, folder = detailed
    (folder / "changes.json").write_text("{")
    shown = seatrial("show", job, stored.trial_id)
    assert shown.code == 0
    assert "changes.json cannot be read: " in shown.err


def test_tails_of_logs_are_bounded_and_follow_nothing(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"x" * 200_000 + b"\n" + b"a\tb\r\n\n\xff\n")
    tail = read_tail(log, tmp_path)
    assert tail[1:] == ["a   b", "", "\ufffd"]
    assert len(tail[0]) < 70_000
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    assert [read_tail(tmp_path / name, tmp_path) for name in ("link", "pipe", ".", "none")] == [[], [], [], []]


def test_a_terminal_gets_tables_and_is_not_steered(detailed):
    job, stored, _ = detailed
    shown = on_terminal((*SEATRIAL, "show", str(job)))
    assert "oracle  0.750" in shown
    assert "\x1b[32mpass" in shown
    trial = on_terminal((*SEATRIAL, "show", str(job), stored.trial_id))
    assert "drop       0.5 / 1.0" in trial
    for sequence in ("\x1b]0;", "\x1b[2J", "\x07"):
        assert sequence not in trial


def test_80_columns_cut_no_number(tmp_path):
    usage = ModelUsage(calls=12_345, input_tokens=1_234_567, output_tokens=98_765, cost_usd=12.3456)
    long = "a-task-whose-name-is-longer-than-anybody-would-like-it-to-be-on-a-narrow-screen"
    make_job(
        tmp_path / "job",
        record(long, 0.5, "an-agent-with-a-long-name", model_usage=usage, disputed_reward=1.0),
        record(long, BROKEN, "another-agent-with-a-long-name", model_usage=usage, tries=3),
    )
    shown = on_terminal((*SEATRIAL, "show", str(tmp_path / "job")), columns=80)
    for number in ("0.5 (or 1)", "1,333,332", "12.3456 USD", "2,469,134", "24.6912 USD", "2.0 s", "0.500"):
        assert number in shown
    assert "…" not in shown
    lines = [re.sub(r"\x1b\[\d*m", "", line) for line in shown.splitlines()]
    assert [line for line in lines if len(line) > 80 and ": " not in line and " · " not in line] == []


def test_show_works_where_no_sandbox_can_run():
    """Reading results needs none of what running does."""
    script = (
        "import sys; import seatrial.cli.show_command\n"
        "print(sorted(name for name in sys.modules if name in ('seatrial.sandbox.api', 'seatrial.jobs.api')))\n"
    )
    assert on_terminal((sys.executable, "-c", script)).strip() == "[]"


@pytest.fixture
def jobs(tmp_path):
    first = make_job(tmp_path / "a", record("crc", 1.0))
    second = make_job(tmp_path / "b", record("crc", 0.0))
    return str(first.path), str(second.path)


def test_folders_with_jobs_are_jobs_and_a_last_word_that_is_none_is_a_trial(jobs, tmp_path):
    assert [str(job) for job in read_words(jobs).jobs] == [*jobs]
    assert read_words(jobs).trial is None
    assert read_words((jobs[0], "crc")).trial == "crc"
    assert read_words(("anything",)).trial is None
    (tmp_path / "crc").mkdir()
    assert read_words((jobs[0], str(tmp_path / "crc"))).trial is not None, "a folder without a job"


@pytest.mark.parametrize("last", ["missing", "\x00", "x" * 5000])
def test_after_several_jobs_there_is_no_trial(jobs, last):
    with pytest.raises(UsageError, match="is no folder with a job, and a trial is shown of one job, not of 2"):
        read_words((*jobs, last))


def test_a_missing_folder_is_named_as_one(seatrial: Seatrial, jobs, tmp_path):
    shown = seatrial("show", jobs[0], tmp_path / "gone")
    assert shown.code == 2
    assert f"'{tmp_path}/gone' is no folder with a job, and {jobs[0]} has no finished trial" in shown.err
    between = seatrial("show", jobs[0], tmp_path / "gone", jobs[1])
    assert (between.code, between.out) == (2, "")
    assert f"{tmp_path}/gone: no such folder, so it is not a job" in between.err
    assert "is no folder" not in seatrial("show", jobs[0], "zzz").err


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
def two_agents(tmp_path):
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


def test_a_row_for_each_category_and_agent(seatrial: Seatrial, two_agents):
    shown = rows(seatrial("show", two_agents, "--by", "category").out)
    assert shown[1] == ["category", "agent", "tasks", "mean", "95 % interval", "pass rate", "scored"]
    table = {(row[0], row[1]): row[2:] for row in shown[2:8]}
    assert [*table["maths", "good"][:2], *table["maths", "good"][3:]] == ["1", "1.000", "100.0%", "2 of 2"]
    assert table["(none)", "good"][-1] == "1 of 2"
    assert shown[8][0].startswith("95 % intervals over 1 task:")


def test_a_task_with_several_tags_counts_in_each_and_that_is_said(seatrial: Seatrial, two_agents):
    shown = seatrial("show", two_agents, "--by", "tag").out
    assert "A task with several tags counts in the row of each.\n" in shown
    assert [row[:3] for row in rows(shown)[2:4]] == [["a", "good", "2"], ["a", "weak", "2"]]


def test_tasks_have_counts_and_are_sorted(seatrial: Seatrial, two_agents):
    shown = rows(seatrial("show", two_agents, "--by", "task", "--sort", "-mean").out)
    assert shown[1] == ["task", "agent", "mean", "passed", "scored", "time", "cost"]
    assert shown[2] == ["prove", "good", "0.000", "0 of 1", "1 of 2", "2.0 s", "1.0000 USD"]
    assert shown[-1][:3] == ["add", "good", "1.000"]
    assert rows(seatrial("show", two_agents, "--by", "task", "--sort", "mean").out)[2][:3] == ["add", "good", "1.000"]


def test_outcomes_have_shares(seatrial: Seatrial, two_agents):
    shown = rows(seatrial("show", two_agents, "--by", "outcome").out)
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


def test_attempts_are_told_where_there_are_several(seatrial: Seatrial, two_agents):
    shown = seatrial("show", two_agents).out
    assert "good: of 3 tasks, 1 always passed, 1 never, 1 sometimes\n" in shown
    pass_at = [row for row in rows(shown) if row[:2] in (["good", "2"], ["weak", "2"])]
    assert [(row[0], row[2], row[4], row[6]) for row in pass_at] == [
        ("good", "1.000", "0.500", "2"),
        ("weak", "0.333", "0.000", "3"),
    ]
    asked = seatrial("show", two_agents, "--k", "1,9").out
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
def test_options_that_are_wrong_are_named(seatrial: Seatrial, two_agents, option, value, words):
    shown = seatrial("show", two_agents, option, value)
    assert (shown.code, shown.out) == (2, "")
    assert words in shown.err


def test_trials_chosen_by_their_verdict_have_no_mean(seatrial: Seatrial, two_agents):
    shown = seatrial("show", two_agents, "--where", "outcome=fail").out
    assert "5 of 12 finished trials, those where outcome=fail\n" in shown
    assert "These trials were chosen by their verdict, so a mean of them would say nothing." in shown
    assert "95 %" not in shown
    grouped = rows(seatrial("show", two_agents, "--where", "reward<1", "--by", "task").out)
    assert grouped[2][:5] == ["task", "agent", "tasks", "trials", "share"]
    chosen = seatrial("show", two_agents, "--where", "task=add").out
    assert ["good", "1.000"] in [row[:2] for row in rows(chosen)], "tasks may be chosen"


def test_several_jobs_have_a_row_for_each_of_their_agents(seatrial: Seatrial, two_agents, tmp_path):
    make_job(tmp_path / "other", record("add", 0.0, "good"))
    shown = seatrial("show", two_agents, tmp_path / "other")
    assert [line.split(" ·")[0] for line in shown.out.splitlines()[:2]] == ["job", "other"]
    assert [row[0] for row in rows(shown.out)[3:6]] == ["good (job)", "weak", "good (other)"]
    document = json.loads(seatrial("show", two_agents, tmp_path / "other", "--json", "--heat", "--by", "agent").out)
    assert [each["job"]["spec"]["name"] for each in document["jobs"]] == ["job", "other"]
    assert [arm["label"] for arm in document["arms"]] == ["good (job)", "weak", "good (other)"]
    assert [group["name"] for group in document["grouped"]["groups"]] == ["good", "weak"]
    assert document["heat"]["tasks"][-1] == "prove"
    assert len(document["heat"]["cells"][0]) == 3


def test_the_document_of_one_job_keeps_its_place_and_gets_more(seatrial: Seatrial, two_agents):
    document = json.loads(seatrial("show", two_agents, "--json").out)
    assert {"folder", "job", "summary", "trials", "uncounted", "annotations", "arms", "failures"} <= {*document}
    figures = document["arms"][0]["figures"]
    assert figures["pass_at"]["2"]["value"] == 1.0
    assert figures["stability"] == {"tasks": 3, "always": 1, "never": 1, "flaky": 1}
    assert figures["cost_per_solved"] == 1.0
    assert document["summary"]["agents"]["good"]["pass_interval"] is not None


def test_a_heat_map_in_a_pipe(seatrial: Seatrial, two_agents):
    assert seatrial("show", two_agents, "--heat").out.splitlines()[1:5] == [
        "task   good    weak",
        "add    █ 1.00  ▒ 0.50",
        "sort   ▒ 0.50  . 0.00",
        "prove  . 0.00  ░ 0.25",
    ]


@pytest.mark.whole
def test_colours_are_for_terminals_that_want_them(two_agents):
    command = (*SEATRIAL, "show", str(two_agents), "--heat")
    assert "\x1b[32m█" in on_terminal(command, columns=80)
    assert "\x1b" not in start("show", two_agents, "--heat").out
    plain = on_terminal(("env", "NO_COLOR=1", *command), columns=80)
    assert "\x1b" not in plain
    assert "█ 1.00" in plain


VIEWS = ((), ("--heat",), ("--by", "task"), ("--by", "agent"), ("--by", "category"), ("--by", "outcome"))


def screen(two_agents, *more: str) -> list[str]:
    shown = on_terminal((*SEATRIAL, "show", str(two_agents), *more), columns=80)
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


def test_show_loads_no_numerics(two_agents):
    script = (
        "import sys; from seatrial.cli import main; main.run(['show', sys.argv[1], '--heat', '--by', 'task'])\n"
        "main.run(['show', sys.argv[1]])\n"
        "print(sorted(name for name in ('numpy', 'scipy', 'jinja2', 'rich') if name in sys.modules))\n"
    )
    assert on_terminal((sys.executable, "-c", script, str(two_agents))).splitlines()[-1] == "[]"


def test_limits_that_did_not_hold_are_seen_in_the_job_and_in_the_trial(seatrial: Seatrial, tmp_path):
    weak = SandboxRef(
        backend="local",
        image="host",
        limits_asked=LimitSpec(cpus=1, memory_mb=512),
        limits_enforced=LimitSpec(cpus=1),
        network="host",
        network_asked="none",
    )
    never = record("t3", BROKEN, sandbox=weak)
    make_job(tmp_path / "job", record("t1", 1.0, sandbox=weak), record("t2", 0.0, sandbox=weak), never)
    said = "limits that were asked for and not enforced: memory_mb (2 trials), network (2 trials)"
    assert f"oracle: {said}" in seatrial("show", tmp_path / "job").out.splitlines()
    assert cells("not held    memory_mb 512, network none") in [
        cells(line) for line in seatrial("show", tmp_path / "job", "t1").out.splitlines()
    ]
    total = json.loads(seatrial("show", tmp_path / "job", "--json").out)["summary"]["total"]
    assert total["unheld"] == {"memory_mb": 2, "network": 2}
