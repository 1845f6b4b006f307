"""Golden answers: which ones a task ships, where they belong, and what is not understood and therefore not used."""

import pytest

from seatrial.check.golden_files import find_golden

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
