"""The spawner's own file work, on a directory that plays a sandbox's root: what it does, and what it leaves alone."""

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.sandbox.api import SandboxSpec
from seatrial.sandbox.embedded import files
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.embedded.changes import remember_files, write_changes
from seatrial.sandbox.embedded.roots import Tree, usual_remains
from tests.sandbox.embedded.support import needs_root, run

FIRST = 0x70000000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "app").mkdir(parents=True)
    (folder / "app/out.json").write_text("{}")
    return folder


@pytest.fixture
def inside(root: Path) -> Iterator[int]:
    descriptor = os.open(root, os.O_PATH | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def archive() -> Iterator[int]:
    descriptor = os.memfd_create("archive")
    yield descriptor
    os.close(descriptor)


def members(archive: int) -> dict[str, bytes | None]:
    os.lseek(archive, 0, os.SEEK_SET)
    with os.fdopen(os.dup(archive), "rb") as file, tarfile.open(fileobj=file) as tar:
        contents = [(member.name, tar.extractfile(member)) for member in tar]
        return {name: None if content is None else content.read() for name, content in contents}


def write_archive(archive: int, *infos: tarfile.TarInfo) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for info in infos:
            tar.addfile(info, io.BytesIO(bytes(info.size)))
    os.write(archive, buffer.getvalue())
    os.lseek(archive, 0, os.SEEK_SET)


def info(name: str, **fields: int) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(found, field, value)
    return found


def test_a_file_and_a_folder_are_fetched(inside, archive):
    assert files.fetch(inside, "/app/out.json", archive, 10**6)
    assert members(archive) == {"out.json": b"{}"}
    os.ftruncate(archive, 0)
    os.lseek(archive, 0, os.SEEK_SET)
    assert files.fetch(inside, "/app/", archive, 10**6)
    assert members(archive) == {".": None, "out.json": b"{}"}


@needs_root
@pytest.mark.parametrize(("first_id", "found"), [(0, [5000, 100]), (4000, [1000, 65534])])
def test_owners_are_counted_from_who_is_root_inside(root, inside, archive, first_id, found):
    os.chown(root / "app/out.json", 5000, 100)
    assert files.fetch(inside, "/app/out.json", archive, 10**6, first_id)
    os.lseek(archive, 0, os.SEEK_SET)
    with os.fdopen(os.dup(archive), "rb") as file, tarfile.open(fileobj=file) as tar:
        (member,) = tar.getmembers()
    assert [member.uid, member.gid] == found


@pytest.mark.parametrize("path", ["/app/none", "/none/out.json", "/app/out.json/below"])
def test_what_is_not_there_is_missing_by_its_whole_path(inside, archive, path):
    with pytest.raises(FileNotFoundError, match=path):
        files.fetch(inside, path, archive, 10**6)


@pytest.mark.parametrize("target", ["/app", "../../../../../../app", "app/../../../app"])
def test_links_on_the_way_stay_within_the_root(root, inside, archive, target):
    (root / "way").symlink_to(target)
    assert files.fetch(inside, "/way/out.json", archive, 10**6)
    assert members(archive) == {"out.json": b"{}"}


def test_a_link_out_of_the_root_leads_nowhere(root, inside, archive, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (root / "way").symlink_to(tmp_path)
    with pytest.raises(FileNotFoundError):
        files.fetch(inside, "/way/secret", archive, 10**6)
    (root / "magic").symlink_to(f"/proc/self/fd/{inside}/..")
    with pytest.raises(FileNotFoundError):
        files.fetch(inside, "/magic/secret", archive, 10**6)


@pytest.mark.parametrize("path", ["/", "/app/..", "/..", "/app/."])
def test_names_that_are_no_names_are_left_to_a_child(inside, archive, path):
    assert not files.fetch(inside, path, archive, 10**6)


def test_what_is_large_is_left_to_a_child_with_an_empty_archive(root, inside, archive):
    (root / "app/large").write_bytes(bytes(2**19))
    assert not files.fetch(inside, "/app/large", archive, 10**9)
    assert not files.fetch(inside, "/app", archive, 10**9)
    assert os.fstat(archive).st_size == os.lseek(archive, 0, os.SEEK_CUR) == 0


def test_a_pipe_is_left_to_a_child_and_blocks_nobody(root, inside, archive):
    os.mkfifo(root / "app/pipe")
    assert not files.fetch(inside, "/app/pipe", archive, 10**6)


LEASE = """
import fcntl, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = open(sys.argv[1], "r+")
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("leased", flush=True)
sys.stdin.read()
"""


def test_a_file_with_a_lease_blocks_nobody(root, inside, archive):
    command = [sys.executable, "-c", LEASE, str(root / "app/out.json")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"leased\n"
        assert not files.fetch(inside, "/app/out.json", archive, 10**6)


def test_an_archive_is_delivered(root, inside, archive):
    write_archive(archive, info("new/file", size=3, mode=0o640))
    assert files.deliver(inside, "/app", archive, 0)
    assert (root / "app/new/file").read_bytes() == bytes(3)
    assert (root / "app/new/file").stat().st_mode & 0o7777 == 0o640


@needs_root
def test_what_is_delivered_belongs_to_those_inside(root, inside, archive):
    write_archive(
        archive,
        info("new/own", uid=7, gid=8, mode=0o4755),
        info("new/nobody", uid=2**20, gid=0, mode=0o4755),
    )
    assert files.deliver(inside, "/app", archive, FIRST)
    owners = {
        name: ((status := (root / "app" / name).stat()).st_uid - FIRST, status.st_gid - FIRST)
        for name in ("new", "new/own", "new/nobody")
    }
    assert owners == {"new": (0, 0), "new/own": (7, 8), "new/nobody": (0, 0)}
    assert (root / "app/new/own").stat().st_mode & 0o4000
    assert not (root / "app/new/nobody").stat().st_mode & 0o4000, "it is not the owner's who was meant"


@pytest.mark.parametrize("path", ["/none", "/app/out.json", "/way"])
def test_a_folder_that_is_not_there_is_left_to_a_child(root, inside, archive, tmp_path, path):
    (root / "way").symlink_to(tmp_path)
    write_archive(archive, info("file"))
    assert not files.deliver(inside, path, archive, 0)
    assert not (tmp_path / "file").exists()
    assert os.lseek(archive, 0, os.SEEK_CUR) == 0


def test_a_large_archive_is_left_to_a_child(root, inside, archive):
    write_archive(archive, info("file", size=2**19))
    assert not files.deliver(inside, "/app", archive, 0)
    assert not (root / "app/file").exists()


@pytest.fixture
def state(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "state/upper/root").mkdir(parents=True)
    descriptor = os.open(tmp_path / "state", os.O_PATH | os.O_DIRECTORY)
    remember_files(descriptor)
    yield descriptor
    os.close(descriptor)


def fill(tmp_path: Path, count: int) -> Path:
    folder = tmp_path / "state/upper/root/many"
    folder.mkdir()
    for number in range(count):
        (folder / str(number)).touch()
    return folder


@pytest.mark.parametrize(("count", "little"), [(400, True), (600, False)])
def test_few_changes_are_told_and_many_left_to_a_child(state, root, archive, tmp_path, count, little):
    fill(tmp_path, count)
    assert files.tell_changes(state, [Tree("", (str(root),))], archive) is little
    assert files.tell_size(state, archive) is little
    assert bool(os.fstat(archive).st_size) is little


@pytest.mark.parametrize(("count", "little"), [(400, True), (600, False)])
def test_what_was_there_before_is_noted_or_left_to_a_child(state, root, archive, tmp_path, count, little):
    folder = fill(tmp_path, count)
    assert files.remember(state) is little
    (folder / "0").write_text("changed")
    write_changes(state, [Tree("", (str(root),))], 1000, archive)
    told = json.loads(os.pread(archive, 10**6, 0))
    assert len(told["added"]) == (1 if little else count)


def test_a_replaced_folder_of_the_image_is_left_to_a_child(state, root, archive, tmp_path):
    (tmp_path / "state/upper/root/app").mkdir()
    try:
        os.setxattr(tmp_path / "state/upper/root/app", "user.overlay.opaque", b"y")
    except OSError:
        pytest.skip("the temporary directory keeps no attributes of users")
    assert not files.tell_changes(state, [Tree("", (str(root),))], archive)


def test_the_size_is_that_of_du(state, archive, tmp_path):
    folder = fill(tmp_path, 20)
    (folder / "large").write_bytes(bytes(10**6))
    os.link(folder / "large", folder / "the same")
    (folder / "link").symlink_to("large")
    assert files.tell_size(state, archive)
    upper = tmp_path / "state/upper"
    du = subprocess.run(["du", "-sk", upper], check=True, capture_output=True).stdout.partition(b"\t")[0]
    top = upper.stat().st_blocks // 2  # it counts the folder of the folders too
    assert int(os.pread(archive, 100, 0).rstrip(b"\t")) == int(du) - top


def test_a_folder_is_removed_and_what_links_in_it_lead_to_is_not(tmp_path, root):
    folder = tmp_path / "gone"
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/link").symlink_to(root)
    (folder / "a/b/file").touch()
    assert files.remove(str(folder))
    assert not folder.exists()
    assert (root / "app/out.json").exists()
    assert files.remove(str(folder)), "there is nothing left to do"


@pytest.mark.whole
def test_the_usual_remains_are_removed_without_a_look_and_what_else_there_is_with_them(tmp_path):
    folder = tmp_path / "gone"
    remains = usual_remains([Tree("", ()), *(Tree(f"var/{number}", ()) for number in range(300))])
    for name in remains:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch() if name.endswith("dirty") else (folder / name).mkdir(exist_ok=True)
    (folder / "upper/root/file").touch()
    (folder / max(remains, key=len)).with_name("other").touch()
    assert not files.remove(str(folder)), "it is too much to look at"
    assert files.remove(str(folder), [*remains, "none of that name"])
    assert not folder.exists()


@needs_root
def test_what_overlays_leave_behind_is_known_to_the_last_entry(tmp_path):
    async def look(backend: EmbeddedBackend) -> None:
        await backend.create(SandboxSpec())
        (state,) = (path for path in tmp_path.glob("run-*/*") if path.name != "prepared")
        trees = [Tree("" if path.name == "root" else path.name, ()) for path in (state / "aside").iterdir()]
        found = {str(path.relative_to(state)) for path in state.glob("aside/**/*")}
        assert len(found) > len(trees) > 0
        assert found <= set(usual_remains(trees))

    run(look, "userns", tmp_path)


def test_a_full_folder_is_left_to_a_program(tmp_path):
    (tmp_path / "state/upper/root").mkdir(parents=True)
    folder = fill(tmp_path, 600)
    assert not files.remove(str(folder))
    assert folder.exists()
