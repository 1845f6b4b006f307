"""Accepted answers: read from end states that may be a stranger's, few and small ones, the output first."""

import io
import tarfile

import pytest
import zstandard

from seatrial.check.found_answers import golden_answers, kept_answers
from seatrial.check.golden_files import GoldenAnswer
from seatrial.model.output import OutputSpec

OUTPUT = OutputSpec(path="/app/answer.json", format="json", source="declared")


def archive(path, files, links=()):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for name, target in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
    path.write_bytes(zstandard.compress(buffer.getvalue()))
    return path


def taken(path):
    return [(each.path, each.content, each.format) for each in kept_answers(path, "oracle", OUTPUT, "/app", 1.0)]


def test_the_output_comes_first_and_other_work_after_it(tmp_path):
    files = {"./app/a.csv": b"1", "./app/answer.json": b"{}", "./app/deep/b.txt": b"2", "./etc/passwd": b"x"}
    assert taken(archive(tmp_path / "a", files)) == [
        ("/app/answer.json", b"{}", "json"),
        ("/app/a.csv", b"1", "csv"),
        ("/app/deep/b.txt", b"2", "txt"),
    ]


def test_what_programs_leave_hidden_or_large_or_linked_is_not_taken(tmp_path):
    files = {f"./app/{name}": b"x" for name in (".git/config", "__pycache__/a.pyc", "m.pyc", "run.log")}
    files["./app/large.txt"] = b"x" * (129 * 1024)
    assert taken(archive(tmp_path / "a", files, [("./app/answer.json", "/etc/passwd")])) == []


def test_there_is_an_end_to_them(tmp_path):
    files = {f"./app/{number}.txt": b"x" for number in range(30)}
    assert len(taken(archive(tmp_path / "a", files))) == 4


@pytest.mark.parametrize("content", [b"", b"no archive", zstandard.compress(b"no tar")])
def test_what_is_no_archive_holds_no_answers(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    assert taken(tmp_path / "a") == []


def test_a_golden_answer_holds_the_output_where_it_belongs(tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app/answer.json").write_bytes(b"[1]")
    for golden in (
        GoldenAnswer("golden/pass", tmp_path, "/"),
        GoldenAnswer("golden/pass", tmp_path / "app", "/app"),
        GoldenAnswer("golden/pass", tmp_path / "app/answer.json", "/app/answer.json"),
    ):
        assert [each.content for each in golden_answers(golden, OUTPUT, 1.0)] == [b"[1]"]


def test_a_golden_answer_without_the_output_or_with_a_link_for_it_holds_none(tmp_path):
    golden = GoldenAnswer("golden/pass", tmp_path / "tree", "/")
    (tmp_path / "tree/app").mkdir(parents=True)
    assert golden_answers(golden, OUTPUT, 1.0) == []
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "tree/app/answer.json").symlink_to(tmp_path / "secret")
    assert golden_answers(golden, OUTPUT, 1.0) == []
