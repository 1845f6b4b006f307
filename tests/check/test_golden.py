"""Golden answers: which ones a task ships, where they belong, and what is not understood and therefore not used."""

import io
import tarfile

import pytest
import zstandard

from seatrial.check.golden import GoldenAnswer, find_golden, golden_answers, kept_answers
from seatrial.model.output import OutputSpec

OUTPUT = "/app/out/answer.json"


def found(root, files, output=OUTPUT):
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    golden = find_golden(root, "/app", output)
    return {answer.name: (answer.source.relative_to(root).as_posix(), answer.target) for answer in golden.answers}, (
        golden.remarks
    )


@pytest.mark.parametrize(
    ("files", "answers"),
    [
        (["golden/pass/app/out/answer.json"], {"golden/pass": ("golden/pass", "/")}),
        (["golden/fail/app/other.txt"], {"golden/fail": ("golden/fail", "/")}),
        (["golden/pass/answer.json"], {"golden/pass": ("golden/pass", "/app/out")}),
        (
            ["golden/pass/a/app/x", "golden/pass/b/answer.json"],
            {"golden/pass/a": ("golden/pass/a", "/"), "golden/pass/b": ("golden/pass/b", "/app/out")},
        ),
        (
            ["tests/fixtures/golden_pass.json", "tests/fixtures/golden_fail_units.json"],
            {
                "golden/pass/fixture": ("tests/fixtures/golden_pass.json", OUTPUT),
                "golden/fail/fixture/units": ("tests/fixtures/golden_fail_units.json", OUTPUT),
            },
        ),
        (
            ["tests/fixtures/golden_pass/app/x"],
            {"golden/pass/fixture": ("tests/fixtures/golden_pass", "/")},
        ),
        (["tests/fixtures/golden_dataset.json", "golden/readme.md"], {}),
    ],
    ids=["a tree", "a tree by its workdir", "the output alone", "several", "fixtures", "a fixture tree", "others"],
)
def test_what_is_taken_for_what(tmp_path, files, answers):
    assert found(tmp_path, files) == (answers, ())


@pytest.mark.parametrize(
    ("files", "output", "remark"),
    [
        (["golden/pass/notes/a.txt"], OUTPUT, "golden/pass is not used: there is no app/out/answer.json and no app/"),
        (["golden/pass/a/app/x", "golden/pass/b/y"], OUTPUT, "golden/pass/b is not used"),
        (["tests/fixtures/golden_pass.md"], OUTPUT, "which has another suffix"),
        (["tests/fixtures/golden_pass.md"], None, "nobody knows which file"),
    ],
)
def test_what_is_not_understood_is_said(tmp_path, files, output, remark):
    assert any(remark in line for line in found(tmp_path, files, output)[1])


def test_an_answer_with_a_start_script_is_started(tmp_path):
    found(tmp_path, ["golden/pass/app/service.py", "golden/pass/start.sh"])
    assert [answer.started for answer in find_golden(tmp_path, "/app", OUTPUT).answers] == [True]


def test_links_are_not_followed(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    found(elsewhere, ["app/out/answer.json"])
    (tmp_path / "task/golden").mkdir(parents=True)
    (tmp_path / "task/golden/pass").symlink_to(elsewhere)
    assert find_golden(tmp_path / "task", "/app", OUTPUT).answers == ()


def test_there_is_an_end_to_them(tmp_path):
    answers, remarks = found(tmp_path, [f"golden/pass/{number:02}/app/x" for number in range(25)])
    assert (len(answers), len(remarks)) == (20, 5)


FOUND_ANSWERS_OUTPUT = OutputSpec(path="/app/answer.json", format="json", source="declared")


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
    return [
        (each.path, each.content, each.format)
        for each in kept_answers(path, "oracle", FOUND_ANSWERS_OUTPUT, "/app", 1.0)
    ]


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


def test_there_is_an_end_to_them_in_found_answers(tmp_path):
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
        assert [each.content for each in golden_answers(golden, FOUND_ANSWERS_OUTPUT, 1.0)] == [b"[1]"]


def test_a_golden_answer_without_the_output_or_with_a_link_for_it_holds_none(tmp_path):
    golden = GoldenAnswer("golden/pass", tmp_path / "tree", "/")
    (tmp_path / "tree/app").mkdir(parents=True)
    assert golden_answers(golden, FOUND_ANSWERS_OUTPUT, 1.0) == []
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "tree/app/answer.json").symlink_to(tmp_path / "secret")
    assert golden_answers(golden, FOUND_ANSWERS_OUTPUT, 1.0) == []
