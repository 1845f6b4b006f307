"""Lint of what a Dockerfile brings: sources that are not there, tools that nothing installs."""

from pathlib import Path

import pytest

from seatrial.tasks.lint import lint
from seatrial.tasks.lint_image import missing_in_image, missing_sources
from seatrial.tasks.load import load_task


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """A task with files in environment/ and beside it; returns where its Dockerfile is."""
    for name in (
        "task.toml",
        "tests/test.sh",
        "notes.md",
        "environment/app/main.py",
        "environment/a.csv",
        "environment/x y",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return tmp_path / "environment/Dockerfile"


def reasons(dockerfile: Path, text: str) -> list[str]:
    return [f"{line}: {why}" for line, why in missing_sources(dockerfile, f"FROM ubuntu\n{text}\n")]


OUTSIDE = "is not in the build context, which is the task's environment/ folder; it is in the task folder itself"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("COPY b.csv /app/", "b.csv is not in the build context"),
        ("ADD --chown=1:1 b.csv /app/", "b.csv is not in the build context"),
        ("COPY a.csv \\\n  b.csv /app/", "b.csv is not in the build context"),
        ('COPY ["b.csv", "/app/"]', "b.csv is not in the build context"),
        ("COPY *.txt /app/", "*.txt matches nothing in the build context"),
        ("COPY notes.md /app/", f"notes.md {OUTSIDE}: move it to environment/"),
        ("COPY ../notes.md /app/", f"../notes.md {OUTSIDE}: move it to environment/"),
        ("COPY environment/app /app", f"environment/app {OUTSIDE}: write 'app'"),
        ("COPY tests/ /tests", f"tests/ {OUTSIDE}: leave it out, since agents see what is in their image"),
    ],
)
def test_a_source_that_the_context_does_not_have_is_found(context, line, reason):
    assert reasons(context, line) == [f"2: {reason}"]


@pytest.mark.parametrize(
    "line",
    [
        "COPY . /app",
        "COPY a.csv app/main.py /app/",
        "COPY app/*.py /app/",
        'COPY ["x y", "/app/"]',
        "COPY --from=ghcr.io/somebody/uv /uv /bin/",
        "ADD https://example.com/x.tar.gz /x/",
        "ADD git@example.com:x.git /x/",
        "ARG NAME=gone\nCOPY $NAME.csv /app/",
        "COPY <<EOF /app/x\nCOPY gone.csv /\nEOF",
        "RUN cat <<EOF\nCOPY gone.csv /\nEOF",
        "# COPY gone.csv /",
        "COPY [oops",
    ],
)
def test_a_source_that_is_there_or_cannot_be_known_is_fine(context, line):
    assert reasons(context, line) == []


def test_what_dockerignore_leaves_out_is_not_there(context):
    context.with_name(".dockerignore").write_text("*.csv\n!b.csv\n")
    assert reasons(context, "COPY a.csv /app/") == ["2: a.csv is left out of the build context by .dockerignore"]
    assert reasons(context, "COPY app /app") == []


@pytest.mark.parametrize(
    "text", ["", "FROM a\nRUN <<EOF\n", "# escape=x\nFROM a"], ids=["empty", "endless", "directive"]
)
def test_a_dockerfile_that_cannot_be_read_is_for_the_builder_to_refuse(context, text):
    assert list(missing_sources(context, text)) == []


@pytest.mark.parametrize(
    ("toml", "extra", "files"),
    [
        ("", {}, ["environment/Dockerfile"]),
        ('[environment]\ndocker_image = "a"\n', {}, []),
        ("", {"environment/docker-compose.yaml": ""}, []),
        ("", {"tests/Dockerfile": "FROM a\nCOPY gone /\n"}, ["environment/Dockerfile"]),
        (
            '[verifier]\nenvironment_mode = "separate"\n',
            {"tests/Dockerfile": "FROM a\nCOPY gone /\n"},
            ["environment/Dockerfile", "tests/Dockerfile"],
        ),
    ],
    ids=["plain", "named image", "compose", "shared verifier", "separate verifier"],
)
def test_every_dockerfile_that_is_built_is_looked_at(make_task, toml, extra, files):
    root = make_task(toml=toml, files={"environment/Dockerfile": "FROM a\nCOPY gone /\n", **extra})
    found = [problem for problem in lint(load_task(root), {}) if problem.code == "missing-source"]
    assert [(problem.severity, problem.file) for problem in found] == [("warning", file) for file in files]


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


@pytest.mark.parametrize(
    ("base", "script", "found"),
    [
        ("ubuntu:22.04", "pytest -q", ["pytest"]),
        ("debian:bullseye-slim", "pytest -q", ["pytest"]),
        ("ubuntu:24.04", "pytest -q", []),
        ("debian:12", "pytest -q", []),
        ("ubuntu:22.04", "python3 -m pytest -q", []),
        ("ubuntu:22.04", "pytest-3 -q", []),
        ("python:3.12-slim", "python3 -m pytest -q", ["pytest"]),
        ("python:3.12-slim", "pytest -q", []),
        ("python:3.12-slim-bullseye", "pytest -q", ["pytest"]),
    ],
)
def test_pytest_of_apt_is_there_by_some_names_only(base, script, found):
    install = "apt-get update && apt-get install -y python3-pytest"
    assert missing(f"#!/bin/bash\n{script}\n", f"FROM {base}\nRUN {install}\n") == found
    assert missing(f"#!/bin/bash\n{install}\n{script}\n", f"FROM {base}\nRUN apt-get install -y python3\n") == found


def test_lint_says_that_pytest_of_apt_does_not_do(make_task):
    dockerfile = "FROM ubuntu:22.04\nRUN apt-get install -y python3-pytest\n"
    root = make_task(files={"tests/test.sh": RUNS_PYTEST + REWARD, "environment/Dockerfile": dockerfile})
    assert codes(root) == ["tests/test.sh: runs pytest as apt's python3-pytest does not bring it on this image"]


@pytest.mark.parametrize(
    ("packages", "found"), [("python3", ["python"]), ("python3 python-is-python3", []), ("python3-pip", ["python"])]
)
def test_debian_and_ubuntu_have_no_python_without_a_number(packages, found):
    script = "#!/bin/bash\npython /tests/x.py\n"
    assert missing(script, f"FROM ubuntu:24.04\nRUN apt-get install -y {packages}\n") == found
    assert (
        missing(script, f"FROM ubuntu:24.04\nRUN apt-get install -y {packages} && ln -s python3 /usr/bin/python\n")
        == []
    )


@pytest.mark.parametrize(
    "script", ["x=$(cat f | pytest -q)", "bash -lc 'cd /app && pytest -q'", "timeout 60 pytest -q"]
)
def test_a_tool_is_found_however_it_is_run(script):
    assert missing(f"#!/bin/bash\n{script}\n", "FROM python:3.12\n") == ["pytest"]


@pytest.mark.parametrize("script", ["cat <<'EOF'\npytest -q\nEOF", 'echo "\npytest -q\n"', "say() { pytest; }"])
def test_a_tool_in_a_text_or_a_function_that_is_never_called_is_not_run(script):
    assert missing(f"#!/bin/bash\n{script}\n", "FROM python:3.12\n") == []
