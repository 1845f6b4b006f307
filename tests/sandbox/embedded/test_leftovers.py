"""Control groups of dead runs: which of them nobody needs any more, and whose they are."""

import os
from pathlib import Path

import pytest

from seatrial.sandbox.embedded.leftovers import orphans_among

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
