"""Steps of a rollout: tables that read like lists of messages and are kept in little space."""

import asyncio
import copy
import pickle
from array import array
from typing import Any

import orjson
import pytest

from seatrial.env.messages import Response, ResponseTokens, chat_message
from seatrial.env.rollout import ROLLOUT, Recorder, Rollout, RolloutPlace, State, as_step, new_state, rollout_of
from seatrial.errors import HookError, ProviderError
from seatrial.model.trace import TokenUsage
from tests.env.games import Guessing
from tests.env.worlds import ask, cli_env, echo, harbor_env, make_tasks, world


def said(text, **more):
    return Response({"role": "assistant", "content": text}, **more)


def told(prompt, completion):
    return ResponseTokens(array("q", prompt), array("q", completion), array("d", [-0.5] * len(completion)))


ASKED = [{"role": "user", "content": "q"}]


def test_a_step_is_a_table_of_prompt_and_completion():
    step = Recorder().step(ASKED, said("a", finish_reason="length"))
    assert dict(step) == {
        "prompt": ASKED,
        "completion": [{"role": "assistant", "content": "a"}],
        "response": step.response,
        "tokens": None,
        "is_truncated": True,
        "trajectory_id": "",
        "reward": None,
        "advantage": None,
        "extras": {},
    }
    with pytest.raises(KeyError):
        step["nothing"]


def test_what_a_turn_is_worth_may_be_written_and_nothing_else():
    step = Recorder(trajectory_id="t").step(ASKED, said("a"))
    step["reward"], step["advantage"] = 1.0, 0.5
    assert (step["reward"], step["advantage"], step["trajectory_id"]) == (1.0, 0.5, "t")
    with pytest.raises(TypeError, match="completion of a turn cannot be set; reward, advantage, extras can"):
        step["completion"] = []


def test_a_turn_is_a_table_that_json_has():
    usage = TokenUsage(input_tokens=2, output_tokens=1)
    table = Recorder().step(ASKED, said("a", tokens=told([1, 2], [3]), usage=usage, model="m")).to_table()
    again = orjson.loads(orjson.dumps(table))
    assert again == table
    assert (again["response"]["model"], again["response"]["usage"]["input_tokens"]) == ("m", 2)
    assert again["tokens"]["completion_ids"] == [3]


@pytest.mark.parametrize(
    ("limit", "prompt_ids", "completion_ids", "overlong"),
    [(4, [1, 2, 3], [4], False), (3, [1, 2, 3], [], False), (2, [1, 2], [], True)],
)
def test_tokens_beyond_a_limit_are_left_out(limit, prompt_ids, completion_ids, overlong):
    step = Recorder(max_seq_len=limit).step(ASKED, said("a", tokens=told([1, 2, 3], [4, 5])))
    tokens = step["tokens"]
    assert (tokens["prompt_ids"], tokens["completion_ids"]) == (prompt_ids, completion_ids)
    assert len(tokens["completion_logprobs"]) == len(tokens["completion_mask"]) == len(completion_ids)
    assert (tokens["overlong_prompt"], tokens["is_truncated"], step["is_truncated"]) == (overlong, True, True)


def test_a_table_that_a_hook_made_becomes_a_turn():
    tokens = {"prompt_ids": [1], "completion_ids": [2], "completion_logprobs": [-0.5]}
    step = as_step({"prompt": "q", "completion": "a", "tokens": tokens, "reward": 1.0, "extras": {"mine": 1}})
    assert (step["prompt"], step["completion"]) == (ASKED, [{"role": "assistant", "content": "a"}])
    assert (step["tokens"]["prompt_ids"], step["tokens"]["completion_ids"]) == ([1], [2])
    assert (step["reward"], step["extras"]) == (1.0, {"mine": 1})
    assert as_step(step) is step
    with pytest.raises(TypeError, match="a turn of a trajectory is a table"):
        as_step("a")


def test_what_is_read_may_be_changed_without_harm():
    step = Recorder().step(ASKED, said("a"))
    step["prompt"].clear()
    step["extras"]["mine"] = 1
    assert (step["prompt"], step["extras"]) == (ASKED, {"mine": 1})


def test_tokens_for_trainers():
    step = Recorder().step(ASKED, said("a", tokens=told([1, 2], [3])))
    assert step["tokens"] == {
        "prompt_ids": [1, 2],
        "prompt_mask": [0, 0],
        "completion_ids": [3],
        "completion_mask": [1],
        "completion_logprobs": [-0.5],
        "overlong_prompt": False,
        "is_truncated": False,
    }


def test_turns_share_their_prompts_and_its_tokens():
    recorder = Recorder()
    first = recorder.step(ASKED, said("a", tokens=told([1, 2], [3])))
    second = recorder.step([*ASKED, {"role": "assistant", "content": "a"}], said("b", tokens=told([1, 2, 3], [4])))
    assert first.asked.items is second.asked.items
    assert second["prompt"][1] is first["completion"][0]
    assert first.asked_ids is not None
    assert second.asked_ids is not None
    assert first.asked_ids.items is second.asked_ids.items
    assert (first["tokens"]["prompt_ids"], second["tokens"]["prompt_ids"]) == ([1, 2], [1, 2, 3])
    assert second.response.tokens is not None
    assert not second.response.tokens.prompt_ids


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
        asyncio.run(env.start_agent(new_state(ROW, "m", None)))
    with pytest.raises(HookError, match="has no sandbox"):
        asyncio.run(env.post_sandbox_setup(new_state(ROW, "m", None)))
