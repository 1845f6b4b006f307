"""Lint of a verifier's scripts: each check finds its fault, and is silent about the nearest thing that is none."""

import os

import pytest

from seatrial.tasks.lint import lint
from seatrial.tasks.lint_image import missing_in_image
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
    ["rewardkit --also rewards.txt", "cp /app/rewards.txt /tmp", "python3 /tests/judge.bin # not rewards.json"],
    ids=["the kit writes it", "not where rewards are", "by a program"],
)
def test_a_near_miss_that_may_be_something_else_is_only_a_warning(make_task, text):
    root = with_script(make_task, f"#!/bin/sh\n{text}\n")
    assert [found.split()[0] for found in problems(root, "reward-near-miss")] == ["warning"]


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


def test_a_guessed_output_that_differs_is_only_a_warning(make_task):
    root = make_task(instruction="There is /workspace/out.json", files={"tests/check.py": "'/workspace/a.json'"})
    (found,) = problems(root, "output-path-differs")
    assert found.startswith("warning tests/test.sh: reads /workspace/a.json")


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("test.sh", "#!/bin/sh\npytest /tests || true\n", 2),
        ("test.sh", "cd /tests && python3 check.py || :\n", 1),
        ("check.py", "try:\n    f()\nexcept Exception:\n    pass\n", 3),
        ("check.py", "try:\n    f()\nexcept:  # whatever\n    ...\n", 3),
        ("check.py", "for x in y:\n    try:\n        f()\n    except BaseException as error:\n        pass\n", 4),
    ],
)
def test_a_script_that_swallows_every_error_is_found(make_task, name, text, line):
    message = f"line {line} swallows every error, so a broken check looks like a judged one"
    root = with_script(make_task, text, f"tests/{name}")
    assert problems(root, "swallowed-errors") == [f"warning tests/{name}: {message}"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("test.sh", "mkdir -p /logs/verifier || true\n"),
        ("test.sh", "# pytest /tests || true\n"),
        ("test.sh", "pytest /tests || echo 0 > /logs/verifier/reward.txt\n"),
        ("check.py", "try:\n    f()\nexcept FileNotFoundError:\n    pass\n"),
        ("check.py", "try:\n    f()\nexcept Exception:\n    fail()\n"),
        ("verifier_kit.py", "try:\n    f()\nexcept Exception:\n    pass\n"),
    ],
    ids=["mkdir", "comment", "handled", "one kind", "acted upon", "the kit"],
)
def test_an_error_that_is_handled_is_fine(make_task, name, text):
    assert problems(with_script(make_task, text, f"tests/{name}"), "swallowed-errors") == []


@pytest.mark.parametrize("line", ["set -e", "set -euo pipefail", "set -xe", "set -o errexit"])
def test_a_script_that_may_end_before_its_reward_is_found(make_task, line):
    root = with_script(make_task, f"#!/bin/bash\n{line}\npytest\necho 1 > /logs/verifier/reward.txt\n")
    assert problems(root, "set-e") == ["warning tests/test.sh: `set -e` can end the script before it writes a reward"]


def test_the_flag_may_stand_in_the_first_line(make_task):
    assert problems(with_script(make_task, OK.replace("/bin/sh", "/bin/sh -e")), "set-e")


@pytest.mark.parametrize(
    "text",
    [
        "set -u\necho 1 > /logs/verifier/reward.txt\n",
        "set -e\npython3 /tests/verify.py\n",
        "set -e\ntrap 'echo 0 > /logs/verifier/reward.txt' EXIT\n",
        "# set -e\necho 1 > /logs/verifier/reward.txt\n",
    ],
    ids=["other flag", "reward by a helper", "trap", "comment"],
)
def test_a_script_that_reaches_its_reward_is_fine(make_task, text):
    assert problems(with_script(make_task, f"#!/bin/sh\n{text}"), "set-e") == []


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
    files = {"tests/test.sh": "#!/bin/sh\npytest || true\n"} | {f"steps/{n}/instruction.md": "Go." for n in "abc"}
    root = make_task(toml="".join(f'[[steps]]\nname = "{name}"\n' for name in "abc"), files=files)
    assert len(problems(root, "swallowed-errors")) == 1


def test_scripts_of_any_encoding_name_or_kind_do_not_stop_the_lint(make_task):
    root = make_task(files={"tests/large.py": "#" * (2**20 + 1)})
    (root / "tests/latin.py").write_bytes(b"# \xe9\nexcept:\n    pass\n")
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


RUNS_PYTEST = "#!/bin/bash\npytest /tests/test_it.py\n"
REWARD = "echo 1 > /logs/verifier/reward.txt\n"


def missing(script: str, dockerfile: str, tests: str = "") -> list[str]:
    return list(missing_in_image(script, f"{script}\n{tests}", dockerfile))


@pytest.mark.parametrize(
    ("script", "tool"),
    [
        ("pytest -q /tests", "pytest"),
        ("cd /app && pytest -q", "pytest"),
        ("if pytest -q; then echo 1; fi", "pytest"),
        ("PYTHONPATH=/app pytest -q", "pytest"),
        ("python3 -m pytest -q", "pytest"),
        ("python -B -m pytest -q", "pytest"),
        ("uvx --with pytest pytest", "uvx"),
        ("uv run /tests/verify.py", "uv"),
        ("cat answer.json | jq .ok", "jq"),
        ("x=$(jq .a f)", "jq"),
        ("go test ./...", "go"),
    ],
)
def test_a_tool_that_the_script_runs_and_a_python_image_lacks_is_found(script, tool):
    assert tool in missing(f"#!/bin/bash\n{script}\n", "FROM python:3.12-slim\nWORKDIR /app\n")


