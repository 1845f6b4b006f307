"""MultiTurnEnv: the loop of a rollout, on a game of three turns, and how it ends."""

import asyncio

import pytest

import seatrial as vf
from seatrial.env.turns import SingleTurnEnv
from seatrial.errors import HookError, OverlongPromptError, UsageError
from tests.env.games import ROWS, Guessing, counting
from tests.env.worlds import echo, evaluate, only


def roll(env, row=None, model=counting, **options):
    return asyncio.run(env.rollout(row or ROWS[2], model, "m", **options))


def test_a_game_of_three_turns():
    state = roll(Guessing())
    assert [message["content"] for message in state["completion"]] == ["0", "higher", "1", "higher", "2", "right"]
    assert [len(step["prompt"]) for step in state["trajectory"]] == [1, 3, 5]
    assert [step["completion"][0]["content"] for step in state["trajectory"]] == ["0", "1", "2"]
    assert (state["is_completed"], state["stop_condition"]) == (True, "has_final_env_response")
    assert (state["error"], state["reward"], state["is_truncated"]) == (None, None, False)
    assert state["usage"]["calls"] == 3
    assert state["timing"]["generation_ms"] > 0


def test_a_rollout_ends_after_max_turns():
    state = roll(Guessing(max_turns=2))
    assert [message["content"] for message in state["completion"]] == ["0", "higher", "1"]
    assert state["stop_condition"] == "max_turns_reached"


def test_a_rollout_ends_after_timeout_seconds_whatever_it_waits_for():
    async def never(messages):
        await asyncio.Event().wait()

    state = roll(Guessing(timeout_seconds=0.01), model=never)
    assert (state["stop_condition"], state["is_truncated"], state["error"]) == ("timeout_reached", True, None)
    assert state["completion"] == []


def test_setup_does_not_count_against_the_time():
    class Prepared(Guessing):
        async def setup_state(self, state):
            for _ in range(10):
                await asyncio.sleep(0)
            state["prepared"] = True

    state = roll(Prepared(timeout_seconds=0))
    assert (state["prepared"], state["stop_condition"], state["error"]) == (True, "timeout_reached", None)


def test_the_model_is_not_asked_again_once_a_condition_holds_by_what_the_environment_did():
    class Over(Guessing):
        async def env_response(self, messages, state, **kwargs):
            state["over"] = True
            return "that was it"

        @vf.stop
        async def is_over(self, state):
            return state.get("over", False)

    state = roll(Over())
    assert [message["content"] for message in state["completion"]] == ["0", "that was it"]
    assert (state["stop_condition"], state["usage"]["calls"]) == ("is_over", 1)


def test_stop_conditions_are_asked_in_the_order_of_their_priority():
    class Both(Guessing):
        @vf.stop
        def usual(self, state):
            return True

        @vf.stop(priority=5)
        def sooner(self, state):
            return True

    assert roll(Both())["stop_condition"] == "sooner"


def test_a_prompt_that_does_not_fit_the_model_ends_the_rollout_without_an_error():
    def small(messages):
        if len(messages) > 1:
            raise OverlongPromptError("too long")
        return "0"

    state = roll(Guessing(), model=small)
    assert (state["stop_condition"], state["is_truncated"], state["error"]) == ("prompt_too_long", True, None)
    assert state["completion"][-1]["content"] == "0"


def test_hooks_may_be_plain_functions_and_setup_may_return_another_table():
    class Plain(vf.MultiTurnEnv):
        def setup_state(self, state):
            return {"word": "please"}

        def env_response(self, messages, state, **kwargs):
            return [{"role": "user", "content": state["word"]}]

    env = Plain(dataset=ROWS, max_turns=2)
    assert [message["content"] for message in roll(env)["completion"]] == ["0", "please", "1"]


