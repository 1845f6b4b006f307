"""The folder of a task counts only as long as it is what its job has locked."""

from pathlib import Path

from seatrial.model.job import LockedTask
from seatrial.tasks.layout import digest_folder
from seatrial.tasks.locked import task_trouble, unchanged_task
from tests.conftest import MakeTask


def locked(root: Path | str, digest: str) -> LockedTask:
    return LockedTask(id="add", name="add", root=str(root), digest=digest)


def test_a_task_that_is_as_it_was_can_be_used(make_task: MakeTask):
    root = make_task("add")
    task = unchanged_task(locked(root, digest_folder(root)))
    assert task is not None
    assert task.root == root
    assert task_trouble(locked(root, digest_folder(root))) == ""


def test_any_other_folder_is_refused_with_the_reason(make_task: MakeTask, tmp_path: Path):
    root = make_task("add")
    before = digest_folder(root)
    (root / "instruction.md").write_text("Do something else.")
    for found, said in (
        (locked(root, before), "has changed since the job began"),
        (locked(tmp_path / "gone", before), "no longer at"),
        (locked("", before), "its task did not come with it"),
        (locked("tasks/add", before), "no longer at"),
    ):
        assert said in task_trouble(found)
        assert unchanged_task(found) is None
    assert unchanged_task(None) is None
