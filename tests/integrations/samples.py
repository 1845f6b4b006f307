"""Results as verifiers and Harbor store them: the columns and keys of real files, with values of our own."""

import json
from pathlib import Path
from typing import Any

ERROR = {
    "error": "ModelError",
    "message": "ModelError",
    "error_chain_repr": "ModelError() -> ConnectionError('away')",
    "error_chain_str": "ModelError -> ConnectionError",
}


def rollout(example: int, reward: Any, /, **more: Any) -> dict[str, Any]:
    """A line of results.jsonl as 0.3.1 writes it: one turn with a tool, then the answer."""
    call = json.dumps({"id": "c1", "name": "add", "arguments": '{"a": 2}'})
    span = {"start": 1_700_000_000.0, "end": 1_700_000_002.5, "duration": 2.5}
    row = {
        "example_id": example,
        "prompt": [{"role": "user", "content": f"question {example}"}],
        "completion": [
            {"role": "assistant", "content": "let me add", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "5"},
            {"role": "assistant", "content": "it is 5"},
        ],
        "answer": "5",
        "reward": reward,
        "error": None,
        "timing": {"setup": span, "generation": span, "scoring": span, "model": {"spans": [span, span]}},
        "is_completed": True,
        "is_truncated": False,
        "stop_condition": "no_tools_called",
        "metrics": {"right": reward, "num_turns": 2.0},
        "tool_defs": [{"name": "add", "description": "Add.", "parameters": {"type": "object"}}],
        "token_usage": {"input_tokens": 20.0, "output_tokens": 6.0},
        "right": reward,
        "num_turns": 2.0,
    }
    return {**row, **more}


def old_rollout(example: int, reward: Any, /, **more: Any) -> dict[str, Any]:
    """A line as 0.1.9 writes it: flat columns, keys of all messages in each, an error as text."""
    function = {"arguments": '{"a": 2}', "name": "add"}
    call = json.dumps({"id": "c1", "function": function, "type": "function"})
    row = {
        "example_id": example,
        "prompt": [{"role": "user", "content": f"question {example}"}],
        "completion": [
            {"role": "assistant", "content": "let me add", "tool_calls": [call]},
            {"role": "tool", "content": "5", "tool_calls": None},
            {"role": "assistant", "content": "it is 5", "tool_calls": None},
        ],
        "task": "sums",
        "reward": reward,
        "error": None,
        "generation_ms": 22.1,
        "scoring_ms": 7.4,
        "total_ms": 30.7,
        "answer": "5",
        "right": reward,
        "num_turns": 2.0,
    }
    return {**row, **more}


def write_verifiers(folder: Path, *rows: dict[str, Any] | str, **metadata: Any) -> Path:
    """A folder of verifiers' results; a row that is text is written as it is."""
    folder.mkdir(parents=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "results.jsonl").write_text("\n".join(lines) + "\n")
    told = {"env_id": "org/sums", "model": "fake/model", "num_examples": 2, "rollouts_per_example": 2}
    versions = {"vf_version": "0.3.1"}
    (folder / "metadata.json").write_text(json.dumps({**told, "version_info": versions, **metadata}))
    return folder


def harbor_trial(task: str, rewards: Any = None, error: str | None = None, **more: Any) -> dict[str, Any]:
    """The result.json of a trial of Harbor's."""
    exception = {"exception_type": error, "exception_message": "so it was", "exception_traceback": "…"}
    span = {"started_at": "2026-05-01T12:00:00Z", "finished_at": "2026-05-01T12:00:05Z"}
    result = {
        "id": "8b0b7a5e-0000-4000-8000-000000000000",
        "task_name": task,
        "task_id": {"path": f"tasks/{task}"},
        "source": "mini",
        "task_checksum": "ab" * 32,
        "config": {"agent": {"env": {"API_KEY": "sk-very-secret"}}},
        "agent_info": {"name": "terminus", "version": "2.0", "model_info": {"name": "gpt", "provider": "openai"}},
        "agent_result": {"n_input_tokens": 100, "n_cache_tokens": 40, "n_output_tokens": 20, "cost_usd": 0.5},
        "verifier_result": None if rewards is None else {"rewards": rewards},
        "exception_info": exception if error else None,
        "started_at": "2026-05-01T12:00:00Z",
        "finished_at": "2026-05-01T12:00:20Z",
        "environment_setup": span,
        "agent_execution": span,
        "step_results": None,
    }
    return {**result, **more}


def write_harbor(folder: Path, *trials: dict[str, Any], mean: float | None = None) -> Path:
    """A job's folder of Harbor's."""
    folder.mkdir(parents=True)
    metrics = [] if mean is None else [{"mean": mean}]
    stats = {"evals": {"terminus__gpt__mini": {"metrics": metrics}}}
    (folder / "result.json").write_text(json.dumps({"n_total_trials": len(trials), "stats": stats}))
    for number, trial in enumerate(trials):
        place = folder / f"{trial['task_name']}__{number:07}"
        place.mkdir()
        (place / "config.json").write_text("{}")
        (place / "result.json").write_text(json.dumps({**trial, "trial_name": place.name}))
    return folder