def test_get_model_response_may_be_overridden_and_may_return_text():
    class Bypassed(Guessing):
        async def get_model_response(self, state, prompt, *args, **kwargs):
            if len(prompt) > 1:
                return await super().get_model_response(state, prompt, *args, **kwargs)
            return "1"

    said = [step["completion"][0]["content"] for step in roll(Bypassed(), ROWS[1])["trajectory"]]
    assert said == ["1"]


def test_get_prompt_messages_may_forget():
    class Forgetful(Guessing):
        async def get_prompt_messages(self, state):
            return (await super().get_prompt_messages(state))[-1:]

    state = roll(Forgetful(max_turns=3))
    assert [len(step["prompt"]) for step in state["trajectory"]] == [1, 1, 1]


def test_sampling_args_and_tools_reach_the_model():
    asked = []

    def model(request):
        asked.append(request)
        return "0"

    row = {**ROWS[0], "tools": [{"type": "function", "function": {"name": "look"}}]}
    roll(Guessing(max_turns=1), row, model, sampling_args={"temperature": 0.5, "n": None, "extra_body": {"top_k": 3}})
    assert asked[0]["temperature"] == 0.5
    assert asked[0]["top_k"] == 3
    assert asked[0]["model"] == "m"
    assert asked[0]["tools"] == row["tools"]
    assert "n" not in asked[0]


