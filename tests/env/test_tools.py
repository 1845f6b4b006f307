"""ToolEnv: tools that answer, fail, wait and lie, and what the model reads of it."""

import asyncio
import threading

import pytest

import seatrial as vf
from seatrial.env.tools import StatefulToolEnv, ToolEnv, as_content
from seatrial.errors import SandboxError, UsageError
from tests.env.tool_models import call, calling, scripted, tool_texts
from tests.env.worlds import evaluate, only


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


def broken():
    """Fail."""
    raise ValueError("it broke")


def env(*tools, **options):
    options = {"dataset": [{"question": "Go."}], **options}
    return ToolEnv(tools=list(tools) or [add, shout, broken], **options)


def test_calls_of_a_turn_are_answered_in_their_order_and_counted():
    turns = [[("add", {"a": 1, "b": 2}), ("shout", {"text": "hi"}), ("add", {"a": 3, "b": 4})], "7"]
    output = only(evaluate(env(rubric=vf.Rubric([lambda completion: 0.5])), scripted(*turns)))
    assert [message for message in output["completion"] if message["role"] == "tool"] == [
        {"role": "tool", "content": "3", "tool_call_id": "call_0"},
        {"role": "tool", "content": "HI", "tool_call_id": "call_1"},
        {"role": "tool", "content": "7", "tool_call_id": "call_2"},
    ]
    assert (output["stop_condition"], output["reward"]) == ("no_tools_called", 0.5)
    counts = {"total_tool_calls": 3.0, "add_calls": 2.0, "shout_calls": 1.0, "broken_calls": 0.0}
    assert {**output["metrics"], **counts} == output["metrics"]


def test_functions_may_read_the_content_of_messages_that_only_call_tools():
    rubric = vf.Rubric([lambda completion: float(completion[0]["content"] is None)])
    assert only(evaluate(env(rubric=rubric), scripted([("add", {"a": 1, "b": 2})], "3")))["reward"] == 1.0


def test_what_goes_wrong_is_told_to_the_model():
    calls = [
        *[("add", "{a"), ("add", "[1]"), ("add", {"a": 1}), ("nope", {}), ("broken", {})],
        ("shout", {"text": 3}),
    ]
    output = only(evaluate(env(), scripted(calls, "sorry")))
    assert output["error"] is None
    assert tool_texts(output) == [
        "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        "the arguments of add are [1], expected a table of names and values",
        "add() missing 1 required positional argument: 'b'",
        "there is no tool 'nope'; there are add, shout, broken",
        "it broke",
        "'int' object has no attribute 'upper'",
    ]


def test_errors_are_put_as_the_environment_wants():
    told = env(error_formatter=lambda error: f"<{type(error).__name__}>")
    assert tool_texts(only(evaluate(told, scripted([("broken", {}), ("nope", {})], "sorry")))) == [
        "<ValueError>",
        "<NoSuchToolError>",
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "stops", "kind"),
    [
        ("broken", {}, ValueError, "ToolCallError"),
        ("nope", {}, KeyError, "ToolCallError"),
        ("add", "{", ValueError, "ToolParseError"),
    ],
)
def test_stop_errors_end_the_rollout_as_errors(name, arguments, stops, kind):
    output = only(evaluate(env(stop_errors=[stops]), scripted([(name, arguments)], "unreached")))
    assert (output["error"]["error"], output["error"]["kind"], output["reward"]) == (kind, "tool", None)


def test_a_sandbox_that_fails_in_a_tool_is_no_answer_of_the_tool():
    def run():
        raise SandboxError("gone")

    output = only(evaluate(env(run), scripted([("run", {})], "unreached")))
    assert (output["error"]["error"], output["error"]["kind"]) == ("SandboxError", "infrastructure")


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), StopIteration(), RecursionError("deep")])
@pytest.mark.parametrize("on", ["thread", "loop"])
def test_whatever_a_tool_raises_the_rollout_goes_on(error, on):
    def rude():
        raise error

    if isinstance(error, StopIteration) and on == "loop":
        pytest.skip("Python itself makes another error of it there")
    output = only(evaluate(env(rude, sync_tools=on), scripted([("rude", {})], "well")))
    assert (output["error"], output["completion"][-1]["content"], len(tool_texts(output))) == (None, "well", 1)


def test_a_tool_that_blocks_holds_up_no_other_rollout():
    meeting = threading.Barrier(8, timeout=30)

    def meet() -> str:
        """Wait for the others."""
        meeting.wait()
        return "met"

    results = evaluate(env(meet), scripted([("meet", {})], "done"), rollouts_per_example=8, max_concurrent=8)
    assert [tool_texts(output) for output in results["outputs"]] == [["met"]] * 8


def test_tools_may_run_on_the_loop():
    seen = []

    def where():
        seen.append(threading.current_thread().name)

    evaluate(env(where, sync_tools="loop"), scripted([("where", {})], "done"))
    evaluate(env(where), scripted([("where", {})], "done"))
    assert seen == [threading.current_thread().name, "seatrial-tool"]


def test_the_model_is_offered_the_tools_that_there_are_when_a_rollout_begins():
    offered = []

    def model(request):
        offered.append([tool["function"]["name"] for tool in request.get("tools", [])])
        return "done"

    changing = env(add, shout)
    evaluate(changing, model)
    changing.remove_tool(shout)
    changing.add_tool(broken)
    output = only(evaluate(changing, model))
    assert offered == [["add", "shout"], ["add", "broken"]]
    assert list(output["metrics"]) == ["num_turns", "total_tool_calls", "add_calls", "broken_calls"]
    with pytest.raises(UsageError, match="has no tool shout; there are add, broken"):
        changing.remove_tool(shout)


