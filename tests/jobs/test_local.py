"""The local engine: how much of this machine it uses. What it carries out is tested in `test_carry_out`."""

import asyncio

import pytest

from seatrial.errors import UsageError
from seatrial.jobs.api import prepare_job, run_prepared
from seatrial.jobs.engine import make_engine
from seatrial.jobs.local import affordable
from seatrial.model.events import Notice
from seatrial.model.job import RunOptions
from tests.jobs.samples import Watcher, job_spec


def test_too_few_file_descriptors_mean_fewer_trials_at_once_and_a_notice(monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda _: (64, 64))
    watcher = Watcher()
    slots = affordable(50, watcher)
    assert 0 < slots < 50
    (notice,) = watcher.of(Notice)
    assert f"{slots} of 50 trials run at once: this process may have no more than 64 files open" in notice.text


@pytest.mark.usefixtures("null_sandboxes")
def test_an_address_is_for_engines_that_have_several_machines(tasks, tmp_path):
    for run, said in (
        (RunOptions(address="auto"), "takes no --address; add --engine ray"),
        (RunOptions(engine="slurm"), "no engine called 'slurm'; there are: local"),
    ):
        with pytest.raises(UsageError, match=said):
            prepare_job(job_spec(tasks=(str(tasks),), run=run), tmp_path / "job")
    job = prepare_job(job_spec(tasks=(str(tasks),)), tmp_path / "job")
    assert asyncio.run(run_prepared(job)).finished == 3


async def _open(_: object) -> None: ...


@pytest.mark.parametrize("made", [type("Old", (), {"run": _open}), type("Odd", (), {"open": _open})])
def test_an_engine_that_opens_no_places_is_refused_with_what_is_expected(monkeypatch, made):
    monkeypatch.setattr("seatrial.jobs.engine.load_plugin", lambda *_: lambda _: made())
    with pytest.raises(UsageError, match=f"is a {made.__name__}, .* `open` is an async context manager"):
        make_engine(RunOptions(engine="odd"))