@pytest.mark.parametrize(
    ("base", "tools"),
    [
        ("ubuntu:24.04", ["curl", "node", "python3"]),
        ("docker.io/library/debian:bookworm-slim", ["curl", "node", "python3"]),
        ("python:3.12-slim", ["curl", "node"]),
        ("python:3.12", []),
        ("--platform=linux/amd64 ubuntu:24.04", ["curl", "node", "python3"]),
        ("ghcr.io/somebody/ubuntu:24.04", []),
        ("node:22", []),
        ("$BASE", []),
    ],
)
def test_only_well_known_images_are_known_to_lack_anything(base, tools):
    assert missing("curl -s localhost\npython3 /tests/x.py\nnode /tests/x.js\n", f"FROM {base}\n") == tools


@pytest.mark.parametrize(
    "line",
    [
        "RUN pip install pytest==8.4.1",
        "RUN pip install --no-cache-dir \\\n    numpy \\\n    pytest",
        "RUN apt-get install -y python3-pytest",
        "RUN pip install -r requirements.txt",
        "RUN pip install -e .",
        "RUN ./install.sh",
        "RUN make setup",
        "RUN curl -LsSf https://example.com/install | sh",
        "COPY --from=tools /usr/local /usr/local",
    ],
)
def test_a_dockerfile_that_may_bring_it_is_believed(line):
    assert missing(RUNS_PYTEST, f"FROM python:3.12\n{line}\n") == []
    assert missing(RUNS_PYTEST, "FROM python:3.12\n# pytest is not installed here\n") == ["pytest"]


@pytest.mark.parametrize(
    "tests",
    [
        "pip install pytest",
        "python3 -m pip install --quiet pytest pytest-json-ctrf",
        "uv pip install --system pytest",
        "command -v pytest || exit 1",
        "source /opt/venv/bin/activate",
        "export PATH=/opt/tools/bin:$PATH",
        "pip install -r /tests/requirements.txt",
        "pytest() { python3 /tests/mini.py; }",
    ],
)
def test_tests_that_see_to_it_are_believed(tests):
    assert missing(f"#!/bin/bash\n{tests}\npytest -q\n", "FROM python:3.12\n") == []
    assert missing(RUNS_PYTEST, "FROM python:3.12\n", tests) == []


@pytest.mark.parametrize(
    "script", ["echo pytest", "# pytest -q", "cat pytest.log", "./pytest", "my-pytest -q", "pytest.sh"]
)
def test_a_mere_mention_runs_nothing(script):
    assert missing(f"#!/bin/bash\n{script}\n", "FROM python:3.12\n") == []


def test_the_usual_way_of_public_tasks_is_fine():
    script = (
        "apt-get update\napt-get install -y curl\ncurl -LsSf https://example.com/uv/install.sh | sh\n"
        "source $HOME/.local/bin/env\nuvx -p 3.13 -w pytest==8.4.1 pytest /tests/test_outputs.py -rA\n"
    )
    assert missing(script, "FROM ubuntu:24.04\nWORKDIR /app\n") == []


def test_packages_that_may_bring_python_are_believed():
    script = "python3 /tests/x.py\n"
    assert missing(script, "FROM ubuntu:24.04\nRUN apt-get update && apt-get install -y git curl\n") == ["python3"]
    assert missing(script, "FROM ubuntu:24.04\nRUN apt-get update && apt-get install -y gdb\n") == []


def codes(root) -> list[str]:
    return [str(problem) for problem in lint(load_task(root), {}) if problem.code == "missing-tool"]


def test_lint_names_the_tool_and_what_to_do(make_task):
    files = {"tests/test.sh": RUNS_PYTEST + REWARD, "environment/Dockerfile": "FROM python:3.12-slim\n"}
    root = make_task(files=files)
    (problem,) = [problem for problem in lint(load_task(root), {}) if problem.code == "missing-tool"]
    assert problem.severity == "warning"
    assert str(problem) == "tests/test.sh: runs pytest, which neither the Dockerfile nor the tests install"
    assert problem.fix == "install pytest in environment/Dockerfile or in the test script"


@pytest.mark.parametrize(
    ("toml", "dockerfile"),
    [
        ("", None),
        ('[environment]\ndocker_image = "somebody/else:1"\n', "FROM python:3.12\n"),
        ('[verifier]\nenvironment_mode = "separate"\n', "FROM python:3.12\n"),
    ],
)
def test_lint_is_silent_where_the_dockerfile_is_not_what_the_verifier_runs_in(make_task, toml, dockerfile):
    files = {"tests/test.sh": RUNS_PYTEST + REWARD}
    if dockerfile:
        files["environment/Dockerfile"] = dockerfile
    assert codes(make_task(toml=toml, files=files)) == []


def test_steps_are_looked_at_too(make_task):
    files = {
        "environment/Dockerfile": "FROM python:3.12\n",
        "steps/one/instruction.md": "Do it.\n",
        "steps/one/tests/test.sh": RUNS_PYTEST + REWARD,
    }
    assert len(codes(make_task(toml='[[steps]]\nname = "one"\n', files=files))) == 1
