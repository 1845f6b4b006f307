"""Reading what a verifier left behind: bounded, never through a link, never waiting, and never raising on content."""

import io
import os
import stat
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seatrial.errors import ArtifactsError
from seatrial.model.output import VERIFIER_FILES, OutputSpec, RawFile, VerifierSpec
from seatrial.model.record import FileChanges
from seatrial.model.task import ArtifactSpec
from seatrial.sandbox.archives import pack
from seatrial.scoring.reward import MAX_DETAILS_BYTES, MAX_REWARD_BYTES
from seatrial.verify.artifacts import (
    ArtifactManifest,
    collect_artifacts,
    collect_output,
    fetch_output,
    keep_artifacts,
    list_files,
    read_raw_file,
)


def spec(reward="/logs/verifier/reward.json", details="/logs/verifier/details.json"):
    return VerifierSpec(script="tests/test.sh", expected_output_path="", reward_path=reward, details_path=details)


def sparse(path, size):
    with path.open("wb") as file:
        file.truncate(size)


@pytest.mark.parametrize("data", [b"", b"0.5\n", b"\xff\x00", b"x" * 8], ids=["empty", "text", "bytes", "at the limit"])
def test_a_file_is_read_as_it_stands(tmp_path, data):
    (tmp_path / "file").write_bytes(data)
    assert read_raw_file(tmp_path / "file", "reward.txt", 8) == RawFile("reward.txt", "ok", data, len(data))


@pytest.mark.parametrize("path", ["nothing", "file/below", "nothing/below"])
def test_a_file_that_is_not_there_is_missing(tmp_path, path):
    (tmp_path / "file").touch()
    assert read_raw_file(tmp_path / path, "x", 8) == RawFile("x", "missing")


@pytest.mark.parametrize("size", [9, 2**33], ids=["by one byte", "by far"])
def test_a_file_over_the_limit_is_not_read(tmp_path, size):
    sparse(tmp_path / "file", size)
    assert read_raw_file(tmp_path / "file", "x", 8) == RawFile("x", "too_large", size=size)


def test_a_file_that_grows_while_it_is_read_is_cut_off():
    path = Path("/proc/self/status")  # holds more than its size says, like a file that grew since
    assert path.stat().st_size == 0
    assert read_raw_file(path, "x", 8) == RawFile("x", "too_large", size=9)


@pytest.mark.parametrize("target", ["file", "folder", "nothing", "link", "/etc/passwd"])
def test_a_link_is_never_followed(tmp_path, target):
    (tmp_path / "file").write_text("1")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(target)
    assert read_raw_file(tmp_path / "link", "x", 8) == RawFile("x", "symlink")


def test_a_folder_is_told_apart(tmp_path):
    assert read_raw_file(tmp_path, "x", 8) == RawFile("x", "directory")


@pytest.mark.parametrize("kind", [stat.S_IFIFO, stat.S_IFSOCK], ids=["pipe", "socket"])
def test_a_special_file_is_told_apart_without_waiting(tmp_path, kind):
    os.mknod(tmp_path / "odd", kind | 0o600)
    assert read_raw_file(tmp_path / "odd", "x", 8) == RawFile("x", "special")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device_is_told_apart(device):
    assert read_raw_file(Path(device), "x", 8) == RawFile("x", "special")


@pytest.mark.parametrize(
    ("path", "reason"),
    [("/proc/self/mem", "Input/output error"), (f"/tmp/{'x' * 300}", "File name too long")],
    ids=["while reading", "while opening"],
)
def test_a_file_that_cannot_be_read_says_why(path, reason):
    assert read_raw_file(Path(path), "x", 8) == RawFile("x", "unreadable", reason=reason)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_says_so(tmp_path):
    (tmp_path / "file").touch(mode=0)
    assert read_raw_file(tmp_path / "file", "x", 8) == RawFile("x", "unreadable", reason="Permission denied")


def test_a_name_that_no_file_can_have_is_no_file(tmp_path):
    assert read_raw_file(tmp_path / "re\0ward.json", "x", 8).status in ("missing", "unreadable")


def test_every_file_of_a_verifier_is_collected_and_nothing_else(tmp_path):
    for name in (*VERIFIER_FILES, "test-stdout.txt"):
        (tmp_path / name).write_text(name)
    artifacts = collect_artifacts(tmp_path, spec())
    assert {name: file.data.decode() for name, file in artifacts.files.items()} == {n: n for n in VERIFIER_FILES}
    assert (artifacts.output, artifacts.verifier_exit_code) == (None, None)


