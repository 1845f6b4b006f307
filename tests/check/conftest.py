"""A bench for checks that are tried on real sandboxes, one for all tests of a module."""

from collections.abc import Iterator

import pytest

from tests.check.trying import Bench
from tests.trial.support import open_desk


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A bench on the embedded sandbox."""
    with open_desk(tmp_path_factory.mktemp("bench")) as desk:
        yield Bench(desk)
