"""Lint of a verifier's scripts: each check finds its fault, and is silent about the nearest thing that is none."""

import os

import pytest

from seatrial.tasks.lint import lint
from seatrial.tasks.lint_tests import read_unit
from seatrial.tasks.load import load_task

OK = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"
ASKED = "Write the answer to /workspace/out.json.\n"


def problems(root, code):
    """The problems of one code, each as `severity file: message`."""
    return [f"{p.severity} {p}" for p in lint(load_task(root), {}) if p.code == code]


def with_script(make_task, text, name="tests/test.sh"):
    return make_task(files={name: text})


def without_script(make_task, **task):
    root = make_task(**task)
    (root / "tests/test.sh").unlink()
    return root


def test_a_task_without_a_test_script_is_found(make_task):
    assert problems(without_script(make_task), "missing-test-script") == ["error tests/test.sh: no test script"]


def test_what_there_is_instead_of_a_test_script_is_named(make_task):
    root = without_script(
        make_task, files={f"tests/{name}": "" for name in ("run.sh", "a.py", "b.py", "c.py", "d.csv")}
    )
    message = "no test script, though there is tests/a.py, tests/b.py, tests/c.py and 1 more"
    assert problems(root, "missing-test-script") == [f"error tests/test.sh: {message}"]


def test_a_command_in_place_of_a_script_is_named(make_task):
    root = without_script(make_task, toml='[verifier]\ncommand = "make check"')
    message = "no test script, though [verifier] command says 'make check'"
    assert problems(root, "missing-test-script") == [f"error tests/test.sh: {message}"]


@pytest.mark.parametrize(
    ("toml", "file"),
    [
        ("", "tests/Dockerfile"),
        ("", "tests/docker-compose.yaml"),
        ('[verifier.environment]\ndocker_image = "judge:1"', "environment/x"),
        ('[environment]\nos = "windows"', "tests/test.bat"),
    ],
    ids=["Dockerfile", "compose", "wild 15: image", "Windows"],
)
def test_a_verifier_that_brings_its_tests_another_way_is_fine(make_task, toml, file):
    assert problems(without_script(make_task, toml=toml, files={file: ""}), "missing-test-script") == []


def test_a_step_without_any_test_script_is_found_under_its_name(make_task):
    root = without_script(
        make_task,
        toml='[[steps]]\nname = "a"\n[[steps]]\nname = "b"',
        files={"steps/a/instruction.md": "Go.", "steps/a/tests/test.sh": OK, "steps/b/instruction.md": "Go."},
    )
    assert problems(root, "missing-test-script") == ["error steps/b/tests/test.sh: no test script"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("rewards.txt", "reward.txt"),
        ("reward.jsn", "reward.json"),
        ("Reward.json", "reward.json"),
        ("rewrad.txt", "reward.txt"),
    ],
)
def test_a_reward_file_by_nearly_the_right_name_is_found(make_task, written, meant):
    root = with_script(make_task, f"#!/bin/sh\necho 1 > /logs/verifier/{written}\n")
    assert problems(root, "reward-near-miss") == [f"error tests/test.sh: names {written}, which is never read"]
    fixes = [problem.fix for problem in lint(load_task(root), {}) if problem.code == "reward-near-miss"]
    assert fixes == [f"call it {meant}"]


def test_a_near_miss_beside_the_right_name_is_only_a_warning(make_task):
    root = with_script(make_task, OK + "cp /logs/verifier/reward.txt /logs/verifier/rewards.txt\n")
    assert problems(root, "reward-near-miss") == ["warning tests/test.sh: names rewards.txt, which is never read"]


@pytest.mark.parametrize(
    "text",
    ["cp /app/rewards.txt /tmp", "python3 /tests/judge.bin # not rewards.json"],
    ids=["not where rewards are", "by a program"],
)
def test_a_near_miss_that_may_be_something_else_is_only_a_warning(make_task, text):
    root = with_script(make_task, f"#!/bin/sh\n{text}\n")
    assert [found.split()[0] for found in problems(root, "reward-near-miss")] == ["warning"]


def test_a_file_of_the_task_that_is_called_nearly_so_is_fine(make_task):
    assert problems(with_script(make_task, OK + "cat /app/rewards.txt\n"), "reward-near-miss") == []


@pytest.mark.parametrize("place", ["/logs/reward.txt", "/logs/verifer/reward.json", "/reward.txt"])
def test_a_reward_that_lies_where_nothing_reads_it_is_found(make_task, place):
    root = with_script(make_task, f"#!/bin/sh\necho 1 > {place}\n")
    assert problems(root, "reward-near-miss") == [f"warning tests/test.sh: names {place}, which is never read"]


