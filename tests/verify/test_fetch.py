"""Taking an agent's files onto this machine, whatever is in the archive they come in."""

import io
import os
import tarfile
import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from seatrial.model.config import ArtifactSpec
from seatrial.model.output import OutputSpec
from seatrial.model.record import FileChanges
from seatrial.sandbox.archive import pack
from seatrial.verify.fetch import ArtifactManifest, fetch_output, keep_artifacts, list_files

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
