"""The places in which attacks are tried: embedded sandboxes of both kinds, and containers where there is an engine."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from seatrial.sandbox.api import Image
from seatrial.sandbox.engine.backend import EngineBackend
from seatrial.sandbox.engine.client import Engine
from tests.attacks.arena import Arena
from tests.attacks.workshop import lacking, make_workshop
from tests.docker_daemon import engine_endpoint
from tests.trial.support import Desk, open_desk


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image that nearly all attacks are made for."""
    if reason := lacking():
        pytest.skip(reason)
    return make_workshop(tmp_path_factory.mktemp("workshop") / "root")


@pytest.fixture(scope="module")
def arena(request: pytest.FixtureRequest, workshop: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """A place to attack in; a module says which, and gets root's embedded sandbox if it does not."""
    kind: Any = getattr(request, "param", "root")
    folder = tmp_path_factory.mktemp("desk")
    opened = open_desk(folder, kind) if kind in ("root", "userns") else _open_engine(folder, kind)
    with opened as desk:
        yield Arena(desk, workshop)


@contextmanager
def _open_engine(folder: Path, engine: Engine) -> Iterator[Desk]:
    with asyncio.Runner() as runner:
        backend = runner.run(EngineBackend(engine, engine_endpoint(engine)).__aenter__())
        try:
            yield Desk(runner, backend, folder)
        finally:
            runner.run(backend.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A desk that runs trials on the embedded sandbox."""
    with open_desk(tmp_path_factory.mktemp("desk")) as opened:
        yield opened