def test_files_that_are_not_there_are_missing_one_by_one(tmp_path):
    (tmp_path / "reward.txt").write_text("1")
    statuses = {name: file.status for name, file in collect_artifacts(tmp_path, spec()).files.items()}
    assert statuses == {name: "ok" if name == "reward.txt" else "missing" for name in VERIFIER_FILES}


def test_declared_names_are_collected_too(tmp_path):
    (tmp_path / "score.json").write_text("0.5")
    (tmp_path / "why.json").write_text("{}")
    artifacts = collect_artifacts(tmp_path, spec("/logs/verifier/score.json", "/logs/verifier/why.json"))
    assert (artifacts.file("score.json").data, artifacts.file("why.json").data) == (b"0.5", b"{}")
    assert set(artifacts.files) == {*VERIFIER_FILES, "score.json", "why.json"}


def test_a_verifier_may_declare_no_details(tmp_path):
    assert set(collect_artifacts(tmp_path, spec(details=None)).files) == set(VERIFIER_FILES)


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("reward.json", MAX_REWARD_BYTES),
        ("reward.txt", MAX_REWARD_BYTES),
        ("details.json", MAX_DETAILS_BYTES),
        ("ctrf.json", MAX_DETAILS_BYTES),
    ],
)
def test_each_file_has_its_own_limit(tmp_path, name, limit):
    sparse(tmp_path / name, limit)
    assert collect_artifacts(tmp_path, spec()).file(name).status == "ok"
    sparse(tmp_path / name, limit + 1)
    assert collect_artifacts(tmp_path, spec()).file(name).status == "too_large"


@pytest.mark.parametrize("path", ["nothing", "file"])
def test_a_folder_that_is_not_there_raises(tmp_path, path):
    (tmp_path / "file").touch()
    with pytest.raises(ArtifactsError, match=f"{path}: no such folder"):
        collect_artifacts(tmp_path / path, spec())


def test_the_output_of_the_agent_comes_along(tmp_path):
    output = RawFile("/workspace/out.json", "ok", b"{}", 2)
    assert collect_artifacts(tmp_path, spec(), output).output is output


def test_an_output_is_read_within_its_own_limit(tmp_path):
    (tmp_path / "out.json").write_text("12345678")
    expected = OutputSpec(path="/workspace/out.json", source="declared", max_bytes=8)
    assert collect_output(tmp_path / "out.json", expected) == RawFile("/workspace/out.json", "ok", b"12345678", 8)
    tighter = OutputSpec(max_bytes=7)
    assert collect_output(tmp_path / "out.json", tighter) == RawFile("out.json", "too_large", size=8)


NAMES = st.one_of(
    st.sampled_from(
        [".", "..", "a", "a/b", "/etc/x", "../out", "a/../../out", "link", "link/file", "x" * 300, "a/" * 90 + "f"]
    ),
    st.text(min_size=1, max_size=10),
)
KINDS = st.sampled_from([
    tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE,
])  # fmt: skip
MEMBERS = st.lists(st.tuples(NAMES, KINDS, NAMES, st.integers(0, 0o7777)), max_size=8)


