"""StatefulToolEnv: arguments that the environment gives and the model neither sees nor sets."""

import pytest

from seatrial.env.stateful_tool import StatefulToolEnv
from tests.env.tool_models import scripted, tool_texts
from tests.env.worlds import evaluate, only


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