@pytest.mark.parametrize(
    ("toml", "text"),
    [
        ("", "echo 1 > /logs/verifier/reward.txt || echo 1 > /app/reward.txt"),
        ("", 'D=/logs/verifier\necho 1 > "$D/reward.txt"'),
        ("", "echo 1 > ./reward.txt"),
        ('[verifier]\nreward_path = "/out/reward.txt"', "echo 1 > /out/reward.txt"),
    ],
    ids=["fall-back", "variable", "relative", "declared"],
)
def test_a_reward_that_may_be_read_is_fine(make_task, toml, text):
    root = make_task(toml=toml, files={"tests/test.sh": f"#!/bin/sh\n{text}\n"})
    assert problems(root, "reward-near-miss") == []


@pytest.mark.parametrize("name", ["reward.txt", "reward.json", "reward-details.json", "report.txt", "award.json"])
def test_other_file_names_are_no_near_miss(make_task, name):
    assert problems(with_script(make_task, f"{OK}touch /logs/verifier/{name}\n"), "reward-near-miss") == []


def test_a_declared_reward_file_is_no_near_miss(make_task):
    toml = '[verifier]\nreward_path = "/logs/verifier/rewards.json"'
    root = make_task(toml=toml, files={"tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/rewards.json\n"})
    assert problems(root, "reward-near-miss") == []


def test_tests_that_never_name_a_reward_file_are_found(make_task):
    root = with_script(make_task, "#!/bin/sh\npytest /tests\n")
    message = "no script below tests/ names a reward file"
    assert problems(root, "no-reward-written") == [f"warning tests/test.sh: {message}"]


@pytest.mark.parametrize(
    ("toml", "name", "text"),
    [
        ("", "tests/test.sh", OK),
        ("", "tests/lib/deep/write.py", "open('/logs/verifier/reward.json', 'w')"),
        ("", "tests/test.sh", "#!/bin/sh\nuvx harbor-rewardkit /tests\n"),
        ('[verifier]\nreward_path = "/logs/score.json"', "tests/test.sh", "echo 1 > /logs/score.json"),
        ('[environment]\nos = "windows"', "tests/test.bat", "echo 1 > C:\\logs\\verifier\\reward.txt"),
    ],
    ids=["script", "helper", "rewardkit", "declared name", "Windows"],
)  # fmt: skip
def test_a_reward_may_be_written_anywhere_below_tests(make_task, toml, name, text):
    files = {"tests/test.sh": "#!/bin/sh\npython3 /tests/lib/deep/write.py\n", name: text}
    assert problems(make_task(toml=toml, files=files), "no-reward-written") == []


@pytest.mark.parametrize(
    "read", ["/workspace/output.json", "/workspace/answer.json", "/app/Out.json", "/data/ouT2.json"]
)
def test_tests_that_read_another_file_than_the_expected_one_are_found(make_task, read):
    root = make_task(instruction=ASKED, files={"tests/check.py": f"open('{read}')\n"})
    reason = "the expected output is /workspace/out.json (the instruction asks for it)"
    assert problems(root, "output-path-differs") == [f"warning tests/test.sh: reads {read}, but {reason}"]


@pytest.mark.parametrize(
    ("read", "severity"),
    [("/workspace/outs.json", "error"), ("/workspace/input.json", "warning")],
    ids=["nearly the same", "perhaps an input"],
)
def test_only_a_declared_path_that_was_mistyped_is_an_error(make_task, read, severity):
    toml = '[output]\npath = "/workspace/out.json"\n'
    root = make_task(toml=toml, files={"tests/check.py": f"open('{read}'); glob('/workspace/*.json')\n"})
    (found,) = problems(root, "output-path-differs")
    assert found.startswith(f"{severity} tests/test.sh: reads {read}")


@pytest.mark.parametrize(
    "text",
    ["open('/workspace/out.json')", "open(ROOT / 'out.json')", "open('/workspace/in.csv')", "open('/etc/passwd')", ""],
    ids=["same", "by name", "other format", "elsewhere", "nothing"],
)
def test_tests_that_read_nothing_like_the_output_are_fine(make_task, text):
    assert problems(make_task(instruction=ASKED, files={"tests/check.py": text}), "output-path-differs") == []


@pytest.mark.parametrize(
    ("instruction", "read"),
    [("There is /workspace/out.json", "/workspace/a.json"), ("Write /workspace/key.pem", "/workspace/check.xyz")],
    ids=["a guess", "formats that nothing is known of"],
)
def test_where_little_is_known_nothing_differs(make_task, instruction, read):
    root = make_task(instruction=instruction, files={"tests/check.py": f"open('{read}')"})
    assert problems(root, "output-path-differs") == []


