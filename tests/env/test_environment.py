"""Environment: evaluations of many rollouts, their results, and the ways to call them."""

import asyncio
import inspect
import signal
import threading

import datasets
import pytest

import seatrial as vf
from seatrial.env.results import describe
from seatrial.env.running import USUAL_CONCURRENT
from seatrial.env.tool_tables import as_tool_tables
from tests.env.games import ROWS, Guessing, counting


def test_results_have_outputs_and_metadata():
    results = asyncio.run(Guessing(max_turns=2).evaluate(client=counting, model="m", num_examples=10))
    assert list(results) == ["outputs", "metadata"]
    assert results["metadata"]["avg_reward"] == pytest.approx(1 / 3)
    assert [output["reward"] for output in results["outputs"]] == [1.0, 0.0, 0.0]
    keys = "reward metrics error timing usage completion prompt example_id task info evaluation trajectory answer"
    assert set(keys.split()) <= results["outputs"][0].keys()


def test_metadata_has_the_counts_beside_the_mean():
    metadata = Guessing(env_id="guess").evaluate_sync(counting, "m", num_examples=2, rollouts_per_example=3)["metadata"]
    assert {name: metadata[name] for name in ("planned", "scored", "unscored", "errors", "num_examples")} == {
        "planned": 6,
        "scored": 6,
        "unscored": 0,
        "errors": 0,
        "num_examples": 2,
    }
    assert (metadata["model"], metadata["env_id"], metadata["rollouts_per_example"]) == ("m", "guess", 3)
    assert metadata["avg_metrics"] == {"won": 1.0, "num_turns": 1.5}
    assert metadata["usage"]["calls"] == 9
    low, high = metadata["avg_reward_interval"]
    assert 0.1 < low < 0.2 < high == 1.0  # of two examples, however often each was rolled out


def test_groups_are_kept_together_in_order():
    outputs = Guessing().evaluate_sync(counting, "m", rollouts_per_example=2)["outputs"]
    assert [output["example_id"] for output in outputs] == [0, 0, 1, 1, 2, 2]


def test_rewards_beyond_one_have_no_interval():
    env = Guessing(rubric=vf.Rubric([lambda: 3.0]))
    metadata = env.evaluate_sync(counting, "m")["metadata"]
    assert (metadata["avg_reward"], metadata["avg_reward_interval"]) == (3.0, None)


def test_no_rollouts_at_all_is_a_mistake():
    with pytest.raises(vf.UsageError, match="rollouts_per_example is 0, expected a whole number, 1 or more"):
        Guessing().evaluate_sync(counting, "m", rollouts_per_example=0)


@pytest.mark.parametrize("given", [2.0, "2", True, None])
@pytest.mark.parametrize("name", ["rollouts_per_example", "num_examples", "max_concurrent"])
def test_numbers_of_things_are_whole(name, given):
    with pytest.raises(vf.UsageError, match=f"{name} is {given!r}, expected a whole number"):
        Guessing().evaluate_sync(counting, "m", **{name: given})


def test_nothing_to_do_has_no_mean():
    results = Guessing().evaluate_sync(counting, "m", num_examples=0)
    assert (results["outputs"], results["metadata"]["avg_reward"]) == ([], None)


def test_generate_takes_rows_and_keeps_their_order():
    rows = [ROWS[2], ROWS[0], ROWS[2]]
    outputs = Guessing().generate_sync(datasets.Dataset.from_list(rows), counting, "m")["outputs"]
    assert [output["info"]["number"] for output in outputs] == [2, 0, 2]


def test_eval_dataset_is_evaluated_and_dataset_is_trained_on():
    env = Guessing(dataset=ROWS[:1], eval_dataset=lambda: ROWS[1:])
    assert [row["info"]["number"] for row in env.get_dataset()] == [0]
    assert [row["info"]["number"] for row in env.get_eval_dataset()] == [1, 2]
    assert len(env.evaluate_sync(counting, "m")["outputs"]) == 2
    assert len(Guessing(dataset=ROWS).get_eval_dataset(2)) == 2


def test_a_dataset_function_is_called_once_and_not_before_it_is_needed():
    calls = []

    def load():
        calls.append(1)
        return ROWS

    env = Guessing(dataset=load)
    assert calls == []
    env.get_dataset()
    env.evaluate_sync(counting, "m")
    assert calls == [1]


def test_an_environment_needs_a_dataset():
    with pytest.raises(vf.UsageError, match="needs a dataset"):
        vf.MultiTurnEnv()
    with pytest.raises(vf.UsageError, match="has no dataset"):
        vf.MultiTurnEnv(eval_dataset=ROWS).get_dataset()


