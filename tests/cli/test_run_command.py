"""`seatrial run`: what it prints and how it ends, with scripted trials in the real engine and store."""

import json
import os
import signal
from collections.abc import Callable

import pytest

from seatrial.cli import running
from seatrial.errors import StoreError
from seatrial.report.tables import estimate_cells, share_cells
from seatrial.stats.estimates import estimate_mean
from seatrial.store.job_store import JobStore
from tests.cli.conftest import Seatrial, cells, start
from tests.cli.job_folders import BROKEN, FLAKY, Behaviour, ScriptedEngine
from tests.conftest import MakeTask

Engine = Callable[..., ScriptedEngine]


@pytest.fixture
def tasks(make_task: MakeTask, tmp_path):
    """Two tasks in a folder."""
    make_task("tasks/crc")
    make_task("tasks/volts")
    return tmp_path / "tasks"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Have trials end as a script says."""

    def install(crc: Behaviour = 1.0, volts: Behaviour = 0.0) -> ScriptedEngine:
        made = ScriptedEngine({"crc": crc, "volts": volts})
        monkeypatch.setattr(running, "run_prepared", made)
        return made

    return install


def test_lines_in_a_pipe(seatrial: Seatrial, engine: Engine, tasks, tmp_path):
    engine(crc=1.0, volts=0.25)
    shown = seatrial("run", "-p", tasks, "-a", "noop", "-n", 1, "-o", tmp_path / "job")
    assert shown.code == 0
    head, first, second, columns, row, method, outcomes = shown.out.splitlines()
    assert head == f"{tmp_path}/job: 2 trials"
    assert cells(first) == ["[1/2] pass", "1", "2.0 s", "crc.noop.1"]
    assert cells(second) == ["[2/2] partial", "0.25", "2.0 s", "volts.noop.1"]
    assert first.index("crc.") == second.index("volts.")
    assert cells(columns) == ["agent", "mean", "95 % interval", "pass rate", "pass interval", "scored"]
    mean, passed = estimate_cells(estimate_mean([[1.0], [0.25]])), share_cells(estimate_mean([[1.0], [0.0]]))
    assert cells(row) == ["noop", *mean, *passed, "2 of 2"]
    assert method.startswith("95 % intervals over 2 tasks: as if two more were solved and two more failed")
    assert outcomes == "noop: 1 pass, 1 partial"
    assert shown.err == f"Look at it with: seatrial show {tmp_path}/job\n"


def test_quiet_shows_only_the_summary(seatrial: Seatrial, engine: Engine, tasks, tmp_path):
    engine()
    shown = seatrial("run", "-q", "-p", tasks, "-a", "noop", "-o", tmp_path / "job")
    assert cells(shown.out)[:2] == ["agent", "mean"]


def test_json_is_one_object_per_line(seatrial: Seatrial, engine: Engine, tasks, tmp_path):
    engine(crc=[FLAKY, 1.0], volts=BROKEN)
    shown = seatrial("run", "--json", "-p", tasks, "-a", "noop", "-n", 1, "-o", tmp_path / "job", "--fail-under", 0.5)
    events = [json.loads(line) for line in shown.out.splitlines()]
    kinds = "job_started trial_started phase phase retry trial_started phase phase trial_finished"
    kinds += " trial_started phase phase trial_finished job_finished"
    assert [event["event"] for event in events] == kinds.split()
    assert events[0] | {"time": ""} == {
        "event": "job_started",
        "time": "",
        "job": "job",
        "folder": f"{tmp_path}/job",
        "planned": 2,
        "finished": 0,
    }
    by_kind = {event["event"]: event for event in events}
    assert by_kind["phase"]["step"] == "first"
    assert by_kind["retry"]["failure"]["cause"] == "SandboxError"
    finished = [event for event in events if event["event"] == "trial_finished"]
    assert [(event["outcome"], event["reward"], event["tries"], event["agent"]) for event in finished] == [
        ("pass", 1.0, 2, "noop"),
        ("infrastructure_error", None, 1, "noop"),
    ]
    end = by_kind["job_finished"]
    assert (end["ended"], end["exit_code"]) == ("complete", shown.code) == ("complete", 1)
    assert end["summary"]["agents"]["noop"]["mean"] == 1.0
    assert end["summary"]["total"]["infrastructure"] == 1
    assert shown.out.isascii()
    assert shown.err == ""


def test_a_strangers_message_does_not_steer_the_terminal(seatrial: Seatrial, engine: Engine, tasks, tmp_path):
    engine(crc=[FLAKY, 1.0], volts=BROKEN)
    shown = seatrial("run", "-p", tasks, "-a", "noop", "-n", 1, "-o", tmp_path / "job")
    assert "\x1b" not in shown.out
    assert "[0/2] trying again" in shown.out
    assert "crc.noop.1: the disk  [31mburns (SandboxError, while the sandbox was set up)" in shown.out
    assert "volts.noop.1: the same as crc.noop.1" in shown.out


@pytest.mark.parametrize(("gate", "code"), [((), 0), (("--fail-under", 0.5), 0), (("--fail-under", 0.6), 1)])
def test_a_mean_below_the_gate_exits_with_1(seatrial: Seatrial, engine: Engine, tasks, tmp_path, gate, code):
    engine(crc=1.0, volts=0.0)
    shown = seatrial("run", "-p", tasks, "-a", "noop", "-o", tmp_path / "job", *gate)
    assert shown.code == code
    assert ("noop: mean reward 0.5 is below --fail-under 0.6" in shown.err) == bool(code)


@pytest.mark.parametrize(("share", "code"), [(None, 1), (0.4, 1), (0.5, 0)])
def test_trials_that_could_not_be_run_exit_with_1(seatrial: Seatrial, engine: Engine, tasks, tmp_path, share, code):
    engine(volts=BROKEN)
    gate = () if share is None else ("--max-failed", share)
    shown = seatrial("run", "-p", tasks, "-a", "noop", "-o", tmp_path / "job", *gate)
    assert shown.code == code
    assert ("1 of 2 trials could not be run" in shown.err) == bool(code)


def test_nothing_scored_is_no_mean_and_passes_no_gate(seatrial: Seatrial, engine: Engine, tasks, tmp_path):
    engine(crc="verifier_error", volts="verifier_error")
    shown = seatrial("run", "-p", tasks, "-a", "noop", "-o", tmp_path / "job", "--fail-under", 0.0)
    assert shown.code == 1
    assert "0 of 2" in shown.out
    assert "noop: no scored trials, --fail-under wants" in shown.err


def test_a_budget_that_stops_the_job_exits_with_1(seatrial: Seatrial, engine: Engine, tasks, tmp_path):
    engine()
    shown = seatrial("run", "-p", tasks, "-a", "noop", "-n", 1, "--max-trials", 1, "-o", tmp_path / "job")
    assert shown.code == 1
    assert f"--max-trials allows have been started. Continue with: seatrial resume {tmp_path}/job" in shown.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("as_json", [(), ("--json",)], ids=["words", "json"])
def test_interrupted_is_130_and_can_be_resumed(seatrial: Seatrial, engine: Engine, tasks, tmp_path, number, as_json):
    made = engine(crc=1.0, volts=lambda: os.kill(os.getpid(), number))
    before = signal.getsignal(number)
    shown = seatrial("run", "-p", tasks, "-a", "noop", "-n", 1, "-o", tmp_path / "job", *as_json)
    assert shown.code == 130
    assert signal.getsignal(number) == before
    if as_json:
        assert json.loads(shown.out.splitlines()[-1])["ended"] == "interrupted"
    else:
        assert f"seatrial resume {tmp_path}/job" in shown.err
    assert len(JobStore.open(tmp_path / "job").finished()) == 1
    made.script["volts"] = 0.0
    assert seatrial("resume", tmp_path / "job").code == 0
    assert [name.partition(".")[0] for name in made.ran] == ["crc", "volts", "volts"]


def test_a_second_signal_does_not_disturb_the_tidying_up(seatrial: Seatrial, engine: Engine, tasks, tmp_path):
    def hang_up():
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)

    engine(crc=1.0, volts=hang_up)
    shown = seatrial("run", "-p", tasks, "-a", "noop", "-n", 1, "-o", tmp_path / "job")
    assert shown.code == 130
    assert list((tmp_path / "job/.drafts").iterdir()) == []


@pytest.mark.parametrize("as_json", [(), ("--json",)], ids=["words", "json"])
def test_a_full_disk_ends_with_how_to_go_on(seatrial: Seatrial, monkeypatch, tasks, tmp_path, as_json):
    async def fail(*_: object) -> None:
        raise StoreError("/jobs: no space left")

    monkeypatch.setattr(running, "run_prepared", fail)
    shown = seatrial("run", "-p", tasks, "-a", "noop", "-o", tmp_path / "job", *as_json)
    assert shown.code == 1
    assert "Error: /jobs: no space left" in shown.err
    if as_json:
        end = json.loads(shown.out.splitlines()[-1])
        assert (end["ended"], end["exit_code"], end["summary"]) == ("failed", 1, None)
    else:
        assert f"Continue with: seatrial resume {tmp_path}/job" in shown.err


def test_what_is_left_out_is_said(seatrial: Seatrial, engine: Engine, make_task: MakeTask, tasks, tmp_path):
    engine()
    make_task("tasks/broken", toml="[agent]\ntimeout_sec = 'soon'\n")
    shown = seatrial("run", "-p", tasks, "-a", "noop", "-o", tmp_path / "job")
    assert "Note: task broken is left out" in shown.err
    assert "1 task left out: cannot be read as a task (broken)" in shown.out


def test_refused_and_declined_tasks_are_counted_at_the_start_at_the_end_and_in_show(
    seatrial: Seatrial, engine: Engine, make_task: MakeTask, tasks, tmp_path
):
    engine()
    make_task("tasks/crc", files={"solution/solve.sh": ""})
    make_task("tasks/net", files={"environment/compose.yaml": "services: {main: {}, db: {}}"})
    shown = seatrial("run", "-p", tasks, "-a", "oracle", "-o", tmp_path / "job")
    assert shown.code == 0
    assert f"{tmp_path}/job: 1 trial\n" in shown.out
    lines = (
        "1 task refused: a compose file asks for more than the Dockerfile gives (net)",
        "1 task left out for oracle: no solution (volts)",
    )
    again = seatrial("show", tmp_path / "job")
    for line in lines:
        assert f"Note: {line}" in shown.err
        assert line in shown.out
        assert line in again.out
    assert "Note: net asks for the service db (environment/compose.yaml)" in shown.err
    counted = json.loads(seatrial("show", tmp_path / "job", "--json").out)["summary"]["left_out"]
    assert [(entry["kind"], entry["agent"], entry["tasks"]) for entry in counted] == [
        ("refused", None, 1),
        ("declined", "oracle", 1),
    ]


def test_tasks_with_errors_are_refused_unless_forced(
    seatrial: Seatrial, engine: Engine, make_task: MakeTask, tasks, tmp_path
):
    ran = engine().ran
    make_task("tasks/crc", files={"tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/rewards.txt\n"})
    shown = seatrial("run", "-p", tasks, "-a", "noop", "-o", tmp_path / "job")
    assert (shown.code, ran) == (2, [])
    assert "  crc: [reward-near-miss] tests/test.sh: names rewards.txt, which is never read\n" in shown.err
    assert not (tmp_path / "job").exists()
    assert seatrial("run", "-p", tasks, "-a", "noop", "-o", tmp_path / "job", "--force").code == 0
    assert JobStore.open(tmp_path / "job").file.spec.trial.unfit == "run"
    assert seatrial("resume", tmp_path / "job").code == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["-a", "noop"], "no tasks; name a task"),
        (["-p", "TASKS"], "no agent; name one with -a"),
        (["-p", "/nowhere", "-a", "noop"], "/nowhere: no such file or folder"),
        (["-p", "TASKS", "-a", "orakel"], "no agent called 'orakel'; there are: "),
        (["-p", "TASKS", "-a", "command"], "needs a command"),
        (["-p", "TASKS", "-a", "noop", "-a", "noop"], "two agents are called 'noop'"),
        (["-p", "TASKS", "-a", "noop", "-e", "moon"], "no sandbox backend called 'moon'"),
        (["-p", "TASKS", "-a", "noop", "--image", "/nowhere"], "image /nowhere: expected a folder"),
        (["-p", "TASKS", "-a", "noop", "--include", "zzz"], "none is left to run"),
        (["-p", "TASKS", "-a", "noop", "-k", "0"], "0 is not in the range x>=1"),
        (["-p", "TASKS", "-a", "noop", "--seed", "3"], "give --shuffle too"),
        (["-p", "TASKS", "-a", "noop", "--max-wall", "soon"], "'soon' is no length of time"),
        (["-p", "TASKS", "-a", "noop", "--timeout-multiplier", "2", "--agent-timeout-multiplier", "3"], "give one of"),
        (["--job", "/nowhere.toml"], "/nowhere.toml: the job file cannot be read"),
    ],
    ids=lambda value: " ".join(value)[-30:] if isinstance(value, list) else "",
)
def test_a_job_that_cannot_be_is_a_usage_error(seatrial: Seatrial, tasks, tmp_path, arguments, complaint):
    given = [str(tasks) if argument == "TASKS" else argument for argument in arguments]
    shown = seatrial("run", *given, "-o", tmp_path / "job")
    assert (shown.code, shown.out) == (2, "")
    assert complaint in shown.err
    assert not (tmp_path / "job").exists()


def test_a_folder_that_is_taken_is_refused(seatrial: Seatrial, engine: Engine, tasks, tmp_path):
    engine()
    assert seatrial("run", "-p", tasks, "-a", "noop", "-o", tmp_path / "job").code == 0
    again = seatrial("run", "-p", tasks, "-a", "noop", "-o", tmp_path / "job")
    assert again.code == 2
    assert f"{tmp_path}/job" in again.err


def test_the_default_folder_is_named_after_the_time(seatrial: Seatrial, engine: Engine, tasks, tmp_path, monkeypatch):
    engine()
    monkeypatch.chdir(tmp_path)
    assert seatrial("run", tasks, "-a", "noop").code == 0
    (folder,) = (tmp_path / "jobs").iterdir()
    assert JobStore.open(folder).file.spec.name == folder.name


def test_a_user_never_sees_a_traceback(tasks):
    shown = start("run", "-p", tasks, "-a", "orakel")
    assert shown.code == 2
    assert "Traceback" not in shown.err
