"""A trial as rounds of agent and verifier: a multi-step task has one per step, every other task exactly one."""

import posixpath
from collections.abc import Set
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from seatrial.model.evaluation import EvaluationResult
from seatrial.model.job import TrialOptions
from seatrial.model.loaded_task import Task, TaskLayout, TaskStep
from seatrial.model.output import VerdictSource
from seatrial.model.task import AgentSpec, ArtifactSpec, HealthcheckSpec, VerifierPhaseSpec
from seatrial.tasks.instruction import strip_canary
from seatrial.tasks.layout import read_text, walk
from seatrial.tasks.load import MAX_INSTRUCTION_BYTES


@dataclass(frozen=True, slots=True)
class Round:
    """What one agent run and its verification need to know of the task."""

    task: Task
    step: TaskStep | None = None
    """None in a task without steps."""
    given: tuple[Path, ...] = ()
    """Folders of tests from elsewhere, in place of the task's own."""

    @property
    def name(self) -> str | None:
        return self.step.spec.name if self.step else None

    @property
    def judged(self) -> Task | TaskStep:
        """What says where the output is expected and which verifier speaks."""
        return self.step or self.task

    @property
    def layout(self) -> TaskLayout:
        return self.judged.layout

    @property
    def agent(self) -> AgentSpec:
        task = self.task.config.agent
        if self.step is None:
            return task
        step = self.step.spec.agent
        return AgentSpec(
            timeout_sec=step.timeout_sec or task.timeout_sec,
            user=task.user if step.user is None else step.user,
            network=step.network or task.network,
        )

    def agent_seconds(self, options: TrialOptions) -> float | None:
        """How long the agent may work; None for as long as it likes. A run may say so for all tasks."""
        seconds = options.agent_timeout_sec or self.agent.timeout_sec
        return seconds * options.agent_timeout_multiplier if seconds else None

    @property
    def verifier(self) -> VerifierPhaseSpec:
        return self.step.spec.verifier if self.step else self.task.config.verifier

    def verdict(self, options: TrialOptions) -> VerdictSource:
        """By what the verifier speaks; a run may say so for all tasks, and a step leaves open what the task has."""
        if options.verdict == "exit_status":
            return "exit_status"
        return self.verifier.verdict or self.task.config.verifier.verdict or "reward"

    @property
    def verifier_user(self) -> str | int | None:
        """Who runs the verifier; what a step leaves open is as the task has it."""
        user = self.verifier.user
        return self.task.config.verifier.user if user is None else user

    @property
    def healthcheck(self) -> HealthcheckSpec | None:
        """What must succeed before this round's agent starts."""
        own = self.step.spec.healthcheck if self.step else None
        first = self.step is None or self.step is self.task.steps[0]
        return own or (self.task.config.environment.healthcheck if first else None)

    @property
    def artifacts(self) -> tuple[ArtifactSpec, ...]:
        """What to keep besides what the agent publishes by itself."""
        return self.task.config.artifacts + (self.step.spec.artifacts if self.step else ())

    @property
    def folder(self) -> str:
        """Where the record keeps this round's files."""
        return f"steps/{self.name}" if self.step else ""

    def tests(self) -> tuple[Path, ...]:
        """The folders of tests, to be laid over each other in this order."""
        return self.given or tests_below(self.task.root, self.name)

    def solution(self) -> Path | None:
        folder = self.task.root / (f"steps/{self.name}/solution" if self.step else "solution")
        return folder if folder.is_dir() else None

    def workdir_files(self) -> Path | None:
        """What a step adds to the working directory."""
        folder = self.task.root / f"steps/{self.name}/workdir" if self.step else None
        return folder if folder and folder.is_dir() else None

    def staged_files(self, workdir: str) -> Set[str]:
        """Where in the sandbox the task's own files are."""
        environment = self.task.root / "environment" if self.task.layout.environment_files else None
        sources = [source for source in (environment, self.workdir_files()) if source]
        return {
            posixpath.join(workdir, path) for source in sources for path in chain.from_iterable(walk(str(source))[:2])
        }

    def instruction(self) -> bytes:
        """The instruction as the agent may see it."""
        if self.layout.instruction is None:
            return b""
        text = read_text(self.task.root / self.layout.instruction, MAX_INSTRUCTION_BYTES, "replace")
        return strip_canary(text).encode()

    def is_good_enough(self, evaluation: EvaluationResult) -> bool:
        """Whether the next round may start."""
        least = self.step.spec.min_reward if self.step else None
        if least is None:
            return True
        wanted = least if isinstance(least, dict) else {"reward": least}
        if not evaluation.validity.verifier_completed:
            return False
        rewards = {**_numbers(evaluation), "reward": evaluation.reward}
        return all(rewards.get(key, float("-inf")) >= value for key, value in wanted.items())


def _numbers(evaluation: EvaluationResult) -> dict[str, float]:
    breakdown = evaluation.breakdown or {}
    return {key: float(value) for key, value in breakdown.items() if isinstance(value, int | float)}


def tests_below(root: Path, step: str | None) -> tuple[Path, ...]:
    """The folders of tests in a task's folder, to be laid over each other in this order."""
    own = [root / f"steps/{step}/tests"] if step else []
    return tuple(folder for folder in [root / "tests", *own] if folder.is_dir())


def rounds_of(task: Task) -> tuple[Round, ...]:
    return tuple(Round(task, step) for step in task.steps) or (Round(task),)
