"""What several tests of containers need."""

from collections.abc import Iterator

import pytest

from tests.sandbox.engine.support import open_engine_desk
from tests.trial.support import Desk


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A desk that runs trials in containers."""
    with open_engine_desk("docker", tmp_path_factory.mktemp("desk")) as desk:
        yield desk
