"""Trajectories at the end of a trial: none that cannot be made changes anything but what is told."""

import asyncio

import pytest

from seatrial.model.record import ModelUsage
from seatrial.trajectories import atif
from seatrial.trial.events import Event
from seatrial.trial.log import TrialLog
from seatrial.trial.rounds import rounds_of
from seatrial.trial.steps import keep_trajectories
from tests.trial.support import trial_spec, write_task


@pytest.mark.parametrize(
    ("content", "limit", "told"),
    [
        (b'{"index":', 100, "no trajectory was made: ValidationError"),
        (b"x" * 101, 100, "calls.jsonl has 101 bytes; `seatrial export` makes a trajectory of it"),
        (b"", 100, None),
        (None, 100, None),
    ],
)
def test_what_cannot_be_made_is_told(tmp_path, monkeypatch, content, limit, told):
    monkeypatch.setattr(atif, "MOST_BYTES", limit)
    spec = trial_spec(write_task(tmp_path / "task"), "true")
    heard: list[Event] = []
    log = TrialLog(spec, heard.append)
    log.begin(rounds_of(spec.task)[0]).model_usage = ModelUsage()
    if content is not None:
        (tmp_path / "calls.jsonl").write_bytes(content)
    asyncio.run(keep_trajectories(log, tmp_path))
    assert [told in str(event) for event in heard] == ([True] if told else [])
    assert not (tmp_path / "agent" / "trajectory.json").exists()
