"""The doctor tries our own sandboxes for real, on this machine."""

import asyncio
import os
from pathlib import Path

import pytest

from seatrial.sandbox.embedded.doctor import examine_embedded, orphans_among


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


DEAD = "run-4194305-0123abcd"  # no kernel gives out this number
ALIVE = f"run-{os.getpid()}-0123abcd"


@pytest.fixture
def groups(tmp_path: Path) -> dict[str, list[Path]]:
    """The groups of a run that is no more and of one that is, as the kernel shows them."""
    found = {run: [tmp_path / run] for run in (DEAD, ALIVE, "of-somebody")}
    for (group,) in found.values():
        group.mkdir()
        (group / "cgroup.procs").touch()
    return found


def test_a_run_is_an_orphan_when_its_process_and_its_directory_are_gone(groups, tmp_path: Path):
    assert orphans_among(groups, tmp_path / "state") == [DEAD]
    (tmp_path / "state" / DEAD).mkdir(parents=True)
    assert orphans_among(groups, tmp_path / "state") == []


def test_a_run_in_whose_group_a_process_lives_is_none(groups, tmp_path: Path):
    (groups[DEAD][0] / "cgroup.procs").write_text("1\n")
    assert orphans_among(groups, tmp_path / "state") == []


def test_groups_of_somebody_else_are_theirs_to_remove(groups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: groups[DEAD][0].stat().st_uid + 1)
    assert orphans_among(groups, tmp_path / "state") == []


def test_a_group_that_goes_while_we_look_is_no_trouble(groups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (groups[DEAD][0] / "cgroup.procs").unlink()
    assert orphans_among(groups, tmp_path / "state") == []
    owner = tmp_path.stat().st_uid or 1
    monkeypatch.setattr(os, "geteuid", lambda: owner)
    groups[DEAD] = [tmp_path / "gone"]
    assert orphans_among(groups, tmp_path / "state") == []
