"""Files of the coordinator on a node: known by content, kept once, never half there."""

import io
from pathlib import Path

import pytest

from seatrial.agents.files import lock_files
from seatrial.errors import SandboxError
from seatrial.jobs.ray.delivery import pack_need
from seatrial.jobs.ray.node_files import FORGOTTEN_SEC, NodeFiles
from seatrial.jobs.ray.wire import FileNeed, digest_of
from seatrial.model.job import AgentFiles
from seatrial.tasks.digest import digest_folder

ELSEWHERE = "/not/on/this/machine"


@pytest.fixture
def files(tmp_path: Path):
    found = NodeFiles(tmp_path / "files")
    yield found
    found.close()


@pytest.fixture
def task(make_task) -> FileNeed:
    root = make_task("sort", files={"solution/solve.sh": "#!/bin/sh\n", ".git/HEAD": "ref\n"})
    return FileNeed(kind="task", digest=digest_folder(root), path=str(root))


def elsewhere(need: FileNeed) -> FileNeed:
    return need.model_copy(update={"path": ELSEWHERE})


def deliver(files: NodeFiles, need: FileNeed, size: int = 100) -> Path:
    """What the coordinator does, in small pieces."""
    with pack_need(need) as archive:
        data = archive.read()
    for offset in range(0, len(data), size):
        files.receive(need.digest, offset, data[offset : offset + size])
    return files.complete(elsewhere(need))


def test_a_folder_at_the_same_path_is_not_copied(files, task):
    assert files.find(task) == Path(task.path)


def test_other_content_at_the_same_path_does_not_do(files, task):
    Path(task.path, "instruction.md").write_text("Do something else.\n")
    assert files.find(task) is None


def test_a_task_arrives_in_pieces_and_stays(files, task, tmp_path):
    assert files.find(elsewhere(task)) is None
    arrived = deliver(files, task)
    assert digest_folder(arrived) == task.digest
    assert not (arrived / ".git").exists()
    another_run = NodeFiles(tmp_path / "files")
    assert another_run.find(elsewhere(task)) == arrived
    another_run.close()


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_an_agents_files_arrive(files, kind, tmp_path):
    source = tmp_path / "mine" / "agent.py"
    source.parent.mkdir()
    source.write_text("print()\n")
    locked = lock_files(AgentFiles(source=str(source if kind == "file" else source.parent)))
    assert locked.digest
    name = "agent.py" if kind == "file" else None
    arrived = deliver(files, FileNeed(kind="agent", digest=locked.digest, path=locked.source, name=name))
    assert (arrived if kind == "file" else arrived / "agent.py").read_text() == "print()\n"


def test_a_file_that_options_name_arrives_under_its_name(files, tmp_path):
    (tmp_path / "answers.jsonl").write_text("{}\n")
    need = FileNeed(kind="file", digest=digest_of(b"{}\n"), path=str(tmp_path / "answers.jsonl"), name="answers.jsonl")
    assert deliver(files, need).name == "answers.jsonl"


def test_what_is_not_what_was_promised_is_refused_and_gone(files, task, tmp_path):
    other = task.model_copy(update={"digest": "0" * 64})
    with pytest.raises(SandboxError, match="other files arrived"):
        deliver(files, other)
    assert files.find(elsewhere(other)) is None
    assert not (tmp_path / "files" / other.digest).exists()


def test_two_runs_may_receive_the_same_at_once(files, task, tmp_path):
    another_run = NodeFiles(tmp_path / "files")
    with pack_need(task) as archive:
        data = archive.read()
    for each in (files, another_run):
        each.receive(task.digest, 0, data)
    assert files.complete(elsewhere(task)) == another_run.complete(elsewhere(task))
    another_run.close()


def test_a_piece_may_come_twice(files, task):
    with pack_need(task) as archive:
        data = archive.read()
    for offset in (0, 50, 50, 100):
        files.receive(task.digest, offset, data[offset : offset + 50] if offset < 100 else data[100:])
    assert digest_folder(files.complete(elsewhere(task))) == task.digest


def test_what_nobody_has_needed_for_long_goes(files, task):
    arrived = deliver(files, task)
    used = arrived.parent.stat().st_mtime
    assert files.sweep(used + FORGOTTEN_SEC - 60) == []
    assert files.sweep(used + FORGOTTEN_SEC + 60) == [task.digest]
    assert not arrived.exists()


def test_a_closed_one_leaves_only_what_is_complete(files, task, tmp_path):
    files.receive(task.digest, 0, io.BytesIO(b"half").getvalue())
    files.close()
    assert list((tmp_path / "files").iterdir()) == []
