"""`seatrial show`: the job with its denominators, one trial with its evidence, and no power over the terminal."""

import json
import os
import re
import sys

import pytest

from seatrial.cli.trial_view import read_tail
from seatrial.model.record import FileChanges, ModelUsage, TrialRecord
from seatrial.report.text import estimate_cells, share_cells
from seatrial.stats.estimates import estimate_mean
from tests.cli.conftest import SEATRIAL, Seatrial, cells, on_terminal
from tests.cli.job_folders import BROKEN, full_record, make_job, record


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
