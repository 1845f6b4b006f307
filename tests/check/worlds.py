"""A world in memory for checks: a task that wants `right` in a file, and a verifier that a test writes in Python."""

import asyncio
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from seatrial.check.battery import BatteryPlan, check_task
from seatrial.check.examiner import CheckTools, Examiner
from seatrial.jobs.admission import Admission
from seatrial.model.check import TaskCheck
from seatrial.model.job import TrialOptions
from seatrial.sandbox.api import ExecResult, ExecSpec
from seatrial.tasks.layout import digest_folder
from seatrial.tasks.load import load_task
from seatrial.testing.fake import FakeBackend, FakeSandbox, answer, command_line
from seatrial.trial.spec import Machinery
from tests.trial.support import ANSWER, write_task

SOLUTION = {"solution/solve.sh": "#!/bin/sh\necho right > answer.txt\n"}
GOLDEN = {"golden/pass/app/answer.txt": "right\n", "golden/fail/app/answer.txt": "wrong\n"}
RIGHT = b"right\n"

Files = dict[str, bytes]
Verify = Callable[[Files], str | None]
"""What a verifier writes as its reward, given all files; None when it dies without one."""


def fair(files: Files) -> str | None:
    return "1" if files.get(ANSWER, b"").strip() == b"right" else "0"


@dataclass
class World:
    """Runs the commands of sandboxes in memory: the solution, the verifier, and what an agent may be told to do."""

    verify: Verify = fair
    agents: Mapping[str, Callable[[FakeSandbox], None]] = field(default_factory=dict)
    judged: list[Files] = field(default_factory=list)
    """The files that the verifier was shown, each time."""
    rewrites: Files = field(default_factory=dict)
    """Files that the verifier makes itself while it judges."""

    def backend(self) -> FakeBackend:
        return FakeBackend(self._run)

    def _run(self, spec: ExecSpec, sandbox: FakeSandbox) -> ExecResult:
        line = command_line(spec)
        if "/tests/test.sh" in line:
            return self._judge(sandbox)
        if "solve.sh" in line:
            sandbox.files[ANSWER] = RIGHT
        for word, act in self.agents.items():
            if word in line:
                act(sandbox)
        if "rm -rf" in line or spec.argv[0].endswith("rm"):
            for path in shlex.split(line):
                sandbox.files.pop(path, None)
        return answer()

    def _judge(self, sandbox: FakeSandbox) -> ExecResult:
        files = {path: content for path, content in sandbox.files.items() if not path.startswith("/tests/")}
        files |= {f"/running/{name}": b"" for name in sandbox.running}
        self.judged.append(files)
        sandbox.files |= self.rewrites
        reward = self.verify(files)
        if reward is None:
            return answer("it died\n", exit_code=1)
        sandbox.files["/logs/verifier/reward.txt"] = reward.encode()
        return answer("judged\n")

    def check(self, root: Path, folder: Path, plan: BatteryPlan | None = None, **options: object) -> TaskCheck:
        """Check a task with the whole battery."""
        chosen = TrialOptions.model_validate({"image": "host", **options})
        tools = CheckTools(Machinery(self.backend()), Admission(4, 4096), chosen)
        examiner = Examiner(load_task(root), digest_folder(root), tools, folder / "files")
        return asyncio.run(check_task(examiner, plan or BatteryPlan(), "tasks/one"))


def make_task(folder: Path, files: Mapping[str, str] | None = None, toml: str = "") -> Path:
    """A task with a solution and golden answers."""
    return write_task(folder / "one", toml=toml, files={**SOLUTION, **GOLDEN, **(files or {})})


def ids(check: TaskCheck) -> set[str]:
    return {finding.id for finding in check.findings}
