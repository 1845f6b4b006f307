"""A node that lacks what is not sent there is told apart, by the name of what is missing."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import NodeUnfitError, UsageError
from seatrial.jobs.ray.actor import check_here, open_trials
from seatrial.jobs.ray.wire import RunnerSettings
from seatrial.model.events import unobserved
from seatrial.model.job import AgentFiles, AgentOptions, ModelOptions, TrialOptions
from tests.installed import install

FILES = (AgentFiles(source="/only/on/the/coordinator", target="/agent", digest="0" * 64),)


def settings(*agents: AgentOptions, upstream: str | None = None, **trial: Any) -> RunnerSettings:
    return RunnerSettings(trial=TrialOptions(**trial), model=ModelOptions(upstream=upstream), agents=agents)


def test_what_every_node_has():
    ours = (AgentOptions(name="nop"), AgentOptions(name="oracle"), AgentOptions(name="command", command="true"))
    for upstream in (None, "openai", "anthropic,key=K", "https://example.org/v1", "cache:folder,openai,retries=2"):
        check_here(settings(*ours, upstream=upstream, backend="embedded"))


def test_plug_ins_that_are_missing_are_named_together():
    asked = settings(
        AgentOptions(name="mine"), AgentOptions(name="noop"), upstream="cache:folder,theirs:x", backend="cloud"
    )
    with pytest.raises(NodeUnfitError) as error:
        check_here(asked)
    assert str(error.value).startswith(
        "it has no sandbox backend 'cloud' and no agent 'mine' and no upstream 'theirs'; install the plug-in where"
    )


def test_a_plug_in_that_is_installed_but_fails_says_why(tmp_path, monkeypatch):
    code = "def make(options):\n    raise RuntimeError('no licence here')\n"
    install(monkeypatch, tmp_path, "licensed_agent", code, agents="licensed = make")
    with pytest.raises(UsageError, match="the agent 'licensed' cannot be made: RuntimeError: no licence here"):
        check_here(settings(AgentOptions(name="licensed")))
    check_here(settings(AgentOptions(name="licensed", files=FILES)))  # it is made when they are here


def test_a_runner_looks_before_it_opens_anything():
    async def scene() -> None:
        async with open_trials(settings(AgentOptions(name="mine"), backend="embedded"), unobserved):
            raise AssertionError("it must not get here")

    with pytest.raises(NodeUnfitError, match="it has no agent 'mine'"):
        asyncio.run(scene())


@pytest.mark.parametrize("name", ["image", "image_map"])
def test_a_directory_that_stands_for_an_image_has_to_be_there(tmp_path, name):
    def named(folder: Path) -> RunnerSettings:
        if name == "image":
            return settings(image=str(folder))
        return settings(image_map={"python:*": "host", "debian:*": str(folder)})

    check_here(named(tmp_path))
    with pytest.raises(NodeUnfitError, match=rf"there is no directory {re.escape(str(tmp_path))}/root, which the run"):
        check_here(named(tmp_path / "root"))
