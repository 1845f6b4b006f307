"""Runs that end badly, as real processes: killed, interrupted, or two at once. The job is none the worse."""

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from seatrial.errors import JobError
from seatrial.jobs.prepare import prepare_job
from seatrial.jobs.resume import prepare_resume
from seatrial.model.job import RunOptions
from seatrial.store.job_store import JobStore
from tests.conftest import sampled

ENGINE = """
import asyncio, os, sys
from pathlib import Path
from seatrial.backends import named
from seatrial.backends.named import BackendPlugin
from seatrial.jobs import api, local
from seatrial.testing.null import NullBackend
from seatrial.trial.events import TrialFinished
from tests.jobs.samples import record_for

folder, stuck = Path(sys.argv[1]), sys.argv[2]

def say(*words):
    os.write(1, (" ".join(words) + "\\n").encode())

async def trial(spec, machinery, place, observe):
    say("ran", spec.trial_id)
    (place / "log.txt").write_text(spec.trial_id)
    if spec.task.id == stuck:
        try:
            await asyncio.Event().wait()
        finally:
            say("going", spec.trial_id)
            await asyncio.sleep(0.1)  # long enough for another signal to arrive
            say("down", spec.trial_id)
    return record_for(spec)

def observe(event):
    if isinstance(event, TrialFinished):
        say("finished", event.record.trial_id)

named.find_backend = lambda _: BackendPlugin(NullBackend)
local.run_trial = trial
outcome = asyncio.run(api.run_prepared(api.prepare_resume(folder), observe))
say("outcome", outcome.stopped, str(outcome.finished))
"""


class Engine:
    """A process that carries out a job; what it says can be waited for."""

    def __init__(self, folder: Path, stuck: str = "") -> None:
        command = [sys.executable, "-c", ENGINE, str(folder), stuck]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.said: list[tuple[str, ...]] = []
        self.complaint = ""

    def listen(self, word: str = "", times: int = 1) -> None:
        """Until it has said a word so often, or to its end."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(tuple(line.split()))
            if word and self.count(word) == times:
                return

    def count(self, word: str) -> int:
        return sum(said[0] == word for said in self.said)

    def trials(self, word: str) -> list[str]:
        return [said[1] for said in self.said if said[0] == word]

    def end(self) -> int:
        self.listen()
        _, self.complaint = self.process.communicate()
        return self.process.returncode


@pytest.fixture
def folder(spec, tmp_path) -> Path:
    """A job of 51 trials, nothing done yet."""
    return prepare_job(
        spec.model_copy(update={"attempts": 17, "run": RunOptions(concurrent=4)}), tmp_path / "job"
    ).store.path


@pytest.mark.parametrize("moment", sampled([1, 7, 20, 45]))
def test_killed_in_the_middle_and_resumed(folder, moment):
    first = Engine(folder)
    first.listen("finished", moment)
    first.process.kill()
    assert first.end() == -signal.SIGKILL
    kept = JobStore.open(folder).finished()
    assert set(first.trials("finished")) <= kept, "what was said to be finished must be stored"

    second = Engine(folder)
    assert second.end() == 0
    assert not set(second.trials("ran")) & kept, "nothing is run twice"
    assert kept | set(second.trials("ran")) == {
        f"{task}.noop.{n}" for task in ("add", "merge", "sort") for n in range(1, 18)
    }
    entries = JobStore.open(folder).entries()
    assert Counter(entry.trial_id for entry in entries).most_common(1)[0][1] == 1
    assert len(entries) == 51
    assert {entry.outcome for entry in entries} == {"pass"}
    assert list((folder / ".drafts").iterdir()) == []


@pytest.mark.parametrize("times", sampled([1, 2, 5]))
def test_interrupted_once_or_more(folder, times):
    engine = Engine(folder, stuck="sort")
    engine.listen("finished", 2)
    engine.process.send_signal(signal.SIGINT)
    engine.listen("going")
    for _ in range(times - 1):
        engine.process.send_signal(signal.SIGINT)
    assert engine.end() != 0
    assert "KeyboardInterrupt" in engine.complaint
    store = JobStore.open(folder)
    assert "outcome" not in {said[0] for said in engine.said}
    assert all(not name.startswith("sort") for name in store.finished())
    assert sorted(engine.trials("down")) == sorted(name for name in engine.trials("ran") if name.startswith("sort"))
    assert list((folder / ".drafts").iterdir()) == []

    assert Engine(folder).end() == 0
    assert len(store.entries()) == 51


@pytest.mark.whole
def test_a_second_run_on_the_same_folder_is_refused(folder):
    first = Engine(folder, stuck="add")
    first.listen("ran")
    second = Engine(folder)
    assert second.end() != 0
    assert f"another run (pid {first.process.pid}) is working on this job" in second.complaint
    with pytest.raises(JobError, match="another run"), JobStore.open(folder).lock():
        pass
    first.process.kill()
    first.end()
    assert prepare_resume(folder).trials
