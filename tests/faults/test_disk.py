"""A disk that fills up beside honest trials: by one of them, or by a stranger."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import pytest

from seatrial.jobs.api import prepare_job, run_prepared
from seatrial.model.events import Notice
from seatrial.model.job import AgentOptions, JobSpec, RunOptions, TrialOptions
from seatrial.trial.events import Event, PhaseStarted, TrialRetried
from tests.conftest import sampled
from tests.faults.crowds import assert_fair, assert_own_doing, command, python_solution, run, write_crowd
from tests.faults.places import small_file_system

FILL = "#!/bin/sh\nsleep 0.3\nhead -c 200000000 /dev/zero > /app/fill\nsleep 30\n"
MANY_FILES = python_solution("""
import os, time
time.sleep(0.3)
os.mkdir("/app/many")
try:
    for number in range(100_000):
        open(f"/app/many/{number}", "w").close()
except OSError:
    time.sleep(30)
""")
HONEST = 4


@pytest.mark.parametrize(
    ("options", "greedy"),
    sampled([(("size=48m",), FILL), (("size=48m", "nr_inodes=4000"), MANY_FILES)]),
    ids=["bytes", "inodes"],
)
def test_one_trial_that_fills_the_disk_has_its_zero_and_the_others_have_their_reward(tmp_path, options, greedy):
    tasks = write_crowd(tmp_path / "tasks", HONEST, greedy=greedy)
    with small_file_system(tmp_path / "small", *options) as small:
        run(command(tasks, small / "job"), {**os.environ, "SEATRIAL_STATE_DIR": str(small / "state")})
        others = assert_fair(small / "job", HONEST)
        assert_own_doing(others["greedy"])


class Stranger:
    """Fills a file system when the first agent starts, and makes room when trials were seen to wait for it."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "of-somebody-else"
        self.heard: list[str] = []

    def __call__(self, event: Event) -> None:
        if isinstance(event, PhaseStarted) and event.phase == "agent" and not self.heard:
            self.heard.append("filled")
            with suppress(OSError), self._file.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(2**16))
        elif isinstance(event, TrialRetried):
            self.heard.append(event.failure.message)
        elif isinstance(event, Notice) and "waiting" in event.text:
            self.heard.append(event.text)
            self._file.unlink(missing_ok=True)


@pytest.mark.parametrize("state", sampled(["here", "elsewhere"]))
def test_what_a_stranger_fills_costs_nobody_a_reward(tmp_path, monkeypatch, state):
    tasks = write_crowd(tmp_path / "tasks", HONEST)
    with small_file_system(tmp_path / "small", "size=48m") as small:
        monkeypatch.setenv("SEATRIAL_STATE_DIR", str((small if state == "here" else tmp_path) / "state"))
        spec = JobSpec(
            name="faults",
            tasks=(str(tasks),),
            agents=(AgentOptions(name="oracle"),),
            trial=TrialOptions(image="host"),
            run=RunOptions(concurrent=HONEST, host_wait_sec=60.0),
        )
        stranger = Stranger(small)
        asyncio.run(run_prepared(prepare_job(spec, small / "job"), stranger))
        assert assert_fair(small / "job", HONEST) == {}
        filled, *told = stranger.heard
        assert filled == "filled"
        assert told
        for message in told:
            assert f"the file system at {small} is full" in message
            assert "something else has taken it" in message