def archive_of(members: list[tuple[str, bytes, str, int]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", errors="surrogateescape") as tar:
        for name, kind, target, mode in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.mode = kind, target, mode
            content = b"content" if kind == tarfile.REGTYPE else b""
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


class Sender:
    """A sandbox from which one gets whatever it likes to send."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def get(self, _: str, archive: io.BufferedRandom, **__: object) -> None:
        archive.write(self._content)


def keep(content: bytes, folder: Path, *specs: ArtifactSpec) -> tuple[str, ...]:
    work = keep_artifacts(Sender(content), specs, folder)  # type: ignore[arg-type]
    try:
        work.send(None)
    except StopIteration as done:
        return tuple(entry.status for entry in done.value)
    raise AssertionError("it waited for something")


@given(members=MEMBERS)
@example(
    members=[
        (".", tarfile.DIRTYPE, "", 0o755),
        ("link", tarfile.SYMTYPE, "..", 0),
        ("link/file", tarfile.REGTYPE, "", 0),
    ]
)
@example(members=[("a", tarfile.REGTYPE, "", 0), ("a/b", tarfile.REGTYPE, "", 0)])
@example(members=[("a" * 300, tarfile.REGTYPE, "", 0)])
@example(members=[("a\0b", tarfile.REGTYPE, "", 0)])
def test_no_archive_leads_out_of_its_folder(members):
    with tempfile.TemporaryDirectory() as place:
        inside = Path(place) / "trial" / "artifacts"
        (status,) = keep(archive_of(members), inside, ArtifactSpec(source="/out"))
        assert status in ("ok", "empty", "failed")
        found = [path for path in Path(place).rglob("*") if not path.is_relative_to(inside) and path != inside.parent]
        assert found == []
        assert not [path for path in inside.rglob("*") if path.is_symlink() or not (path.is_file() or path.is_dir())]
        assert all(record.path.startswith("trial/artifacts/") for record in list_files(Path(place), "trial/artifacts"))


@given(content=st.binary(max_size=2000))
def test_what_is_no_archive_is_a_failed_artifact(content):
    with tempfile.TemporaryDirectory() as place:
        assert keep(content, Path(place), ArtifactSpec(source="/out"))[0] in ("failed", "empty")


def test_a_manifest_says_what_became_of_each(tmp_path):
    content = archive_of([(".", tarfile.DIRTYPE, "", 0o755), ("x", tarfile.REGTYPE, "", 0o644)])
    specs = [
        ArtifactSpec(source="/out"),
        ArtifactSpec(source="/other", destination="out"),
        ArtifactSpec(source="/none", exclude=("x",)),
    ]
    assert keep(content, tmp_path, *specs) == ("ok", "skipped", "empty")
    manifest = ArtifactManifest.model_validate_json((tmp_path / "manifest.json").read_bytes())
    assert [entry.status for entry in manifest.artifacts] == ["ok", "skipped", "empty"]
    assert "same destination" in (manifest.artifacts[1].reason or "")


def test_listed_are_the_first_files_with_their_digests(tmp_path):
    folder = tmp_path / "artifacts"
    folder.mkdir()
    for name in "abc":
        (folder / name).write_text("")
    (folder / "link").symlink_to("/etc/passwd")
    listed = list_files(tmp_path, "artifacts", "missing", limit=2)
    assert [record.path for record in listed] == ["artifacts/a", "artifacts/b"]
    assert {record.sha256 for record in listed} == {"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}


class Rooted:
    """A sandbox whose files are below a folder of this machine; absolute links in them begin with that folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.asked: list[str] = []

    async def get(self, path: str, archive: io.BufferedRandom, *, limit: int, **_: object) -> None:
        self.asked.append(path)
        self._send(Path(f"{self._root}{path}"), archive, limit)

    def _send(self, place: Path, archive: io.BufferedRandom, limit: int) -> None:
        if not place.is_symlink():
            pack(str(place), archive, limit)
            return
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, str(place.readlink()).removeprefix(str(self._root))
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.addfile(link)


_PLACES = ("app", "app/a", "app/b", "srv", "srv/a", "srv/b", "logs")
_ENDS = ("/tests", "/tests/x", "/logs/verifier", "/proc/self/root", "/proc/1/cwd", "/srv", "/app")
_TARGETS = st.sampled_from([*_ENDS, "a", "../srv/b", "../tests", "./b", "/app/b", "/srv/a", "../tests/x", "../a"])
_ELSEWHERE = ("/tests", "/logs/verifier", "/proc")


@given(links=st.dictionaries(st.sampled_from(_PLACES[1:3] + _PLACES[4:6]), _TARGETS), below=st.sampled_from(["", "/x"]))
@example(links={"app/a": "/srv/a", "srv/a": "b", "srv/b": "../tests"}, below="/x")
@example(links={"app/a": "/proc/self/root"}, below="/tests/x")
@example(links={"app/a": "a"}, below="")
def test_every_link_on_the_way_to_an_output_is_followed(links, below):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for place in ("app", "srv", "logs"):
            (root / place).mkdir()
        for place, target in links.items():
            (root / place).symlink_to(f"{root}{target}" if target.startswith("/") else target)
        fetching = fetch_output(
            Rooted(root),  # type: ignore[arg-type]
            OutputSpec(path=f"/app/a{below}"),
            FileChanges(added=tuple(f"/{place}" for place in links)),
        )
        try:
            fetching.send(None)
        except StopIteration as done:
            output = done.value
        end = os.path.realpath(root / f"app/a{below}").removeprefix(str(root))
        expected = end if end.startswith(_ELSEWHERE) else ""
        assert bool(output.leads_to) is bool(expected)


def test_an_output_on_whose_path_nothing_changed_costs_no_look(tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app/answer").write_text("right")
    sandbox = Rooted(tmp_path)
    changes = FileChanges(added=("/app/answer", "/app/link", "/srv"))
    fetching = fetch_output(sandbox, OutputSpec(path="/app/answer"), changes)  # type: ignore[arg-type]
    try:
        fetching.send(None)
    except StopIteration as done:
        assert done.value.data == b"right"
    assert sandbox.asked == ["/app/answer"]
