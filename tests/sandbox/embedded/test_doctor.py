"""The doctor tries our own sandboxes for real, on this machine."""

import asyncio
import os

import pytest

from seatrial.sandbox.embedded.doctor import examine_embedded


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    async def collect():
        return [finding async for finding in examine_embedded(tmp_path_factory.mktemp("state"))]

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


def test_what_is_missing_comes_with_a_fix(findings):
    assert all(finding.fix for finding in findings.values() if finding.status != "works")
