"""Files out of end states that are made as a trial makes them, and out of archives that strangers made."""

import io
import json
import tarfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.errors import StoreError
from seatrial.jobs import end_states
from seatrial.jobs.end_states import find_original, has_end_state, read_end_state
from seatrial.model.record import SandboxRef
from seatrial.sandbox.layers import gone_mark
from seatrial.trial.snapshot import ARCHIVE, FOLDER, LARGE, SnapshotBudget, keep_apart

PLACE = Path("trials/t.1")
LARGE_CONTENT = b"0123456789abcdef" * (LARGE // 8)


def archive_of(**files: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"workspace/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("workspace/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
        archive.addfile(gone_mark("workspace/gone"))
    return file.getvalue()


@pytest.fixture
def job(tmp_path):
    (tmp_path / PLACE).mkdir(parents=True)
    return tmp_path


def keep(job: Path, content: bytes) -> None:
    """Store an archive as the end state of a trial is stored: compressed, with large files beside it."""
    with (job / PLACE / ARCHIVE).open("wb") as file, zstandard.ZstdCompressor().stream_writer(file) as packed:
        keep_apart(io.BytesIO(content), packed, job / PLACE / FOLDER, SnapshotBudget(2**30))


def test_files_are_read_by_their_paths(job):
    keep(job, archive_of(small=b"small one", other=b"not asked for", large=LARGE_CONTENT))
    assert has_end_state(job, PLACE)
    found = read_end_state(
        job,
        PLACE,
        ["/workspace/small", "/workspace/large", "/workspace/link", "/workspace/gone", "/workspace/none"],
        1_000,
    )
    assert sorted(found) == ["/workspace/gone", "/workspace/large", "/workspace/link", "/workspace/small"]
    small, large = found["/workspace/small"].content, found["/workspace/large"].content
    assert small
    assert (small.head, small.whole) == (b"small one", True)
    assert large
    assert (large.head, large.size, large.whole) == (LARGE_CONTENT[:1_000], len(LARGE_CONTENT), False)
    assert found["/workspace/link"] == end_states.LeftFile(None, "a link to /etc/passwd")
    assert found["/workspace/gone"] == end_states.LeftFile(None, "removed")


def test_the_end_state_of_another_folder_is_not_followed(job):
    keep(job, archive_of(small=b"x"))
    other = job / "trials/t.2"
    other.symlink_to(job / PLACE)
    with pytest.raises(StoreError, match="links are not followed"):
        read_end_state(job, Path("trials/t.2"), ["/workspace/small"])
    assert not has_end_state(job, Path("trials/t.3"))


def test_an_archive_is_read_only_so_far(job, monkeypatch):
    monkeypatch.setattr(end_states, "_MAX_READ", 20_000)
    keep(job, archive_of(many=b"\0" * 100_000, wanted=b"x"))
    with pytest.raises(StoreError, match="more than 20,000 bytes are in it"):
        read_end_state(job, PLACE, ["/workspace/wanted"])
    monkeypatch.setattr(end_states, "_MAX_ENTRIES", 1)
    keep(job, archive_of(first=b"y", wanted=b"x"))
    left = read_end_state(job, PLACE, ["/workspace/first", "/workspace/wanted"])
    assert left["/workspace/first"].content is not None
    assert left["/workspace/wanted"].note.startswith("It is not among the first 1 entries of the end state")


@given(st.binary(max_size=200), st.sampled_from(["plain", "packed", "spoiled"]), st.integers(0, 2_000))
@settings(max_examples=60, deadline=None)
def test_whatever_is_in_its_place_is_read_or_refused(tmp_path_factory, noise, kind, at):
    job = tmp_path_factory.mktemp("job")
    (job / PLACE).mkdir(parents=True)
    sound = archive_of(wanted=b"x" * 500)
    spoiled = sound[:at] + noise + sound[at + len(noise) :]
    content = {"plain": noise, "packed": zstandard.compress(noise), "spoiled": zstandard.compress(spoiled)}[kind]
    (job / PLACE / ARCHIVE).write_bytes(content)
    try:
        found = read_end_state(job, PLACE, ["/workspace/wanted"])
    except StoreError as error:
        assert "not the end state of a sandbox" in str(error)
    else:
        assert set(found) <= {"/workspace/wanted"}


def test_a_header_that_would_keep_every_thread_waiting_is_refused(job):
    header = tarfile.TarInfo("header")
    header.type, header.size = tarfile.XHDTYPE, 2**16
    keep(job, archive_of(small=b"small one"))
    content = header.tobuf() + b"1" * header.size + archive_of(small=b"small one")
    (job / PLACE / ARCHIVE).write_bytes(zstandard.compress(content))
    with pytest.raises(StoreError, match="a number that is too long"):
        read_end_state(job, PLACE, ["/workspace/small"])


def test_a_name_that_no_folder_can_have_holds_no_end_state(job):
    assert not has_end_state(job, PLACE / ("long" * 100))


DIGEST = f"sha256:{'d' * 64}"
LAYERS = [f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"]
HOST = SandboxRef(backend="embedded", image="host", network="none")
IMAGE = SandboxRef(backend="embedded", image="python:3.11", image_digest=DIGEST, network="none")


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A store of images with one image of two layers."""
    monkeypatch.setenv("SEATRIAL_CACHE", str(tmp_path))
    (tmp_path / "images").mkdir()
    document = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": LAYERS}}
    (tmp_path / "images" / f"{'d' * 64}.json").write_text(json.dumps(document))
    for layer, content in zip(LAYERS, ("lower", "upper"), strict=True):
        root = tmp_path / "layers" / layer[7:] / "root"
        (root / "app").mkdir(parents=True)
        (root / "app/both.txt").write_text(content)
        (root / f"app/{content}.txt").write_text(content)
        (root / "app/link.txt").symlink_to("/etc/passwd")
    return tmp_path


def content(sandbox: SandboxRef, path: str) -> bytes | None:
    found = find_original(sandbox, path)
    return found.content.head if found else None


def test_the_topmost_layer_that_knows_a_file_decides(store):
    paths = [
        "/app/both.txt",
        "/app/lower.txt",
        "/app/upper.txt",
        "/app/none.txt",
        "/app/link.txt",
        "/../../../etc/passwd",
    ]
    assert [content(IMAGE, path) for path in paths] == [b"upper", b"lower", b"upper", None, None, None]


def test_an_image_that_is_not_here_as_a_whole_has_no_files(store):
    (store / "layers" / LAYERS[0][7:] / "root").rename(store / "gone")
    assert content(IMAGE, "/app/upper.txt") is None
    assert content(IMAGE.model_copy(update={"image_digest": "sha256:../../x"}), "/app/upper.txt") is None
    assert content(IMAGE.model_copy(update={"image_digest": None}), "/app/upper.txt") is None


def test_of_this_machine_only_what_everybody_may_read(tmp_path):
    """A stranger's record may name any path, and the page of a trial would show what is there."""
    shared = next(path for path in (Path("/etc/passwd"), Path("/etc/group")) if path.is_file())
    found = find_original(HOST, str(shared))
    assert found
    assert found.content.head == shared.read_bytes()
    assert "as it is on this machine now" in found.note
    own = tmp_path / "own.txt"
    own.write_text("x")
    own.chmod(0o600)
    hidden = [str(own), "/etc/shadow", "/proc/self/environ", "/dev/null", "/etc", "/etc/../etc/passwd", "relative"]
    assert [content(HOST, path) for path in hidden] == [None] * len(hidden)


def test_a_file_in_a_closed_folder_is_not_for_everybody(tmp_path):
    file = tmp_path / "closed/file.txt"
    file.parent.mkdir(mode=0o700)
    file.write_text("x")
    file.chmod(0o644)
    assert content(HOST, str(file)) is None
