"""What is packed for sandboxes is kept as long as it stays the same."""

import io
import tarfile

from seatrial.trial.archives import packed_for_agent
from seatrial.trial.rounds import Round
from tests.trial.support import trial_spec


def packed(spec, folder):
    archive = packed_for_agent(spec, Round(spec.task), {"/brought": folder})
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        file = tar.extractfile("brought/file")
        assert file is not None
        return file.read()


def test_a_tasks_own_files_are_packed_once_and_what_an_agent_brings_each_time(make_task, tmp_path):
    spec = trial_spec(make_task("task"))
    inside, outside = spec.task.root / "solution", tmp_path / "tools"
    for folder in (inside, outside):
        folder.mkdir(exist_ok=True)
        (folder / "file").write_bytes(b"old")
        assert packed(spec, folder) == b"old"
        (folder / "file").write_bytes(b"new")
    # A task's files do not change while its digest does not.
    assert packed(spec, inside) == b"old"
    assert packed(spec, outside) == b"new"
