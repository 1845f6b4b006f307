"""The state of a rollout: keys that everybody may read, and one private key for what cannot leave this process."""

import asyncio
import copy
import pickle
from typing import Any

import pytest

from seatrial.env.chat_message import chat_message
from seatrial.env.rollout import ROLLOUT, Rollout, RolloutPlace
from seatrial.env.state import State, new_state, rollout_of
from seatrial.errors import HookError, ProviderError
from tests.env.games import Guessing
from tests.env.worlds import ask, cli_env, echo, harbor_env, make_tasks, world

ROW = {"prompt": "Do it.", "info": {"number": 0}}


async def agent(spec, sandbox):
    await ask(spec, "hello")


def environments(folder):
    yield Guessing(dataset=[ROW], max_turns=1), ROW
    yield cli_env(agent), ROW
    harbor = harbor_env(make_tasks(folder), backend=world(agent))
    yield harbor, harbor.get_dataset()[0]


def test_a_state_can_be_sent_and_leaves_behind_what_belongs_to_its_process(tmp_path):
    async def run():
        return [await env.rollout(row, echo, "gpt-4") for env, row in environments(tmp_path)]

    for state in asyncio.run(run()):
        assert state["error"] is None
        assert [key for key in state if key.startswith("_")] == [ROLLOUT]
        sent = pickle.loads(pickle.dumps(state))  # noqa: S301 - our own
        assert type(sent) is State
        assert state.keys() - sent.keys() == {ROLLOUT, "client"}
        assert copy.copy(state).keys() == state.keys()
        assert sent["completion"] == state["completion"]
        assert [step["completion"] for step in sent["trajectory"]] == [
            step["completion"] for step in state["trajectory"]
        ]


def test_a_rollout_begins_with_what_its_row_says_of_its_place_and_nothing_else(tmp_path):
    env = harbor_env(make_tasks(tmp_path))
    place = RolloutPlace(env.trial_spec(env.get_dataset()[0], "m"), tmp_path)
    begun = Rollout(place, unanswered=[{"role": "user", "content": "from another try"}])
    state = new_state({**ROW, ROLLOUT: begun}, "m", None)
    assert rollout_of(state).place is place
    assert rollout_of(state).unanswered == []
    assert ROLLOUT not in state["input"]


def test_outputs_and_their_errors_can_be_sent():
    class Sinking(Guessing):
        async def setup_state(self, state):
            raise ProviderError("no answer", 503)

    (lost,) = Sinking(dataset=[ROW]).evaluate_sync(echo, "m", state_columns=["error"])["outputs"]
    assert pickle.loads(pickle.dumps(lost))["error"] is not None  # noqa: S301 - our own
    failed = new_state(ROW, "m", None)
    failed["error"] = ProviderError("no answer", 503)
    again = pickle.loads(pickle.dumps(failed))["error"]  # noqa: S301 - our own
    assert (str(again), again.status) == ("no answer", 503)


def test_a_rollout_changes_nothing_of_its_row():
    class Odd:
        pass

    row: dict[str, Any] = {
        "prompt": [{"role": "user", "content": "x"}],
        "info": {"tags": ["a"], "odd": Odd(), "pair": (1, [2])},
    }
    state = new_state(row, "m", None)
    state["info"]["tags"].append("b")
    state["info"]["pair"][1].append(3)
    state["prompt"][0]["content"] = "y"
    assert state["info"]["odd"] is not row["info"]["odd"]
    assert (row["info"]["tags"], row["info"]["pair"], row["prompt"][0]["content"]) == (["a"], (1, [2]), "x")


def test_nor_of_its_messages_which_stay_what_they_are():
    call = {"id": "c", "function": {"name": "look", "arguments": "{}"}}
    message = chat_message({"role": "assistant", "content": None, "tool_calls": [call]})
    (own,) = new_state({"prompt": [message]}, "m", None)["prompt"]
    assert (own, type(own), own.tool_calls[0].name) == (message, type(message), "look")
    own.tool_calls[0]["function"]["name"] = "leap"
    assert message.tool_calls[0].name == "look"


def test_a_state_that_a_hook_made_has_a_rollout_too():
    state = State()
    assert rollout_of(state) is rollout_of(state)


def test_a_hook_that_is_too_early_is_told_so(tmp_path):
    env = harbor_env(make_tasks(tmp_path))
    with pytest.raises(HookError, match="has no agent yet"):
        asyncio.run(env.build_env_vars(new_state(ROW, "m", None)))
    with pytest.raises(HookError, match="has no sandbox yet"):
        asyncio.run(env.post_sandbox_setup(new_state(ROW, "m", None)))
