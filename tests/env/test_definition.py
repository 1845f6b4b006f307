"""What an environment is made of: datasets that trainers handle, tools, and what may be set afterwards."""

import asyncio

import pytest

import seatrial as vf
from seatrial.env.tool_tables import as_tool_tables
from tests.env.games import ROWS, Guessing, counting

LOOK = {"name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}
LOOK_TABLE = {"type": "function", "function": LOOK}


def test_datasets_are_what_trainers_handle():
    env = Guessing(dataset=lambda: ROWS, eval_dataset=ROWS[:1])
    assert (len(env.dataset), env.dataset[0]["info"], len(env.eval_dataset)) == (3, {"number": 0}, 1)
    assert env.get_dataset().select(range(2)).filter(lambda row: row["info"]["number"])["example_id"] == [1]
    assert env.get_dataset(seed=3) == env.get_dataset().shuffle(3)
    assert env.build_dataset() is env.dataset
    assert env.build_eval_dataset() is env.eval_dataset


def test_a_dataset_may_be_set_and_missing():
    env = Guessing(dataset=ROWS)
    assert env.eval_dataset is None
    assert env.build_eval_dataset() is None
    env.dataset = ROWS[:1]
    env.eval_dataset = ROWS[:2]
    assert (len(env.dataset), len(env.get_eval_dataset())) == (1, 2)


@pytest.mark.parametrize("named", ["tool_defs", "oai_tools"])
@pytest.mark.parametrize("tool", [LOOK, LOOK_TABLE])
def test_tools_are_offered_to_the_model(named, tool):
    offered = []

    def model(request):
        offered.append(request.get("tools"))
        return "0"

    Guessing(max_turns=1, **{named: [tool]}).evaluate_sync(model, "m", num_examples=1)
    Guessing(max_turns=1).evaluate_sync(model, "m", num_examples=1)
    assert offered == [[LOOK_TABLE], None]


def test_tools_of_a_row_go_before():
    offered = []

    def model(request):
        offered.append([each["function"]["name"] for each in request["tools"]])
        return "0"

    own = {**LOOK, "name": "own"}
    rows = [{"prompt": "q", "info": {"tool_defs": [own]}}, {"prompt": "q"}, {"prompt": "q", "tools": [LOOK_TABLE]}]
    env = Guessing(dataset=rows, max_turns=1, tool_defs=[{**LOOK, "name": "all"}])
    env.evaluate_sync(model, "m", max_concurrent=1)
    assert offered == [["own"], ["all"], ["look"]]


def test_a_tool_that_is_none_is_named():
    class Tool:
        def model_dump(self, **_):
            return LOOK

    assert as_tool_tables([Tool()]) == [LOOK_TABLE]
    assert as_tool_tables([]) is None
    with pytest.raises(vf.UsageError, match="tool 1 is 'look'; expected a table"):
        Guessing(tool_defs=[LOOK, "look"])
    with pytest.raises(vf.UsageError, match="two names"):
        Guessing(tool_defs=[LOOK], oai_tools=[LOOK])


def test_what_verifiers_takes_is_kept():
    class Parser:
        pass

    parser = Parser()
    env = Guessing(parser=parser, message_type="chat", env_args={"level": 1}, map_kwargs={"num_proc": 2}, max_workers=8)
    assert env.parser is parser
    assert (env.message_type, env.env_args, env.map_kwargs, env.max_workers) == (
        "chat",
        {"level": 1},
        {"num_proc": 2},
        8,
    )
    assert (env.requires_group_rollouts, env.provides_advantages) == (False, False)


def test_trainers_set_what_they_know_and_mistakes_are_named():
    env = Guessing(max_turns=1)
    env.set_kwargs(max_seq_len=128, score_rollouts=False, max_turns=2, concurrency=3)
    assert (env.max_seq_len, env.score_rollouts, env.max_turns, env.concurrency) == (128, False, 2, 3)
    env.set_interleaved_rollouts(True)
    assert env.interleaved_rollouts
    with pytest.raises(vf.UnknownArgumentError, match="max_seq_length: did you mean max_seq_len"):
        env.set_kwargs(max_seq_length=128)


def test_a_conversation_that_is_long_enough_ends_without_tokens_by_what_was_used():
    env = Guessing(dataset=[{"prompt": "x" * 400, "info": {"number": 9}}], max_turns=5, max_seq_len=100)
    (output,) = env.evaluate_sync(counting, "m")["outputs"]
    assert (output["stop_condition"], output["is_truncated"], len(output["trajectory"])) == (
        "max_seq_len_reached",
        True,
        1,
    )
    env.set_max_seq_len(None)
    (output,) = env.evaluate_sync(counting, "m")["outputs"]
    assert (output["stop_condition"], output["is_truncated"]) == ("max_turns_reached", False)


def test_there_is_no_server_to_start_and_none_to_stop():
    env = Guessing()
    with pytest.raises(vf.UsageError, match="Guessing has no server: rollouts run in this process"):
        asyncio.run(env.start_server(address="tcp://127.0.0.1:5000", num_workers=2))
    asyncio.run(env.stop_server())


def test_a_rubric_is_torn_down_with_its_environment():
    torn = []

    class Torn(vf.Rubric):
        async def teardown(self):
            torn.append(1)

    asyncio.run(Guessing(rubric=Torn()).teardown())
    assert torn == [1]


@pytest.mark.parametrize("tokens", [0, -1])
def test_a_conversation_has_at_least_one_token(tokens):
    with pytest.raises(vf.UsageError, match=f"max_seq_len is {tokens}"):
        Guessing(max_seq_len=tokens)
    with pytest.raises(vf.UsageError, match="None for no such limit"):
        Guessing().set_kwargs(max_seq_len=tokens)