def test_the_rubric_that_was_given_is_not_changed():
    given = vf.Rubric([lambda completion: 1.0])
    env(rubric=given)
    assert len(given.funcs) == 1


def test_without_reward_functions_there_is_no_reward():
    class Judging(ToolEnv):
        async def post_rollout(self, state):
            state["reward"] = 0.25

    rows = [{"question": "Go."}]
    assert only(evaluate(env(), scripted("done")))["reward"] is None
    assert only(evaluate(Judging(tools=[add], dataset=rows), scripted("done")))["reward"] == 0.25
    both = Judging(tools=[add], rubric=vf.Rubric([lambda completion: 0.5]), dataset=rows)
    assert only(evaluate(both, scripted("done")))["reward"] == 0.5


def test_a_rollout_ends_after_ten_turns():
    output = only(evaluate(env(), lambda messages: calling(("add", {"a": 1, "b": 1}))))
    assert (output["stop_condition"], output["metrics"]["add_calls"]) == ("max_turns_reached", 10.0)


def test_call_tool_may_be_overridden():
    class Renaming(ToolEnv):
        async def call_tool(self, tool_name, tool_args, tool_call_id, **kwargs):
            return await super().call_tool(tool_name.removeprefix("my_"), tool_args, tool_call_id, **kwargs)

    renaming = Renaming(tools=[add], dataset=[{"question": "Go."}])
    assert tool_texts(only(evaluate(renaming, scripted([("my_add", {"a": 1, "b": 1})], "2")))) == ["2"]


def test_arguments_that_were_read_already_are_taken():
    asked = calling(("add", {}))
    asked["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = {"a": 2, "b": 2}
    said = asyncio.run(env().env_response([asked["choices"][0]["message"]], vf.State()))
    assert said == [{"role": "tool", "content": "4", "tool_call_id": "call_0"}]
    assert call("add", {})["function"]["arguments"] == "{}"


def test_content_is_text_or_parts():
    parts = [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "data:"}}]
    assert as_content(parts) == parts
    assert [as_content(value) for value in ([], None, [1], "\ud800")] == ["[]", "None", "[1]", "?"]


def test_what_makes_no_sense_is_refused():
    with pytest.raises(UsageError, match="two tools called add"):
        env(add, add)
    with pytest.raises(UsageError, match="makes tool_defs itself"):
        env(tool_defs=[])
    with pytest.raises(UsageError, match="sync_tools is 'fork'"):
        env(sync_tools="fork")


def pay(amount: int, account: str = "nobody") -> str:
    """Pay."""
    return f"{account} pays {amount}"


class Bank(StatefulToolEnv):
    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
        if "account" in state["info"]:
            tool_args["account"] = state["info"]["account"]
        return tool_args


def bank(kind=Bank, account="Ann", **options):
    row = {"question": "Go.", "info": {"account": account} if account else {}}
    made = kind(dataset=[row], **options)
    made.add_tool(pay, args_to_skip=["account"])
    return made


def test_the_environment_gives_what_the_model_does_not_see():
    env = bank()
    assert list(env.tool_defs[0]["function"]["parameters"]["properties"]) == ["amount"]
    output = only(evaluate(env, scripted([("pay", {"amount": 3})], "done")))
    assert (tool_texts(output), output["metrics"]["pay_calls"]) == (["Ann pays 3"], 1.0)


@pytest.mark.parametrize(("account", "said"), [("Ann", "Ann pays 3"), (None, "nobody pays 3")])
def test_the_model_cannot_set_what_it_does_not_see(account, said):
    calls = [("pay", {"amount": 3, "account": "Bob"})]
    assert tool_texts(only(evaluate(bank(account=account), scripted(calls, "done")))) == [said]


def test_it_may_be_a_coroutine():
    class Slow(Bank):
        async def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
            return {**tool_args, "account": messages[0]["content"]}

    assert tool_texts(only(evaluate(bank(Slow), scripted([("pay", {"amount": 1})], "done")))) == ["Go. pays 1"]


def test_an_environment_that_fails_at_it_is_an_error_of_the_rollout():
    class Robbed(Bank):
        def update_tool_args(self, *args, **kwargs):
            raise LookupError("no money")

    output = only(evaluate(bank(Robbed), scripted([("pay", {"amount": 1})], "unreached")))
    assert output["error"]["kind"] == "hook"
    assert "update_tool_args failed: LookupError: no money" in output["error"]["message"]


def test_tools_come_and_go():
    env = bank()
    env.remove_tool(pay)
    assert (env.tool_defs, env.skipped_args, env.tool_monitor_rubric.tool_names) == ([], {}, [])
    given = Bank(tools=[pay], dataset=[{"question": "Go."}])
    assert list(given.tool_defs[0]["function"]["parameters"]["properties"]) == ["amount", "account"]
    given.remove_tool(pay)


def test_update_tool_args_has_to_be_written():
    with pytest.raises(TypeError, match="update_tool_args"):
        StatefulToolEnv(dataset=[{"question": "Go."}])  # type: ignore[abstract]


def test_the_final_word_is_what_the_environment_set_and_not_what_the_tool_said():
    class Ending(Bank):
        def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
            state["final_env_response"] = "Sold out."
            return tool_args

    output = only(evaluate(bank(Ending), scripted([("pay", {"amount": 3})], "unreached")))
    assert output["completion"][1:] == [{"role": "user", "content": "Sold out."}]
