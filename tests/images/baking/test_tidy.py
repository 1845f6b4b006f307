"""The archive of a layer: the same bytes for the same files, whatever strangers put into it refused by name."""

import gzip
import io
import os
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import AgentSetupError, ImageError, JobError
from seatrial.images.baking.tidy import (
    LayerEntry,
    checked_name,
    entries_of_archive,
    entries_of_folder,
    has_changed,
    lock_layer,
    pack_layer,
    write_layer,
)
from seatrial.model.job import AgentLayer
from tests.images.support import archive, entry, folder, link


def packed(entries) -> bytes:
    buffer = io.BytesIO()
    write_layer(entries, buffer)
    return buffer.getvalue()


def of_archive(*members, below: str = "") -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive(members)), mode="r:") as tar:
        return packed(entries_of_archive(tar, below))


def names_in(raw: bytes) -> dict[str, tuple[int, float]]:
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        return {member.name: (member.mode, member.mtime) for member in tar}


def test_a_folder_and_an_archive_of_it_are_the_same_layer(tmp_path):
    (tmp_path / "opt/mine").mkdir(parents=True, mode=0o700)
    (tmp_path / "opt/mine/run").write_bytes(b"#!/bin/sh\n")
    (tmp_path / "opt/mine/run").chmod(0o700)
    (tmp_path / "opt/mine/note").write_bytes(b"words")
    (tmp_path / "opt/go").symlink_to("mine/run")
    members = (
        link("opt/go", "mine/run"),
        entry("./opt/mine/note", content=b"words", mode=0o600, uid=7, mtime=99),
        entry("opt/mine/run", content=b"#!/bin/sh\n", mode=0o4755),
    )
    ours = packed(entries_of_folder(tmp_path))
    assert of_archive(*members) == ours
    assert names_in(ours) == {
        "opt": (0o755, 0),
        "opt/go": (0o777, 0),
        "opt/mine": (0o755, 0),
        "opt/mine/note": (0o644, 0),
        "opt/mine/run": (0o755, 0),
    }


def test_hard_links_become_copies():
    raw = of_archive(link("a", "opt/b", tarfile.LNKTYPE), entry("opt/b", content=b"same"), below="opt/tree")
    with pytest.raises(ImageError, match="hard link to 'gone', which is not in it"):
        of_archive(link("opt/a", "gone", tarfile.LNKTYPE))
    assert list(names_in(raw)) == ["opt", "opt/tree", "opt/tree/a", "opt/tree/opt", "opt/tree/opt/b"]


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (entry("opt/disk", tarfile.BLKTYPE), "/opt/disk is neither a file nor a folder nor a link"),
        (entry("opt/pipe", tarfile.FIFOTYPE), "/opt/pipe is neither"),
        (entry("opt/../../etc/passwd"), r"names with \.\. are refused"),
        (entry("tests/test.sh"), "/tests belongs to the sandbox; put the agent elsewhere"),
        (entry("/logs/verifier/reward.txt"), "/logs belongs to the sandbox"),
        (folder("proc/1"), "/proc belongs"),
        (entry("bin/sh"), "/bin is a link in many images, which this would hide"),
        (entry("var/run/x"), "/var/run is a link"),
        (entry("opt/.wh.etc"), r"starts with \.wh\. removes something"),
    ],
)
def test_what_no_layer_may_hold_is_refused_by_name(member, said):
    with pytest.raises(ImageError, match=said):
        of_archive(member)


def test_two_things_at_one_place_are_refused():
    with pytest.raises(ImageError, match="/opt/a is in it twice"):
        of_archive(entry("opt/a"), entry("./opt//a"))
    with pytest.raises(ImageError, match="/opt/a/b is below /opt/a, which is no folder"):
        of_archive(entry("opt/a"), entry("opt/a/b"))


def test_sockets_in_a_folder_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ImageError, match="/pipe is neither"):
        list(entries_of_folder(tmp_path))


@given(st.text(max_size=30))
def test_a_name_is_refused_or_stays_below_the_root(name):
    try:
        path = checked_name(name)
    except ImageError:
        return
    parts = path.split("/")
    assert ".." not in parts
    assert parts[0] not in ("dev", "proc", "sys", "tests", "solution", "logs", "bin")
    assert path == "" or all(parts)


@given(st.dictionaries(st.sampled_from(["opt/a", "opt/b/c", "usr/local/d", "e"]), st.binary(max_size=20)))
def test_the_order_of_files_does_not_matter(files):
    def content(name):
        return LayerEntry(name, "file", size=len(files[name]), open=lambda: io.BytesIO(files[name]))

    assert packed(map(content, files)) == packed(map(content, reversed(files)))


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "tree/opt").mkdir(parents=True)
    (tmp_path / "tree/opt/note").write_text("words")
    return tmp_path / "tree"


def test_a_folder_and_a_compressed_archive_are_known_by_the_same_digest(tree, tmp_path):
    (tmp_path / "tree.tar.gz").write_bytes(gzip.compress(archive([entry("opt/note", content=b"words")])))
    locked = lock_layer(AgentLayer(source=str(tree)))
    assert lock_layer(AgentLayer(source=str(tmp_path / "tree.tar.gz"))).digest == locked.digest
    assert lock_layer(locked) == locked
    assert not has_changed(locked)


def test_it_must_stay_what_it_was(tree):
    locked = lock_layer(AgentLayer(source=str(tree)))
    (tree / "opt/note").chmod(0o755)
    assert has_changed(locked)
    with pytest.raises(AgentSetupError, match="has changed since the job began; run a new job"):
        pack_layer(locked, io.BytesIO())
    (tree / "opt/note").unlink()
    assert has_changed(locked)


def test_what_cannot_be_one_is_named(tree, tmp_path):
    with pytest.raises(JobError, match=r"--agent-layer .*none: there is no .*none; name a folder or a tar archive"):
        lock_layer(AgentLayer(source=str(tmp_path / "none")))
    (tmp_path / "text").write_text("no archive at all")
    with pytest.raises(JobError, match="text: it is not readable as a tar archive"):
        lock_layer(AgentLayer(source=str(tmp_path / "text")))
    (tree / "tests").mkdir()
    with pytest.raises(JobError, match="tree: /tests: /tests belongs to the sandbox"):
        lock_layer(AgentLayer(source=str(tree)))
