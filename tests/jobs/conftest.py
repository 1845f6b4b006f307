from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seatrial.jobs.prepare import PreparedJob, prepare_job
from seatrial.model.job import JobSpec
from seatrial.testing.null import NullBackend
from tests.backends.stand_ins import stand_in
from tests.conftest import MakeTask
from tests.jobs.samples import job_spec

MakeJob = Callable[..., PreparedJob]


@pytest.fixture
def tasks(make_task: MakeTask, tmp_path: Path) -> Path:
    """A folder with the tasks add, merge and sort."""
    for name in ("add", "merge", "sort"):
        make_task(f"tasks/{name}")
    return tmp_path / "tasks"


@pytest.fixture
def spec(tasks: Path) -> JobSpec:
    """One attempt of the agent that does nothing at each of the three."""
    return job_spec(tasks=(str(tasks),))


@pytest.fixture
def make_job(spec: JobSpec, tmp_path: Path) -> MakeJob:
    """A job in a folder of its own: `make_job(attempts=2)` changes fields of the spec."""

    def make(**changes) -> PreparedJob:
        return prepare_job(spec.model_copy(update=changes), tmp_path / "job")

    return make


@pytest.fixture
def null_sandboxes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Jobs that ask for the embedded backend get one that does nothing."""
    with monkeypatch.context() as patch:
        stand_in(patch, NullBackend)
        yield
