"""The files of a new environment: a package that works at once, with a test and a script to try it by."""

import json
from collections.abc import Mapping

from seatrial.cli.env_modules import KINDS
from seatrial.cli.init_files import new_task_files

SCRIPT = "script.json"

_TASK = "sensor-readings"

_PROJECT = """\
[project]
name = "{dashed}"
version = "0.1.0"
description = "An environment for Seatrial"
requires-python = ">=3.11"
dependencies = ["seatrial"]

[project.entry-points."seatrial.environments"]
{dashed} = "{module}:load_environment"

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.build]
include = ["{module}.py"{more}]

[tool.seatrial.eval]
num_examples = -1
rollouts_per_example = 1
"""

_README = """\
# {dashed}

| File | What it is for |
|---|---|
| `{module}.py` | the environment: `load_environment` returns it |
| `{script}` | what stands in for a model, to try everything without one |
| `test_{module}.py` | that the script gets the reward it should |
{more}
Without a model, then with one:

    seatrial eval . -m scripted --upstream scripted:{script}
    seatrial eval . -m gpt-5-mini -r 3
    pytest
"""

_TEST = """\
from pathlib import Path

import pytest

from {module} import load_environment

SCRIPT = Path(__file__).with_name("{script}")


def test_the_script_gets_what_it_should():
    results = load_environment().evaluate_sync(f"scripted:{{SCRIPT}}", "scripted")
    assert results["metadata"]["errors_by_kind"] == {{}}
    assert results["metadata"]["avg_reward"] == pytest.approx({mean!r})
"""


def new_environment_files(module: str, kind: str) -> Mapping[str, bytes]:
    """Every file of a new environment by its path. `module` is an identifier, `kind` one of KINDS."""
    chosen, dashed = KINDS[kind], module.replace("_", "-")
    has_tasks = kind == "harbor"
    line = "| `tasks/` | the tasks; `seatrial init tasks/NAME` makes more |\n" if has_tasks else ""
    texts = {
        "README.md": _README.format(dashed=dashed, module=module, script=SCRIPT, more=line),
        "pyproject.toml": _PROJECT.format(dashed=dashed, module=module, more=', "tasks"' if has_tasks else ""),
        f"{module}.py": chosen.module.format(name=dashed),
        f"test_{module}.py": _TEST.format(module=module, script=SCRIPT, mean=chosen.mean),
        SCRIPT: json.dumps({"rules": list(chosen.rules)}, indent=2) + "\n",
    }
    tasks = {f"tasks/{_TASK}/{path}": content for path, content in new_task_files(_TASK).items()} if has_tasks else {}
    return {path: text.encode() for path, text in texts.items()} | tasks
