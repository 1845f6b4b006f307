"""Which tools of a test script nothing brings along, as far as the files of a task tell."""

import pytest

from seatrial.tasks.lint import lint
from seatrial.tasks.lint_tools import missing_in_image
from seatrial.tasks.load import load_task

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