def test_sampling_args_of_a_call_go_before_those_of_the_environment():
    asked = []

    def model(request):
        asked.append({name: request[name] for name in ("temperature", "top_p")})
        return "0"

    env = Guessing(sampling_args={"temperature": 1.0, "top_p": 0.9}, max_turns=1)
    env.evaluate_sync(model, "m", sampling_args={"temperature": 0.0}, num_examples=1)
    assert asked == [{"temperature": 0.0, "top_p": 0.9}]


@pytest.mark.parametrize(("limit", "most"), [(1, 1), (3, 3), (-1, USUAL_CONCURRENT)])
def test_max_concurrent_limits_rollouts(limit, most):
    running = peak = 0

    async def model(messages):
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0)
        running -= 1
        return "0"

    Guessing(dataset=ROWS * 20, max_turns=1).evaluate_sync(model, "m", max_concurrent=limit)
    assert peak == most


@pytest.mark.parametrize(
    "call",
    [
        lambda: Guessing(max_turn=3),
        lambda: Guessing().evaluate_sync(counting, "m", num_example=3),
        lambda: Guessing().generate_sync(ROWS, counting, "m", max_concurent=3),
        lambda: vf.ClientConfig(api_keys="x"),
    ],
)
def test_unknown_keyword_arguments_are_errors_that_name_the_near_miss(call):
    with pytest.raises(vf.UsageError, match=r": did you mean \w+\?$") as error:
        call()
    assert isinstance(error.value, TypeError)
    assert "max_turn: did you mean max_turns?" in str(error.value) or "max_turn" not in str(error.value)


def test_an_argument_that_a_subclass_passes_on_is_no_argument():
    class Passing(Guessing):
        def __init__(self, level, **kwargs):
            super().__init__(level=level, **kwargs)

    with pytest.raises(vf.UnknownArgumentError, match="level: there are"):
        Passing(level=3)


def test_an_argument_like_no_other_is_answered_with_those_there_are():
    with pytest.raises(vf.UnknownArgumentError, match=r"zzz: there are .*max_turns.*rubric"):
        Guessing(zzz=1)


def test_it_works_in_a_notebook_whose_loop_is_running():
    async def cell():
        return Guessing().evaluate_sync(counting, "m")["metadata"]["scored"]

    assert asyncio.run(cell()) == 3


