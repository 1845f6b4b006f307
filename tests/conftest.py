"""What several test modules share: what `make test` leaves out, a factory for task folders, and a task to score."""

import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from seatrial.model.loaded_task import Task
from seatrial.model.output import RawArtifacts, RawFile
from seatrial.tasks.load import load_task

# No deadline: the machines that run the tests are shared, and a slow second says nothing about the code.
# Few examples: others are drawn each time; `--hypothesis-profile thorough` draws many.
settings.register_profile("quick", deadline=None, max_examples=10)
settings.register_profile("whole", deadline=None, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=1000)

# Tests start thousands of Pythons, which would compile every module again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Tests speak to this machine only; those of registries bring their own and say so.
os.environ["SEATRIAL_OFFLINE"] = "1"

# Shells start what runs in the background with Ctrl-C ignored, nohup with SIGHUP, and programs started by tests would
# inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The key that seals jobs is a test's own, not the one of whoever runs the tests.
_STATE = tempfile.TemporaryDirectory(prefix="seatrial-tests-")
os.environ["XDG_STATE_HOME"] = _STATE.name

# Tests of hundreds at once need more open files than most users may have before they ask for more.
_, _most = resource.getrlimit(resource.RLIMIT_NOFILE)
OPEN_FILES = 20_000 if _most == resource.RLIM_INFINITY else min(20_000, _most)
resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, _most))

REPOSITORY = Path(__file__).parent.parent

MakeTask = Callable[..., Path]


@pytest.fixture
def make_task(tmp_path: Path) -> MakeTask:
    """Write a task folder: `make_task("name", toml=…, instruction=…, files={"tests/x.py": …})` returns its path."""

    def make(
        name: str = "task", toml: str = "", instruction: str | None = "Do it.\n", files: dict[str, str] | None = None
    ) -> Path:
        contents = {"task.toml": toml, "tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n"}
        if instruction is not None:
            contents["instruction.md"] = instruction
        root = tmp_path / name
        for relative, text in {**contents, **(files or {})}.items():
            path = root / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
        return root

    return make


@pytest.fixture
def json_task(make_task: MakeTask) -> Task:
    """A task whose output is asked for at /workspace/out.json."""
    return load_task(make_task("json-task", instruction="Write the answer to `/workspace/out.json`.\n"))


def sampled(*classes: Iterable[Any]) -> list[Any]:
    """All cases of some classes as parameters: `make test` runs the first of each, `make test-all` all of them.

    A case for several names is a tuple.
    """
    return [_sample(case, first=not number) for cases in classes for number, case in enumerate(cases)]


def _sample(case: Any, *, first: bool) -> Any:
    marks = () if first else (pytest.mark.whole,)
    if hasattr(case, "marks"):
        return case._replace(marks=(*case.marks, *marks))
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks)


def raw(output: bytes | None = None, **files: bytes) -> RawArtifacts:
    """Raw artifacts from bytes: `raw(reward_json=b"…")`; the name's last underscore is the dot."""
    named = {name[::-1].replace("_", ".", 1)[::-1].replace("_", "-"): data for name, data in files.items()}
    found = {name: RawFile(name, "ok", data, len(data)) for name, data in named.items()}
    answer = None if output is None else RawFile("output", "ok", output, len(output))
    return RawArtifacts(files=found, output=answer)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="run also what `make test` leaves to `make test-all`")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("whole" if config.getoption("whole") else "quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked `whole` or `alone`, or skip what of it this machine lacks a part for."""
    if config.getoption("whole"):
        for item in items:
            for lacking in (reason for mark in item.iter_markers("whole") for reason in mark.args if reason):
                item.add_marker(pytest.mark.skip(reason=lacking))
        return
    left_out = {item for item in items for mark in item.iter_markers() if mark.name in ("whole", "alone")}
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where $SEATRIAL_REQUIRE names a part, a test that is skipped for want of it has failed."""
    report = yield
    refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """So has a file of tests that is."""
    report = yield
    refuse_skip(report)
    return report


def refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    required = [part for part in os.environ.get("SEATRIAL_REQUIRE", "").split(",") if part]
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = str(report.longrepr[2])
        if any(part in reason for part in required):
            report.outcome = "failed"
            report.longrepr = f"{report.nodeid} must not be skipped here: {reason}"
