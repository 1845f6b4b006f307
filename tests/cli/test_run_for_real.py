"""The main job as users run it: real processes, real sandboxes, real tasks."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from seatrial.jobs.api import prepare_resume
from seatrial.store.job_store import JobStore
from tests.cli.conftest import PLAIN_ENVIRONMENT, SEATRIAL, on_terminal, start
from tests.cli.test_gc_command import why_no_sandbox
from tests.conftest import REPOSITORY, sampled

# An ordinary user can limit processors and memory only where control groups are delegated.
RUN = ("run", "-p", REPOSITORY / "examples/tasks/voltage-drop", "--allow-partial-limits")


@pytest.fixture(autouse=True)
def _sandboxes_run_here():
    if reason := why_no_sandbox():
        pytest.skip(f"embedded sandbox: {reason}")


def test_oracle_passes_noop_does_not_and_the_answer_is_among_the_changes(tmp_path):
    done = start(*RUN, "-a", "oracle", "-a", "noop", "-o", tmp_path / "job")
    assert done.code == 0, done.err
    entries = JobStore.open(tmp_path / "job").entries()
    assert {entry.agent: entry.reward for entry in entries} == {"oracle": 1.0, "noop": 0.0}
    shown = start("show", tmp_path / "job", "oracle")
    assert "outcome     pass" in shown.out
    assert "added       /workspace/report.md" in shown.out


@pytest.mark.whole
def test_a_broken_verifier_counts_for_nobody_and_is_named_once(tmp_path, make_task):
    files = {"tests/test.sh": "#!/bin/sh\ntest -e /app/x\n", "solution/solve.sh": "#!/bin/sh\ntouch /app/x\n"}
    task = make_task("mute", toml='[environment]\nnetwork_mode = "no-network"\n', files=files)
    run = ("run", "-p", task, "-a", "oracle", "-a", "noop", "-k", 2, "--image", "host")
    done = start(*run, "-o", tmp_path / "job")
    assert done.out.count("mute: the verifier gives no verdict even where no agent has been") == 1
    assert {entry.outcome for entry in JobStore.open(tmp_path / "job").entries()} == {"verifier_error"}
    shown = start("show", tmp_path / "job", "oracle.1")
    assert "baseline    the verifier gives no verdict even where no agent has been" in shown.out
    again = start(*run, "-o", tmp_path / "again", "--verdict", "exit_status")
    assert again.code == 0, again.err
    entries = JobStore.open(tmp_path / "again").entries()
    assert {(entry.agent, entry.outcome) for entry in entries} == {("oracle", "pass"), ("noop", "fail")}


@pytest.mark.whole
def test_what_an_agent_prints_is_in_the_tail_and_steers_nothing(tmp_path):
    command = r"printf 'one\ntwo \033]0;owned\007 three\n'"
    done = start(*RUN, "--command", command, "-o", tmp_path / "job")
    assert done.code == 0, done.err
    shown = on_terminal((*SEATRIAL, "show", str(tmp_path / "job"), "command"))
    assert "two  ]0;owned  three" in shown
    assert "\x1b]0;" not in shown


@contextmanager
def at_work(job: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A run whose agent has begun and would take its time."""
    arguments = (*RUN, "--command", "sleep 1000", "-o", job, "--json")
    with subprocess.Popen(
        [*SEATRIAL, *map(str, arguments)],
        env={**PLAIN_ENVIRONMENT, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        next(line for line in run.stdout if json.loads(line).get("phase") == "agent")
        yield run


@pytest.mark.parametrize("number", sampled([signal.SIGINT, signal.SIGTERM, signal.SIGHUP]))
def test_interrupted_in_the_middle_it_ends_clean_and_can_go_on(tmp_path, number):
    with at_work(tmp_path / "job") as run:
        run.send_signal(number)
        out, errors = run.communicate()
    last = json.loads(out.splitlines()[-1])
    assert (run.returncode, last["ended"], last["exit_code"]) == (130, "interrupted", 130)
    assert "Traceback" not in errors
    store = JobStore.open(tmp_path / "job")
    assert store.finished() == set()
    assert list((store.path / ".drafts").iterdir()) == []
    # The trial would take its thousand seconds again; that it is the one to be run is enough to know.
    assert [plan.trial_id for plan in prepare_resume(store.path).trials] == ["voltage-drop.command.1"]


@pytest.mark.whole
def test_what_a_killed_run_left_is_collected(tmp_path):
    state = {"SEATRIAL_STATE_DIR": str(tmp_path / "state")}
    with at_work(tmp_path / "job", **state) as run:
        (left,) = (tmp_path / "state").iterdir()
        run.kill()
        run.wait()
    done = start("gc", tmp_path / "job", **state)
    assert done.code == 0, done.err
    assert f"removed {left}\n" in done.out
    assert f"{tmp_path}/job: removed 1 half-written trial\n" in done.out
    assert list((tmp_path / "state").iterdir()) == []
