"""The files an agent brings along: what may be brought, what counts as a change, and how it arrives."""

import io
import os
import tarfile

import pytest

from seatrial.agents.files import MOST, describe_files, have_changed, lock_files, pack_agent_files
from seatrial.errors import AgentSetupError, JobError
from seatrial.model.job import AgentFiles


@pytest.fixture
def folder(tmp_path):
    """An agent of two files, a link between them, and what nobody needs."""
    root = tmp_path / "mine"
    (root / "lib").mkdir(parents=True)
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o700)
    (root / "lib/words.py").write_text("WORDS = 1\n")
    (root / "lib/words.py").chmod(0o600)
    (root / "now").symlink_to("lib/words.py")
    (root / ".git").mkdir()
    (root / ".git/secret").write_text("x")
    return root


def locked(source, **more) -> AgentFiles:
    return lock_files(AgentFiles(source=str(source), **more))


def members(*files: AgentFiles) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(pack_agent_files(files))) as tar:
        return {member.name: member for member in tar}


def test_a_folder_arrives_whole_readable_and_owned_by_root(folder):
    found = members(locked(folder))
    assert list(found) == ["agent", "agent/lib", "agent/lib/words.py", "agent/now", "agent/run"]
    assert {name: member.mode & 0o777 for name, member in found.items() if not member.issym()} == {
        "agent": 0o755,
        "agent/lib": 0o755,
        "agent/lib/words.py": 0o644,
        "agent/run": 0o755,
    }
    assert {(member.uid, member.gid) for member in found.values()} == {(0, 0)}
    assert found["agent/now"].linkname == "lib/words.py"


def test_files_and_folders_lie_where_they_are_told(folder, tmp_path):
    (tmp_path / "one.py").write_text("1")
    found = members(locked(tmp_path / "one.py"), locked(folder, target="/home/me/x"))
    assert {"agent/one.py", "home/me/x/run"} <= found.keys()


@pytest.mark.parametrize("change", ["content", "mode", "more", "gone"])
def test_what_has_changed_is_noticed_and_not_packed(folder, change):
    files = locked(folder)
    assert not have_changed(files)
    {
        "content": lambda: (folder / "lib/words.py").write_text("WORDS = 2\n"),
        "mode": lambda: (folder / "run").chmod(0o600),
        "more": lambda: (folder / "more").write_text(""),
        "gone": lambda: os.rename(folder, f"{folder}-2"),  # noqa: PTH104 - in a lambda
    }[change]()
    assert have_changed(files)
    with pytest.raises(AgentSetupError, match="changed since the job began"):
        pack_agent_files((files,))


def test_records_name_the_files_by_place_and_digest(folder):
    (ref,) = describe_files([locked(folder)])
    assert (ref.target, ref.digest) == ("/agent", locked(folder).digest)


def test_folders_of_jobs_are_no_files_of_an_agent(folder):
    files = locked(folder)
    for job in ("jobs/first", "second"):
        (folder / job / "trials").mkdir(parents=True)
        (folder / job / "job.json").write_text("{}")
        (folder / job / "trials/large").write_bytes(b"x")
        os.mkfifo(folder / job / "pipe")
    assert locked(folder) == files
    assert not have_changed(files)
    assert not [name for name in members(files) if "job" in name or "second" in name]


@pytest.mark.parametrize("target", ["/etc/passwd", "../secret", "/nowhere/at/all"])
def test_links_that_lead_out_are_refused(folder, target):
    (folder / "bad").symlink_to(target)
    with pytest.raises(JobError, match=rf"mine: bad is a link to {target}, which will not be in the sandbox"):
        locked(folder)


def test_a_link_by_a_whole_path_is_refused_even_if_it_stays(folder):
    (folder / "bad").symlink_to(folder / "run")
    with pytest.raises(JobError, match="bad is a link to"):
        locked(folder)


def test_what_is_no_file_is_refused(folder):
    os.mkfifo(folder / "pipe")
    with pytest.raises(JobError, match="pipe is neither a file nor a folder"):
        locked(folder)


def test_too_much_is_refused_with_a_way_out(folder, tmp_path):
    with (folder / "model.bin").open("wb") as file:
        file.truncate(MOST.max_bytes + 1)
    with pytest.raises(JobError, match=r"(?s)the limit is 256.0 MiB; the largest: model.bin.*--agent-setup"):
        locked(folder)
    with pytest.raises(JobError, match=r"more than 256 MiB.*--agent-setup"):
        locked(folder / "model.bin")
    with pytest.raises(JobError, match="are not there"):
        locked(tmp_path / "none")


@pytest.mark.parametrize(
    "target", ["/", "/usr/lib", "/tests", "/tests/x", "/logs/verifier", "relative", "/a/../b", "/a/"]
)
def test_places_of_the_system_and_the_task_are_not_for_agents(target):
    with pytest.raises(ValueError, match="such as /agent"):
        AgentFiles(source="x", target=target)
