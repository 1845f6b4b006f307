"""Presets for tests: one whose program is the image's own shell, so that no package has to be installed for it."""

from typing import Any

from seatrial.agents.presets import as_json
from seatrial.model.job import AgentOptions
from seatrial.model.preset import Preset

# It leaves what it was told for a test to look at, then does what the model says.
COMMAND = """
printf '%s|' "$@" >>/logs/agent/fake/said
cat "$HARBOR_INSTRUCTION_PATH" >/logs/agent/fake/log
echo right >/app/answer.txt
"""


def preset(**more: Any) -> Preset:
    """A preset that is complete, with other values in some places."""
    values = {
        "name": "fake",
        "title": "Fake",
        "version": "1.2.3",
        "dialect": "openai_chat",
        "packages": {"pip": ("fake=={version}",), "programs": {"fake": "fake"}},
        "command": COMMAND,
        "version_command": "echo fake 1.2.3.",
    }
    return Preset.model_validate({**values, **more})


def options(made: Preset, **more: Any) -> AgentOptions:
    """The options of an agent with a preset, for a job that has it locked."""
    return AgentOptions(**{"name": made.name, "preset": as_json(made), "model": "openai/m", **more})