CHECKED = "#!/bin/bash\npytest /tests || true\necho 1 > /logs/verifier/reward.txt\n"
CAUGHT = "def test_it():\n    try:\n        assert 0\n    except Exception:\n        pass\n"


def test_what_is_wrong_with_a_script_is_said_with_its_line(make_task):
    root = make_task(files={"tests/test.sh": CHECKED, "tests/test_it.py": CAUGHT})
    assert problems(root, "swallowed-errors") == [
        "warning tests/test.sh: line 2: `|| true` drops the result of pytest, and nothing else keeps it",
        "warning tests/test_it.py: line 4 catches the assertions above it and does nothing, so they always hold",
    ]


def test_the_kit_is_not_judged(make_task):
    assert problems(with_script(make_task, CAUGHT, "tests/verifier_kit.py"), "swallowed-errors") == []


def test_a_script_that_may_end_before_its_reward_is_found(make_task):
    root = with_script(make_task, "#!/bin/bash\nset -e\npytest\necho 1 > /logs/verifier/reward.txt\n")
    message = "line 3: where pytest fails, `set -e` ends the script before it writes a reward"
    assert problems(root, "set-e") == [f"warning tests/test.sh: {message}"]


def test_what_the_agent_may_not_have_written_ends_a_script_too(make_task):
    text = "#!/bin/bash\nset -e\nA=$(cat /workspace/out.json)\necho $A > /logs/verifier/reward.txt\n"
    assert problems(make_task(instruction=ASKED, files={"tests/test.sh": text}), "set-e")
    assert problems(make_task("other", instruction="Go.", files={"tests/test.sh": text}), "set-e") == []


def test_a_script_of_windows_is_not_read_as_a_shell_reads_it(make_task):
    text = "set -e\r\npytest\r\necho 1 > C:\\logs\\verifier\\reward.txt\r\n"
    root = make_task(toml='[environment]\nos = "windows"', files={"tests/test.bat": text})
    assert problems(root, "set-e") == []


def test_a_script_with_windows_line_ends_is_found(make_task):
    root = with_script(make_task, OK.replace("\n", "\r\n"))
    message = "has Windows line ends, which a Linux shell cannot run"
    assert problems(root, "crlf-script") == [f"error tests/test.sh: {message}"]
    assert problems(with_script(make_task, "a\r\n", "tests/data.csv"), "crlf-script") == []


def test_windows_line_ends_after_a_sound_first_line_are_only_a_warning(make_task):
    root = with_script(make_task, OK + "cat <<'X'\r\nX\r\n")
    assert [found.split()[0] for found in problems(root, "crlf-script")] == ["warning"]


def test_a_script_without_a_first_line_is_noted(make_task):
    message = "has no #! line; it is run by /bin/sh"
    assert problems(with_script(make_task, "echo 1\n"), "no-shebang") == [f"note tests/test.sh: {message}"]
    assert problems(with_script(make_task, OK), "no-shebang") == []


def test_the_tests_that_steps_share_are_complained_about_once(make_task):
    files = {"tests/test.sh": "#!/bin/sh\npytest || true\n" + OK} | {f"steps/{n}/instruction.md": "Go." for n in "abc"}
    root = make_task(toml="".join(f'[[steps]]\nname = "{name}"\n' for name in "abc"), files=files)
    assert len(problems(root, "swallowed-errors")) == 1


def test_scripts_of_any_encoding_name_or_kind_do_not_stop_the_lint(make_task):
    root = make_task(files={"tests/large.py": "#" * (2**20 + 1)})
    (root / "tests/latin.py").write_bytes(b"# \xe9\ntry:\n    assert 0\nexcept:\n    pass\n")
    (root / "tests/loop.py").symlink_to("loop.py")
    (root / "tests/gone.py").symlink_to("nothing.py")
    (root / "tests" / os.fsdecode(b"\xff.py")).write_text("")
    assert [found.split(":")[0] for found in problems(root, "swallowed-errors")] == ["warning tests/latin.py"]


def test_scripts_behind_links_out_of_the_task_are_not_read(make_task, tmp_path):
    (tmp_path / "outside.py").write_text("reward.jsn")
    root = make_task(files={"tests/check.py": "", "tests/__pycache__/x.py": ""})
    (root / "tests/inside.py").symlink_to("check.py")
    task = load_task(root)
    (root / "tests/outside.py").symlink_to(tmp_path / "outside.py")
    unit = read_unit(root, ("tests",), task.layout, task.output, task.config)
    assert sorted(unit.scripts) == ["tests/check.py", "tests/inside.py", "tests/test.sh"]
