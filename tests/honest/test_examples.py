"""The example tasks in containers: golden answers get the same rewards there as in the embedded sandbox."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from seatrial.agents.files import lock_files
from seatrial.model.job import AgentFiles
from seatrial.sandbox.api import Image
from seatrial.sandbox.engine.backend import EngineBackend
from seatrial.sandbox.engine.client import Engine
from tests.attacks.workshop import OneImage, lacking, make_workshop
from tests.conftest import REPOSITORY
from tests.docker_daemon import engine_endpoint, needs
from tests.trial.support import Desk, Ran, open_desk, trial_spec

TASKS = REPOSITORY / "examples" / "tasks"
SERVICE = TASKS / "unit-service"
ANSWER = "cp -r /agent/. / && if [ -e /start.sh ]; then sh /start.sh; fi"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """An image with Python, made of this machine's programs."""
    if reason := lacking():
        pytest.skip(reason)
    return make_workshop(tmp_path_factory.mktemp("image") / "root")


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with open_desk(tmp_path_factory.mktemp("embedded")) as opened:
        yield opened


@pytest.fixture(scope="module")
def desk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    engine: Engine = request.param
    with asyncio.Runner() as runner:
        backend = runner.run(EngineBackend(engine, engine_endpoint(engine)).__aenter__())
        try:
            yield Desk(runner, backend, tmp_path_factory.mktemp("desk"))
        finally:
            runner.run(backend.__aexit__(None, None, None))


def play(desk: Desk, image: Image, task, kind: str) -> Ran:
    spec = trial_spec(task, ANSWER)
    files = (lock_files(AgentFiles(source=str(task / "golden" / kind))),)
    return desk.run_spec(replace(spec, agent=spec.agent.model_copy(update={"files": files})), images=OneImage(image))


@needs("docker")
@pytest.mark.parametrize("desk", ["docker"], indirect=True)
@pytest.mark.parametrize("task", sorted(TASKS.iterdir()), ids=lambda path: path.name)
def test_a_right_answer_gets_the_same_reward_as_in_the_embedded_sandbox(desk, embedded, image, task):
    assert play(desk, image, task, "pass").reward == play(embedded, image, task, "pass").reward >= 0.95


@pytest.mark.parametrize(
    "desk", [pytest.param(each, marks=needs(each)) for each in ("docker", "podman")], indirect=True
)
@pytest.mark.parametrize("kind", ["pass", "fail"])
def test_a_service_gets_the_same_reward_as_in_the_embedded_sandbox(desk, embedded, image, kind):
    ran, usual = play(desk, image, SERVICE, kind), play(embedded, image, SERVICE, kind)
    assert (ran.reward, ran.run.isolation) == (usual.reward, "guarded")
    assert ran.evaluation.breakdown == usual.evaluation.breakdown
