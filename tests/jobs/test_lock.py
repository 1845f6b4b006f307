"""The lock says what is in a task's folder now, whatever was there when it was listed."""

from seatrial.jobs.lock import lock_task
from seatrial.tasks.digest import digest_folder
from seatrial.tasks.layout import list_files
from seatrial.tasks.load import load_task


def test_a_file_that_is_gone_since_the_folder_was_listed_is_not_missed(tasks):
    task = load_task(tasks / "add")
    (task.root / ".task.toml.swp").write_text("kept by an editor")
    files = list_files(task.root)
    (task.root / ".task.toml.swp").unlink()
    assert lock_task(task, files).digest == digest_folder(task.root)