def test_usage_and_tokens_of_all_turns_are_kept():
    def model(request):
        message = {"role": "assistant", "content": str(len(request["messages"]) // 2)}
        logprobs = {"content": [{"token": "0", "logprob": -0.1}]}
        ids = {"token_ids": [9], "prompt_token_ids": list(range(len(request["messages"])))}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": logprobs, **ids}
        return {"choices": [choice], "usage": {"prompt_tokens": 10, "completion_tokens": 1}}

    state = roll(Guessing(), model=model)
    assert state["usage"] == {"calls": 3, "input_tokens": 30, "cached_tokens": 0, "output_tokens": 3}
    assert [step["tokens"]["prompt_ids"] for step in state["trajectory"]] == [[0], [0, 1, 2], [0, 1, 2, 3, 4]]
    assert [step["tokens"]["completion_logprobs"] for step in state["trajectory"]] == [[-0.1]] * 3


HOOKS = ["setup_state", "get_prompt_messages", "get_model_response", "env_response", "render_completion"]


@pytest.mark.parametrize("name", [*HOOKS, "add_model_response", "post_rollout", "max_turns_reached"])
@pytest.mark.parametrize(
    "error",
    [each("broken") for each in (ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError)],
)
def test_a_hook_that_raises_ends_its_rollout_with_an_error_that_names_it(name, error):
    async def broken(self, *args, **kwargs):
        raise error

    swept = []

    class Broken(Guessing):
        @vf.cleanup
        async def sweep(self, state):
            swept.append(state["task"])

    setattr(Broken, name, broken)
    state = roll(Broken())
    assert isinstance(state["error"], HookError)
    assert f"{name} failed" in str(state["error"])
    assert state["error"].__cause__ is error
    assert swept == ["default"]
    if name not in ("render_completion", "post_rollout"):
        assert state["stop_condition"] == "has_error"


def test_of_several_errors_the_first_one_stays():
    class Broken(Guessing):
        async def env_response(self, messages, state, **kwargs):
            raise ValueError("first")

        async def post_rollout(self, state):
            raise ValueError("second")

    assert "first" in str(roll(Broken())["error"])


def test_our_own_errors_keep_their_type():
    class Broken(Guessing):
        async def env_response(self, messages, state, **kwargs):
            raise vf.ToolCallError("the tool is gone")

    state = roll(Broken())
    assert isinstance(state["error"], vf.ToolError)
    assert state["error"].__cause__ is None


def test_an_environment_of_one_turn_needs_no_env_response():
    env = vf.MultiTurnEnv(dataset=ROWS, max_turns=1)
    assert roll(env)["error"] is None
    forgotten = roll(vf.MultiTurnEnv(dataset=ROWS))
    assert "env_response" in str(forgotten["error"])


def test_every_cleanup_runs_in_the_order_of_priorities_even_if_one_fails():
    ran = []

    class Swept(Guessing):
        @vf.cleanup
        async def last(self, state):
            ran.append("last")

        @vf.cleanup(priority=2)
        async def first(self, state):
            ran.append("first")
            state.pop("task")
            raise OSError("no broom")

        @vf.cleanup(priority=1)
        def second(self, state):
            ran.append("second")

    state = roll(Swept())
    assert ran == ["first", "second", "last"]
    assert state["cleanup_errors"] == ["first failed: OSError: no broom"]
    assert state["error"] is None


def test_post_rollout_comes_before_the_cleanup_and_sees_the_completion():
    seen: list[object] = []

    class Looking(Guessing):
        async def post_rollout(self, state):
            seen.append(len(state["completion"]))

        @vf.cleanup
        async def sweep(self, state):
            seen.append("swept")

    roll(Looking())
    assert seen == [6, "swept"]


def test_a_cancelled_rollout_is_cleaned_up_to_the_end():
    async def scenario():
        asking, swept = asyncio.Event(), []

        async def never(messages):
            asking.set()
            await asyncio.Event().wait()

        class Swept(Guessing):
            @vf.cleanup
            async def sweep(self, state):
                await asyncio.sleep(0)
                swept.append(state["example_id"])

        task = asyncio.create_task(Swept().rollout(ROWS[0], never, "m"))
        await asking.wait()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return swept

    assert asyncio.run(scenario()) == [0]


@pytest.mark.parametrize("final", [[], ""])
def test_a_last_word_that_says_nothing_ends_the_rollout_without_one(final):
    class Silent(Guessing):
        async def env_response(self, messages, state, **kwargs):
            state["final_env_response"] = final
            return "not said"

    state = roll(Silent())
    assert ([each["content"] for each in state["completion"]], state["error"]) == (["0"], None)


def test_a_row_s_tables_belong_to_one_rollout():
    class Writing(Guessing):
        async def setup_state(self, state):
            state["info"]["number"] = 0
            state["prompt"].append({"role": "user", "content": "please"})

    row = {"prompt": [{"role": "user", "content": "Guess."}], "info": {"number": 2}}
    assert roll(Writing(), row)["stop_condition"] == "has_final_env_response"
    assert (len(row["prompt"]), row["info"]) == (1, {"number": 2})


def test_info_may_be_json_text():
    assert roll(Guessing(), {"prompt": "Guess.", "info": '{"number": 0}'})["info"] == {"number": 0}


def test_a_rollout_ends_once_the_model_has_written_as_much_as_it_may():
    def model(messages):
        said = {"role": "assistant", "content": counting(messages)}
        usage = {"prompt_tokens": 1, "completion_tokens": 5, "total_tokens": 6}
        return {"choices": [{"index": 0, "message": said, "finish_reason": "stop"}], "usage": usage}

    env = Guessing()
    env.set_max_total_completion_tokens(6)
    state = roll(env, model=model)
    assert (state["stop_condition"], len(state["trajectory"])) == ("max_total_completion_tokens_reached", 2)


def test_hooks_hear_of_a_rollout_that_runs_out_of_time():
    class Noted(Guessing):
        def mark_timed_out(self, state):
            super().mark_timed_out(state)
            state["noted"] = True

    state = roll(Noted(timeout_seconds=0))
    assert (state["noted"], state["stop_condition"]) == (True, "timeout_reached")


def test_render_completion_may_write_into_the_state_and_return_nothing():
    class Short(Guessing):
        async def render_completion(self, state):
            await super().render_completion(state)
            state["completion"] = state["completion"][-1:]

    assert [message["content"] for message in roll(Short())["completion"]] == ["right"]


class Ending(vf.MultiTurnEnv):
    """Over by a stop condition, which what it says brings about."""

    @vf.stop
    async def is_over(self, state):
        return bool(state.get("over"))

    async def env_response(self, messages, state, **kwargs):
        state["over"] = True
        return "over"


@pytest.mark.parametrize(("once_more", "said"), [(False, ["0", "over"]), (True, ["0", "over", "1"])])
def test_a_stop_condition_that_the_environment_brings_about(monkeypatch, once_more, said):
    monkeypatch.setattr(vf.MultiTurnEnv, "asks_once_more", once_more)
    (output,) = Ending(dataset=[{"prompt": "q"}]).evaluate_sync(counting, "m")["outputs"]
    assert ([each["content"] for each in output["completion"]], output["stop_condition"]) == (said, "is_over")


def test_get_model_response_asks_whom_and_how_it_is_told():
    seen = []

    class Asking(vf.MultiTurnEnv):
        async def get_model_response(self, state, prompt, *args, **kwargs):
            state["tool_defs"] = [{"name": "look", "parameters": {}}]
            own = await super().get_model_response(state, prompt)
            answer = await state["client"].chat.completions.create(model="raw", messages=[{"role": "user"}])
            told = await state["client"].get_response("and?", "plain", {"seed": 1})
            said = f"{own.choices[0].message.content} {answer.choices[0].message.tool_calls} {told.message.content}"
            more = [{"name": "hear", "parameters": {}}]
            return await super().get_model_response(state, said, lambda messages: "other", "n", more, {"top_p": 0.5})

    def model(request):
        seen.append({name: value for name, value in request.items() if name != "messages"})
        return "own"

    env = Asking(dataset=[{"prompt": "q"}], max_turns=1)
    (output,) = env.evaluate_sync(model, "m", sampling_args={"seed": 7})["outputs"]
    assert (output["error"], output["completion"][0]["content"]) == (None, "other")
    look = {"type": "function", "function": {"name": "look", "parameters": {}}}
    assert seen == [{"model": "m", "tools": [look], "seed": 7}, {"model": "raw"}, {"model": "plain", "seed": 1}]


def test_the_model_answers_once():
    rubric = vf.Rubric([lambda completion, answer: float(completion[-1]["content"] == answer)])
    env = SingleTurnEnv(dataset=[{"question": "x", "answer": "you said x"}], rubric=rubric, system_prompt="Repeat.")
    output = only(evaluate(env, echo))
    assert output["completion"] == [{"role": "assistant", "content": "you said x"}]
    assert (output["reward"], output["stop_condition"], len(output["prompt"])) == (1.0, "max_turns_reached", 2)


def test_calls_of_tools_are_not_answered():
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    output = only(evaluate(SingleTurnEnv(dataset=[{"question": "x"}]), lambda _: {"choices": [{"message": message}]}))
    assert (output["error"], len(output["completion"])) == (None, 1)


def test_rows_of_plain_text_are_asked_as_a_user_and_scored_as_text():
    asked = []

    def model(messages):
        asked.append(messages)
        return "there was a king"

    env = SingleTurnEnv(
        message_type="completion",
        dataset=[{"prompt": "Once upon a time"}],
        rubric=vf.Rubric([lambda completion: float(completion.endswith("king"))]),
    )
    output = only(evaluate(env, model))
    assert (output["completion"], output["reward"]) == ("there was a king", 1.0)
    assert asked == [[{"role": "user", "content": "Once upon a time"}]]


def test_the_environment_has_nothing_to_say():
    env = SingleTurnEnv(dataset=[{"question": "x"}])
    with pytest.raises(NotImplementedError, match="SingleTurnEnv has one turn"):
        asyncio.run(env.env_response([], vf.State()))
    with pytest.raises(UsageError, match="message_type is 'text'"):
        SingleTurnEnv(message_type="text", dataset=[{"question": "x"}])  # type: ignore[arg-type]
