import io
import tarfile
from pathlib import Path

import pytest
import zstandard

from seatrial.errors import JobError, StoreError
from seatrial.model.record import KeptState
from seatrial.store.job_store import JobStore
from seatrial.view import trial_files
from seatrial.view.trial_files import MOST_CHANGES, change_of, changes_of, place_of
from tests.jobs.samples import broken_machine, record
from tests.view.trial.trials import Page, changes, keep_trial, opened

CHANGED = changes(added=["/root/x", "/workspace/out.json"], modified=["/workspace/in.txt"], removed=["/etc/y"])


def end_state(**files: bytes) -> bytes:
    """A kept end state with these files; `__` stands for a slash, `_dot_` for a dot."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name.replace("__", "/").replace("_dot_", "."))
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return zstandard.compress(plain.getvalue())


@pytest.fixture
def store(tmp_path: Path, make_task) -> JobStore:
    """A trial of an agent that changed a file of the task's and wrote the output that it asks for."""
    task = make_task(
        "task",
        toml='[environment]\nworkdir = "/workspace"\n',
        instruction="Write the answer to `/workspace/out.json`.\n",
        files={"environment/in.txt": "one\ntwo\n"},
    )
    state = end_state(root__x=b"x<script>", workspace__out_dot_json=b'{"a": 1}', workspace__in_dot_txt=b"one\n2\n")
    files: dict[str, str | bytes] = {"changes.json": CHANGED, "snapshot.tar.zst": state}
    return keep_trial(tmp_path / "job", record("add", end_state=KeptState(kept=True)), files, root=task)


def test_the_task_is_looked_at_once_for_all_files(store, monkeypatch):
    looks: list[object] = []
    monkeypatch.setattr(trial_files, "unchanged_task", looks.append)
    changes_of(opened(store))
    assert len(looks) == 2  # for the outputs that it declares, and for the files


def test_the_declared_output_comes_first_and_files_are_shown_beside_what_they_were(store):
    found = changes_of(opened(store))
    assert [(each.path, each.kind, each.is_output) for each in found.files] == [
        ("/workspace/out.json", "added", True),
        ("/root/x", "added", False),
        ("/workspace/in.txt", "modified", False),
        ("/etc/y", "removed", False),
    ]
    assert found.counts == "2 files added, 1 file modified, 1 file removed"
    output, other, modified, removed = (each.shown for each in found.files)
    assert output is not None
    assert other is not None
    assert modified is not None
    assert removed is not None
    assert "x&lt;script&gt;" in other.html
    page = Page(modified.html)
    assert [tag for tag, _ in page.elements].count("table") == 1
    assert "two" in page.words
    assert modified.note == "before: from the task's folder"
    assert (removed.html, removed.note) == ("", "What was in it is not known.")


def test_a_large_end_state_is_opened_file_by_file(store, monkeypatch):
    monkeypatch.setattr(trial_files, "SMALL", 10)
    found = changes_of(opened(store))
    assert found.can_open
    assert not any(each.shown for each in found.files)
    one = change_of(opened(store), "/workspace/in.txt")
    assert one.kind == "modified"
    assert one.shown is not None
    assert "table" in one.shown.html
    with pytest.raises(JobError, match="changed no file '/etc/passwd'"):
        change_of(opened(store), "/etc/passwd")


def test_a_task_that_has_changed_says_nothing(store):
    root = Path(store.file.tasks[0].root)
    (root / "environment" / "in.txt").write_text("another")
    found = changes_of(opened(store))
    assert not any(each.is_output for each in found.files)
    modified = next(each.shown for each in found.files if each.kind == "modified")
    assert modified is not None
    assert modified.note == "What it was before is not known, or too large to be compared."


@pytest.mark.parametrize(
    ("files", "made", "trouble"),
    [
        ({}, record("add"), "There is no changes.json that can be read, so nothing is known"),
        ({}, record("add", failure=broken_machine()), "Nobody looked: the trial failed before"),
        ({"changes.json": "{"}, record("add"), "changes.json is damaged: Invalid JSON"),
    ],
)
def test_what_is_missing_is_said(tmp_path, files, made, trouble):
    found = changes_of(opened(keep_trial(tmp_path / "job", made, files)))
    assert found.trouble.startswith(trouble)
    assert found.files == ()


def test_an_end_state_that_was_not_kept_or_is_damaged(tmp_path):
    lost = record("add", end_state=KeptState(kept=False, reason="it is too large"))
    found = changes_of(opened(keep_trial(tmp_path / "lost", lost, {"changes.json": CHANGED})))
    assert (found.kept, found.can_open) == ("The end state was not kept: it is too large", False)
    files: dict[str, str | bytes] = {"changes.json": CHANGED, "snapshot.tar.zst": b"no archive"}
    damaged = changes_of(opened(keep_trial(tmp_path / "damaged", record("add"), files)))
    assert all(each.shown and "not the end state of a sandbox" in each.shown.note for each in damaged.files)


def test_very_many_files_are_counted(tmp_path):
    many = changes(added=[f"/x/{number}" for number in range(MOST_CHANGES + 7)])
    found = changes_of(opened(keep_trial(tmp_path / "job", record("add"), {"changes.json": many})))
    assert (len(found.files), found.left_out) == (MOST_CHANGES, 7)


def test_paths_of_a_trial_its_tries_and_its_revisions():
    assert place_of("t.1", "agent/stdout.txt") == Path("trials/t.1/agent/stdout.txt")
    assert place_of("t.1", "@try.2/record.json") == Path("tries/t.1.2/record.json")
    assert place_of("t.1", "@revision.13/verifier/out") == Path("revisions/t.1.13/verifier/out")


@pytest.mark.parametrize("path", ["", "..", "../x", "a/../b", "/etc/passwd", "a//b", "a/.", "a\0b", "@try.1/../x"])
def test_paths_that_lead_elsewhere_are_refused(path):
    with pytest.raises(StoreError, match="expected the path of a file below the trial's folder"):
        place_of("t.1", path)


@pytest.mark.parametrize("trial_id", ["", ".", "..", "a/b", "a\0"])
def test_what_is_no_id_of_a_trial_is_refused(trial_id):
    with pytest.raises(StoreError, match="cannot be the id of a trial"):
        place_of(trial_id, "x")


@pytest.mark.parametrize("path", ["@try.0/x", "@try.01/x", "@try.x/y", "@tries.1/x", "x/@try.1"])
def test_only_numbers_lead_to_tries(path):
    assert place_of("t.1", path) == Path("trials/t.1", path)
