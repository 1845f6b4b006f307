"""What the tests of trials share: a factory for tasks, and a desk that runs trials on the embedded sandbox."""

import asyncio
import json
import shutil
import textwrap
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest

from seatrial.images.resolver import ImageResolver
from seatrial.model.evaluation import EvaluationResult
from seatrial.model.events import unobserved
from seatrial.model.job import AgentOptions, TrialOptions
from seatrial.model.record import AgentResult, Failure, FileChanges, Provenance, TrialRecord, VerifierRun
from seatrial.sandbox.api import SandboxBackend
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.embedded.protocol import Mode
from seatrial.tasks.layout import digest_folder
from seatrial.tasks.load import load_task
from seatrial.trial.events import Event, Observer
from seatrial.trial.run import run_trial
from seatrial.trial.spec import Machinery, TrialSpec

BUSYBOX = shutil.which("busybox")
needs_busybox = pytest.mark.skipif(BUSYBOX is None, reason="no busybox: install busybox-static")
TIMEOUT_SEC = 60.0
ANSWER = "/app/answer.txt"
INSTRUCTION = f"<!-- canary GUID 1234 -->\nWrite the word `right` to `{ANSWER}`.\n"

# Three verifiers of the usual kinds. Each gives 1 for the right answer and 0 for anything else.
SHELL_TEST = f"""#!/bin/sh
if grep -qx right {ANSWER}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
PYTHON_TEST = '#!/bin/sh\nexec python3 "$(dirname "$0")/verify.py"\n'
VERIFY_PY = f"""
import json, pathlib
answer = pathlib.Path("{ANSWER}")
right = answer.is_file() and answer.read_text().strip() == "right"
pathlib.Path("/logs/verifier/reward.json").write_text(json.dumps({{"reward": float(right)}}))
"""
PYTHON_FILES = {"tests/test.sh": PYTHON_TEST, "tests/verify.py": VERIFY_PY}

T = TypeVar("T")


def write_task(
    root: Path,
    *,
    toml: str = "",
    files: Mapping[str, str] | None = None,
    instruction: str | None = INSTRUCTION,
    network: str = "no-network",
) -> Path:
    """Write a task folder: by default one that wants `right` in /app/answer.txt, judged by `grep`."""
    base = f'[environment]\nnetwork_mode = "{network}"\n' if network and "[environment]" not in toml else ""
    contents = {"task.toml": f"{base}{textwrap.dedent(toml)}", "tests/test.sh": SHELL_TEST}
    if instruction is not None:
        contents["instruction.md"] = instruction
    for relative, text in {**contents, **(files or {})}.items():
        path = root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
    return root


def trial_spec(root: Path, agent: AgentOptions | str | None = None, **options: Any) -> TrialSpec:
    """One attempt at a task; a text is a command, None does nothing, `oracle` is the oracle."""
    task = load_task(root)
    return TrialSpec(
        trial_id=f"{task.id}.agent.1",
        task=task,
        task_digest=digest_folder(root),
        agent=agent if isinstance(agent, AgentOptions) else _agent_options(agent),
        options=TrialOptions(image="host", **options),
    )


def _agent_options(agent: str | None) -> AgentOptions:
    if agent in (None, "oracle"):
        return AgentOptions(name=agent or "noop")
    return AgentOptions(name="command", command=agent)


def python_command(code: str) -> str:
    """A shell command that runs a Python program of the host image, whatever characters are in it."""
    return f"/usr/bin/python3 -I - <<'END_OF_PROGRAM'\n{textwrap.dedent(code)}\nEND_OF_PROGRAM"


@dataclass(frozen=True, slots=True)
class Ran:
    """A trial that was run, with the folder of its files."""

    record: TrialRecord
    folder: Path
    events: list[Event] = field(default_factory=list)

    @property
    def evaluation(self) -> EvaluationResult:
        assert self.record.evaluation is not None, self.record.failure
        return self.record.evaluation

    @property
    def reward(self) -> float:
        return self.evaluation.reward

    @property
    def run(self) -> VerifierRun:
        assert self.record.verifier_run is not None
        return self.record.verifier_run

    @property
    def provenance(self) -> Provenance:
        assert self.record.provenance is not None
        return self.record.provenance

    @property
    def agent(self) -> AgentResult:
        assert self.record.agent_result is not None
        return self.record.agent_result

    @property
    def failure(self) -> Failure:
        assert self.record.failure is not None, self.record.evaluation
        return self.record.failure

    @property
    def tags(self) -> set[str]:
        return {tag.category for tag in self.evaluation.error_taxonomy or ()}

    @property
    def changes(self) -> FileChanges:
        return FileChanges.model_validate_json((self.folder / "changes.json").read_bytes())

    def text(self, path: str) -> str:
        return (self.folder / path).read_text(errors="replace")

    def manifest(self) -> dict[str, str]:
        """What became of each artifact, by its source."""
        found = json.loads(self.text("artifacts/manifest.json"))["artifacts"]
        return {entry["source"]: entry["status"] for entry in found}


class Desk:
    """Runs trials one after the other on one backend."""

    def __init__(self, runner: asyncio.Runner, backend: SandboxBackend, folder: Path) -> None:
        self.backend = backend
        self._runner = runner
        self._folder = folder
        self._numbers = count(1)

    def new_folder(self) -> Path:
        """A folder that nobody else has."""
        folder = self._folder / f"trial-{next(self._numbers)}"
        folder.mkdir()
        return folder

    def wait(self, work: Awaitable[T]) -> T:
        """Run a coroutine to its end, within a time that no healthy machine needs."""

        async def bounded() -> T:
            async with asyncio.timeout(TIMEOUT_SEC):
                return await work

        return self._runner.run(bounded())

    def run(self, root: Path, agent: AgentOptions | str | None = None, **options: Any) -> Ran:
        """Run a trial of an agent at a task; `options` are fields of TrialOptions."""
        return self.run_spec(trial_spec(root, agent, **options))

    def run_spec(self, spec: TrialSpec, observe: Observer = unobserved, **machinery: Any) -> Ran:
        """Run a trial and keep what happened; `machinery` are fields of Machinery besides the backend."""
        events: list[Event] = []

        def watch(event: Event) -> None:
            events.append(event)
            observe(event)

        folder = self.new_folder()
        return Ran(self.wait(run_trial(spec, Machinery(self.backend, **machinery), folder, watch)), folder, events)

    def attack(self, command: str, *, files: Mapping[str, str] | None = None, toml: str = "", **options: Any) -> Ran:
        """Run a command as the agent of a fresh task."""
        return self.run(write_task(self.new_folder() / "task", files=files, toml=toml), command, **options)


def run_in_image(desk: Desk, images: ImageResolver, root: Path, command: str | None, **options: str) -> Ran:
    """Run a trial in the image that its task asks for."""
    spec = trial_spec(root, command)
    return desk.run_spec(replace(spec, options=TrialOptions(**options)), images=images)  # type: ignore[arg-type]


@contextmanager
def open_desk(folder: Path, mode: Mode | Literal["auto"] = "auto") -> Iterator[Desk]:
    """A desk with an embedded backend of its own."""
    with asyncio.Runner() as runner:
        backend = runner.run(EmbeddedBackend(mode).__aenter__())
        try:
            yield Desk(runner, backend, folder)
        finally:
            runner.run(backend.__aexit__(None, None, None))
