from pathlib import Path

import pytest

from seatrial.store.job_store import JobStore
from tests.jobs.samples import job_file


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore.create(tmp_path / "job", job_file(attempts=2))
