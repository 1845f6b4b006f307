"""Reading what a verifier left behind: bounded, never through a link, never waiting, and never raising on content."""

import os
import stat
from pathlib import Path

import pytest

from seatrial.errors import ArtifactsError
from seatrial.model.artifacts import VERIFIER_FILES, RawFile
from seatrial.model.output import OutputSpec, VerifierSpec
from seatrial.scoring.details import MAX_DETAILS_BYTES
from seatrial.scoring.reward import MAX_REWARD_BYTES
from seatrial.verify.collect import collect_artifacts, collect_output, read_raw_file


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
