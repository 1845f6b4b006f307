"""The doctor tries for real, on this machine."""

import asyncio
import os

import pytest

from seatrial.sandbox.doctor import _examine_engine, examine
from tests.docker_daemon import engine_endpoint, needs


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    async def collect():
        return [finding async for finding in examine(tmp_path_factory.mktemp("state"))]

    return {finding.step: finding for finding in asyncio.run(collect())}


@pytest.mark.skipif(os.getuid() != 0, reason="what works for an ordinary user differs between machines")
def test_everything_works_for_root_here(findings):
    bad = {step: finding for step, finding in findings.items() if finding.status == "fails"}
    assert bad == {}
    assert {
        "commands",
        "files",
        "guarded phases",
        "listener",
        "no network",
        "allow list",
        "system folders",
    } <= findings.keys()
    assert findings["limit storage_mb"].status == "works"


def test_a_daemon_that_does_not_answer_is_missing_with_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    missing = asyncio.run(_examine_engine("docker"))
    assert (missing.status, f"no docker daemon at unix://{tmp_path}/none" in missing.detail) == ("missing", True)
    monkeypatch.setenv("DOCKER_HOST", "ssh://elsewhere")
    assert "ssh -L" in asyncio.run(_examine_engine("docker")).fix


@needs("docker")
def test_a_daemon_that_answers_works(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", str(engine_endpoint("docker")))
    found = asyncio.run(_examine_engine("docker"))
    assert (found.status, found.detail.startswith("Docker ")) == ("works", True)


def test_what_is_missing_comes_with_a_fix(findings):
    assert all(finding.fix for finding in findings.values() if finding.status != "works")
