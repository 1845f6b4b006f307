"""A verifier that lacked a tool of its own: read from the ends of what it printed, where it gave a 0."""

import os
from collections.abc import Iterable
from pathlib import Path

from seatrial.model.evaluation import EvaluationResult
from seatrial.scoring.findings import Finding, with_finding
from seatrial.scoring.missing_tools import missing_tools
from seatrial.trial.rounds import Round

TOOL_MISSING = "verifier_tool_missing"

_TAIL_BYTES = 64 * 2**10
_SCRIPT_BYTES = 2**20


def find_missing_tools(round_: Round, evaluation: EvaluationResult, logs: Path) -> tuple[str, ...]:
    """The tools that the verifier of a round could not find; none where it gave a reward all the same."""
    if evaluation.reward != 0.0:
        return ()
    printed = [_tail(logs / name, _TAIL_BYTES) for name in ("stdout.txt", "stderr.txt")]
    own = round_.task.root / (round_.layout.test_script or "tests/test.sh")
    script = round_.given[-1] / "test.sh" if round_.given else own
    return missing_tools(
        printed, _head(script, _SCRIPT_BYTES).decode(errors="replace"), round_.instruction().decode(errors="replace")
    )


def explain_missing_tools(evaluation: EvaluationResult, tools: tuple[str, ...]) -> EvaluationResult:
    """The evaluation with a tag that names the tools."""
    if not tools:
        return evaluation
    return with_finding(evaluation, Finding(TOOL_MISSING, about_missing_tools(tools)))


def about_missing_tools(tools: Iterable[str]) -> str:
    """What a 0 is worth that came from a verifier without these tools."""
    return f"the verifier could not find {', '.join(tools)}, so its 0 may say nothing about the agent"


def missing_tool_notice(round_: Round, tool: str) -> str:
    """What the watchers of a run are told once about a task and a tool."""
    step = f", step {round_.name}" if round_.step else ""
    return (
        f"{round_.task.id}{step}: the verifier could not find {tool} and gave 0; "
        "install it in the task's image, or see in its output why the test script could not"
    )


def _head(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except OSError:
        return b""


def _tail(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - limit))
            return file.read(limit)
    except OSError:
        return b""
