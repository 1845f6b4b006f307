"""One embedded backend for all rollouts of a module that needs a real one."""

from collections.abc import Iterator

import pytest

from seatrial.jobs import attempt
from tests.trial.support import Desk, open_desk


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A desk with an embedded sandbox."""
    with open_desk(tmp_path_factory.mktemp("desk")) as desk:
        yield desk


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is tried again is so at once."""
    monkeypatch.setattr(attempt, "backoff_sec", lambda _: 0.0)
