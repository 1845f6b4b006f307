"""A daemon that answers, and one that is not there."""

import asyncio

from seatrial.sandbox.engine.doctor import examine_engine
from tests.docker_daemon import engine_endpoint, needs


def test_a_daemon_that_does_not_answer_is_missing_with_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    missing = asyncio.run(examine_engine("docker"))
    assert (missing.status, f"no docker daemon at unix://{tmp_path}/none" in missing.detail) == ("missing", True)
    monkeypatch.setenv("DOCKER_HOST", "ssh://elsewhere")
    assert "ssh -L" in asyncio.run(examine_engine("docker")).fix


@needs("docker")
def test_a_daemon_that_answers_works(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", str(engine_endpoint("docker")))
    found = asyncio.run(examine_engine("docker"))
    assert (found.status, found.detail.startswith("Docker ")) == ("works", True)