def test_it_works_in_threads_and_installs_no_signal_handlers():
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    env, scored = Guessing(), []
    work = [
        threading.Thread(target=lambda: scored.append(env.evaluate_sync(counting, "m")["metadata"]["scored"]))
        for _ in range(3)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert scored == [3, 3, 3]
    assert {number: signal.getsignal(number) for number in handlers} == handlers


def test_teardown_is_not_done_by_an_evaluation_but_in_the_end():
    torn = []

    class Torn(Guessing):
        @vf.teardown
        async def close(self):
            torn.append("closed")

        @vf.teardown(priority=1)
        def break_down(self):
            torn.append("broken")
            raise OSError("stuck")

    async def scenario():
        async with Torn() as env:
            await env.evaluate(counting, "m")
            await env.evaluate(counting, "m")
            assert torn == []
        await Torn().teardown()

    with pytest.raises(vf.HookError, match="break_down failed: OSError: stuck"):
        asyncio.run(scenario())
    assert torn == ["broken", "closed"]


def test_a_cancelled_evaluation_cleans_up_what_runs():
    async def scenario():
        asking, swept = [], []
        all_ask = asyncio.Event()

        async def never(messages):
            asking.append(1)
            if len(asking) == 3:
                all_ask.set()
            await asyncio.Event().wait()

        class Swept(Guessing):
            @vf.cleanup
            async def sweep(self, state):
                await asyncio.sleep(0)
                swept.append(state["example_id"])

        task = asyncio.create_task(Swept().evaluate(never, "m"))
        await all_ask.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1
        return sorted(swept)

    assert asyncio.run(scenario()) == [0, 1, 2]


def test_state_columns_are_among_the_outputs():
    outputs = Guessing().evaluate_sync(counting, "m", state_columns=["model", "nothing"])["outputs"]
    assert [(output["model"], output["nothing"]) for output in outputs] == [("m", None)] * 3


def test_rollouts_need_not_be_scored():
    results = Guessing(score_rollouts=False).evaluate_sync(counting, "m")
    assert [output["reward"] for output in results["outputs"]] == [None] * 3
    assert (results["metadata"]["unscored"], results["metadata"]["errors"]) == (3, 0)


def test_infrastructure_errors_set_the_error_and_skip_scoring():
    asked = []

    class Sinking(Guessing):
        async def setup_state(self, state):
            raise vf.SandboxError("the sandbox is gone")

    def judge(state):
        asked.append(state)
        return 1.0

    env = Sinking(rubric=vf.Rubric([judge]))
    state = asyncio.run(env.rollout(ROWS[0], counting, "m"))
    assert isinstance(state["error"], vf.InfraError)
    results = env.evaluate_sync(counting, "m")
    assert asked == []
    assert results["metadata"]["avg_reward"] is None
    assert results["outputs"][0]["error"] == {
        "error": "SandboxError",
        "message": "the sandbox is gone",
        "kind": "infrastructure",
        "retryable": True,
        "error_chain_repr": "SandboxError('the sandbox is gone')",
        "error_chain_str": "SandboxError",
    }


def test_an_error_says_what_caused_it_and_not_for_ever():
    first, second = KeyError("k"), vf.SandboxError("gone")
    first.__cause__, second.__cause__ = second, first
    told = describe(second)
    assert told["error_chain_str"].startswith("SandboxError -> KeyError -> ")
    assert told["error_chain_repr"].startswith("SandboxError('gone') -> KeyError('k') -> ")


def test_a_rubric_can_be_added():
    rubric = vf.Rubric([lambda: 1.0])
    env = Guessing(rubric=rubric, max_turns=1)
    env.add_rubric(vf.Rubric([lambda: 5.0], [0.0]))
    metrics = env.evaluate_sync(counting, "m")["outputs"][0]["metrics"]
    assert metrics == {"<lambda>": 1.0, "num_turns": 1.0, "<lambda>_2": 5.0}
    assert len(rubric.funcs) == 1


def test_the_chain_signatures_and_defaults_are_pinned():
    assert vf.MultiTurnEnv.__mro__[:2] == (vf.MultiTurnEnv, vf.Environment)
    assert issubclass(vf.State, dict)

    def shown(function):
        parameters = inspect.signature(function).parameters.values()
        return [
            each.name if each.default is each.empty else f"{each.name}={each.default!r}"
            for each in parameters
            if each.kind is not each.VAR_KEYWORD and each.name != "self"
        ]

    assert shown(vf.Environment.evaluate) == [
        "client",
        "model",
        "sampling_args=None",
        "num_examples=-1",
        "rollouts_per_example=1",
        "max_concurrent=-1",
        "state_columns=()",
        "save_to=None",
        "resume=False",
        "retries=2",
        "engine='local'",
        "address=None",
        "shuffle=False",
        "seed=None",
        "on_start=None",
        "on_progress=None",
        "on_log=None",
        "independent_scoring=False",
        "max_retries=None",
        "shuffle_seed=None",
        "save_results=False",
        "results_path=None",
        "push_to_hf_hub=False",
        "hf_hub_dataset_name=None",
        "max_concurrent_generation=None",
        "max_concurrent_scoring=None",
        "save_every=-1",
        "use_tqdm=True",
    ]
    assert shown(vf.Environment.generate)[:5] == [
        "inputs",
        "client",
        "model",
        "sampling_args=None",
        "max_concurrent=-1",
    ]
    assert shown(vf.MultiTurnEnv.__init__) == ["max_turns=-1", "timeout_seconds=None"]
    assert shown(vf.Environment.__init__) == [
        "dataset=None",
        "eval_dataset=None",
        "system_prompt=None",
        "few_shot=None",
        "parser=None",
        "rubric=None",
        "sampling_args=None",
        "message_type='chat'",
        "tool_defs=None",
        "oai_tools=None",
        "max_workers=512",
        "env_id=None",
        "env_args=None",
        "map_kwargs=None",
        "max_seq_len=None",
        "interleaved_rollouts=False",
        "score_rollouts=True",
        "pass_threshold=1.0",
    ]
    trainers = ["client", "model", "sampling_args=None", "max_retries=0", "state_columns=None"]
    assert shown(vf.Environment.run_rollout) == ["input", *trainers]
    assert shown(vf.Environment.run_group) == ["group_inputs", *trainers]
    assert shown(vf.MultiTurnEnv.rollout) == ["input", "client", "model", "sampling_args=None"]
    assert shown(vf.MultiTurnEnv.env_response) == ["messages", "state"]
    assert shown(vf.Rubric.__init__) == ["funcs=None", "weights=None", "parser=None"]


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
