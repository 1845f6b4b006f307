"""Taking an agent's files onto this machine, whatever is in the archive they come in."""

import io
import tarfile
import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from seatrial.model.config import ArtifactSpec
from seatrial.verify.fetch import ArtifactManifest, keep_artifacts, list_files

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
