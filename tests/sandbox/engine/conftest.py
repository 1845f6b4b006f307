"""What several tests of containers need."""

import asyncio
from collections.abc import Iterator

import pytest

from seatrial.sandbox.engine.backend import EngineBackend
from tests.docker_daemon import engine_endpoint
from tests.trial.support import Desk


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A desk that runs trials in containers."""
    with asyncio.Runner() as runner:
        backend = runner.run(EngineBackend("docker", engine_endpoint("docker")).__aenter__())
        try:
            yield Desk(runner, backend, tmp_path_factory.mktemp("desk"))
        finally:
            runner.run(backend.__aexit__(None, None, None))
