"""EnvGroup: environments of all classes as one, each row rolled out and scored by its own."""

import asyncio
import pickle
from typing import Any

import pytest

import seatrial as vf
from seatrial.env.env_group import EnvGroup, route_of, with_route
from seatrial.env.rollout import new_state
from seatrial.env.tools import ToolEnv
from seatrial.env.turns import SingleTurnEnv
from seatrial.errors import UsageError
from tests.env.games import ROWS, Guessing, counting
from tests.env.tool_models import scripted
from tests.env.worlds import echo, evaluate, harbor_env, make_tasks, world


def exact(completion, answer):
    return float(completion[-1]["content"] == answer)


def lively(completion):
    return 1.0


def nothing(x: int) -> int:
    """Do nothing."""
    return x


def singles(*answers, **options):
    rows = [{"question": f"say {answer}", "answer": answer} for answer in answers]
    return SingleTurnEnv(**{"dataset": rows, "rubric": vf.Rubric([exact]), **options})


def test_rows_of_all_with_their_route():
    group = EnvGroup([singles("a", "b"), Guessing()], ["math", "game"])
    rows = group.get_dataset()
    assert [row["example_id"] for row in rows] == [0, 1, 2, 3, 4]
    assert [row["info"]["env_id"] for row in rows] == ["math"] * 2 + ["game"] * 3
    assert [row["task"] for row in rows] == ["math"] * 2 + ["game"] * 3
    assert rows[4]["info"] == {"number": 2, "env_id": "game"}


def test_each_is_rolled_out_and_scored_by_its_own():
    group = EnvGroup([singles("0", "x"), Guessing()], ["math", "game"])
    results = evaluate(group, counting)
    assert [output["reward"] for output in results["outputs"]] == [1.0, 0.0, 1.0, 1.0, 1.0]
    assert results["outputs"][0]["metrics"] == {"exact": 1.0, "won": None, "num_turns": 1.0}
    assert results["outputs"][4]["metrics"] == {"exact": None, "won": 1.0, "num_turns": 3.0}
    assert results["outputs"][4]["info"] == {"number": 2, "env_id": "game"}
    assert results["metadata"]["avg_metrics"] == {"exact": 0.5, "won": 1.0, "num_turns": 1.6}


def test_names_are_numbers_unless_they_are_given():
    group = EnvGroup([singles("a"), singles("b")])
    assert (group.env_names, list(group.env_map)) == (["env_0", "env_1"], ["env_0", "env_1"])


def test_groups_in_groups():
    inner = EnvGroup([singles("0"), Guessing()], ["math", "game"])
    outer = EnvGroup([inner, singles("z")], ["all", "last"])
    rows = outer.get_dataset()
    assert [row["info"]["env_id"] for row in rows] == [["all", "math"], *[["all", "game"]] * 3, "last"]
    outputs = evaluate(outer, counting)["outputs"]
    assert [output["reward"] for output in outputs] == [1.0, 1.0, 1.0, 1.0, 0.0]
    assert outputs[1]["info"]["env_id"] == ["all", "game"]
    assert outputs[1]["metrics"] == {"exact": None, "won": 1.0, "num_turns": 1.0}


def test_tasks_of_harbor_keep_their_names_and_are_judged_by_their_tests(tmp_path):
    backend = world()
    harbor = harbor_env(make_tasks(tmp_path, "task_1", "task_2"), backend=backend)
    tools = ToolEnv(tools=[nothing], dataset=[{"question": "x"}], rubric=vf.Rubric([lively]))
    group = EnvGroup([tools, harbor], ["tools", "harbor"])
    outputs = evaluate(group, scripted([("nothing", {"x": 1})], "done"))["outputs"]
    assert [output["task"] for output in outputs] == ["tools", "task_1", "task_2"]
    assert [output["reward"] for output in outputs] == [1.0, 1.0, 1.0]
    metrics = outputs[1]["metrics"]
    assert {name for name, value in metrics.items() if value is None} == {"lively", "total_tool_calls", "nothing_calls"}
    assert metrics["harbor_reward"] == 1.0
    assert group.get_env_for_task("task_2") is harbor
    assert [sandbox.destroyed for sandbox in backend.sandboxes] == [True, True]


def test_environments_are_found():
    first, second = singles("a"), singles("b")
    group = EnvGroup([first, second], ["one", "two"])
    assert (group.get_env_for_name("two"), group.get_env_for_task("one")) == (second, first)
    for find in (group.get_env_for_name, group.get_env_for_task):
        with pytest.raises(UsageError, match="no environment 'three' in the group; there are one, two"):
            find("three")


def test_rows_say_whose_they_are():
    group = EnvGroup([singles("a"), singles("b")], ["one", "two"])
    rows = [{"question": "q", "task": "two"}, {"question": "q", "info": '{"env_id": "one"}'}, {"question": "q"}]

    async def run():
        return await group.generate(rows, echo, "m")

    outputs = asyncio.run(run())["outputs"]
    assert [output["info"].get("env_id") for output in outputs] == ["two", "one", None]
    assert [output["reward"] for output in outputs] == [0.0, 0.0, None]
    assert "the row has no info['env_id']" in outputs[2]["error"]["message"]


def test_rows_to_evaluate_on_are_those_to_train_on_where_there_are_no_others():
    both = singles("a", eval_dataset=[{"question": "exam", "answer": "b"}])
    only_exam = SingleTurnEnv(eval_dataset=[{"question": "exam too"}])
    group = EnvGroup([both, only_exam, singles("c")])
    assert [row["prompt"][0]["content"] for row in group.get_dataset()] == ["say a", "say c"]
    assert [row["prompt"][0]["content"] for row in group.get_eval_dataset()] == ["exam", "exam too", "say c"]


def test_backends_are_open_for_all_rollouts_and_everything_is_torn_down():
    log = []

    class Noted(SingleTurnEnv):
        def in_use(self):
            log.append("open")
            return super().in_use()

        @vf.teardown
        def end(self):
            log.append("end")
            raise RuntimeError("stuck")

    group = EnvGroup([Noted(dataset=[{"question": "q"}]) for _ in range(2)])

    async def run():
        async with group:
            await group.evaluate(echo, "m")

    with pytest.raises(vf.HookError, match="stuck"):
        asyncio.run(run())
    assert log == ["open", "open", "end", "end"]


def test_sampling_arguments_are_those_of_the_environment_unless_others_are_given():
    seen = []

    def model(request):
        seen.append((request.get("temperature"), request.get("max_tokens")))
        return "x"

    group = EnvGroup([singles("a", sampling_args={"temperature": 0.5, "max_tokens": 5}), singles("b")])
    evaluate(group, model, sampling_args={"max_tokens": 7})
    assert sorted(seen, key=str) == [(0.5, 7), (None, 7)]


def test_a_rubric_of_the_group_is_added():
    group = EnvGroup([singles("a"), Guessing(dataset=ROWS[:1])], rubric=vf.Rubric([lively], weights=[0.5]))
    outputs = evaluate(group, counting)["outputs"]
    assert [output["reward"] for output in outputs] == [0.5, 1.5]
    assert outputs[0]["metrics"] == {"exact": 0.0, "won": None, "num_turns": 1.0, "lively": 1.0}


def test_what_trainers_set_is_set_everywhere():
    inner = EnvGroup([singles("a")])
    group = EnvGroup([inner, singles("b")])
    group.set_score_rollouts(False)
    assert [env.score_rollouts for env in (group, inner, inner.envs[0], group.envs[1])] == [False] * 4
    assert evaluate(group, echo)["outputs"][0]["reward"] is None


def test_rollouts_of_a_row_are_compared_where_their_environment_does_so():
    def longest(completions):
        lengths = [len(completion[0]["content"]) for completion in completions]
        return [float(length == max(lengths)) for length in lengths]

    answers = iter(["a", "b", "long", "d"])
    contest = singles("x", rubric=vf.Rubric([longest]))
    group = EnvGroup([singles("a"), contest], ["gift", "contest"])
    results = evaluate(group, lambda messages: next(answers), rollouts_per_example=2, max_concurrent=1)
    assert [output["reward"] for output in results["outputs"]] == [1.0, 0.0, 1.0, 0.0]
    assert [output["advantage"] for output in results["outputs"]] == [0.5, -0.5, 0.5, -0.5]
    assert results["outputs"][2]["metrics"] == {"exact": None, "longest": 1.0, "num_turns": 1.0}


def test_trainers_may_ask_for_a_group_of_rollouts_or_a_stream():
    group = EnvGroup([singles("0"), Guessing(dataset=ROWS[:1])], ["math", "game"], max_seq_len=50)

    async def run():
        rows = group.get_dataset()
        together = await group.run_group([rows[0]] * 2, counting, "m", {})
        return together, [output async for output in group.stream(rows, counting, "m", max_concurrent=1)]

    together, streamed = asyncio.run(run())
    assert [output["reward"] for output in together + streamed] == [1.0] * 4
    assert [output["info"]["env_id"] for output in streamed] == ["math", "game"]
    assert [env.max_seq_len for env in group.envs] == [50, 50]


def test_it_can_be_sent_to_another_process():
    group = pickle.loads(pickle.dumps(EnvGroup([Guessing()], ["game"])))  # noqa: S301 - our own
    assert [output["reward"] for output in evaluate(group, counting)["outputs"]] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("names", [["one"], ["one", "one"]])
def test_names_are_one_for_each(names):
    with pytest.raises(UsageError, match="expected 2 different ones"):
        EnvGroup([singles("a"), singles("b")], names)
    with pytest.raises(UsageError, match="at least one environment"):
        EnvGroup([])


def best(completions) -> list[float]:
    longest = max(len(completion[0]["content"]) for completion in completions)
    return [float(len(completion[0]["content"]) == longest) for completion in completions]


def one(completion):
    return 1.0


def state(text, env_id):
    made = new_state({"prompt": "q", "info": {"env_id": env_id}}, "m", None)
    made["completion"] = [{"role": "assistant", "content": text}]
    return made


def group():
    envs = [SingleTurnEnv(rubric=vf.Rubric([func]), dataset=[{"question": "q"}]) for func in (best, one)]
    return EnvGroup(envs, ["contest", "gift"])


def test_rollouts_are_compared_with_those_of_their_own_environment():
    states = [state("a", "contest"), state("long", "gift"), state("bb", "contest")]
    asyncio.run(group().rubric.score_group(states))
    assert [each["reward"] for each in states] == [0.0, 1.0, 1.0]
    assert [each["advantage"] for each in states] == [-0.5, 0.0, 0.5]
    assert states[0]["metrics"] == {"best": 0.0, "one": None, "num_turns": 0.0}


def test_it_knows_what_its_environments_need():
    rubric = group().rubric
    assert (rubric.has_group_rewards, rubric.has_advantages) == (True, False)
    assert rubric.get_reward_func_names() == ["best", "num_turns", "one"]


def test_a_rollout_of_no_environment_is_not_scored_as_zero():
    lost = state("a", "nowhere")
    with pytest.raises(UsageError, match=r"\['nowhere'\], expected one of contest, gift first"):
        asyncio.run(group().rubric.score_rollout(lost))
    assert lost["reward"] is None


def test_functions_see_rows_as_their_environment_has_them():
    seen = []

    def look(info):
        seen.append(dict(info))
        info["seen"] = True
        return 1.0

    env = SingleTurnEnv(rubric=vf.Rubric([look]), dataset=[{"question": "q"}])
    scored = state("a", ["outer", "inner"])
    asyncio.run(EnvGroup([EnvGroup([env], ["inner"])], ["outer"]).rubric.score_rollout(scored))
    assert (seen, scored["info"]) == ([{}], {"seen": True, "env_id": ["outer", "inner"]})


@pytest.mark.parametrize(
    ("info", "route"),
    [
        ({"env_id": "a"}, ("a",)),
        ({"env_id": ["a", "b"]}, ("a", "b")),
        ('{"env_id": "a"}', ("a",)),
        ({}, ()),
        (None, ()),
    ],
)
def test_a_route_is_a_name_or_several(info, route):
    assert route_of({"info": info}) == route


def test_a_route_is_put_in_place_of_another_and_the_row_stays_as_it_was():
    row: dict[str, Any] = {"prompt": "q", "info": {"n": 1, "env_id": "old"}}
    assert with_route(row, ("a", "b"))["info"] == {"n": 1, "env_id": ["a", "b"]}
    assert with_route(row, ("a",))["info"] == {"n": 1, "env_id": "a"}
    assert with_route(row, ())["info"] == {"n": 1}
    assert with_route({"prompt": "q"}, ()) == {"prompt": "q"}
    assert row["info"]["env_id"] == "old"


@pytest.mark.parametrize("info", [{"env_id": 3}, {"env_id": ["a", 1]}, "{", "[1]", 5])
def test_what_is_none_is_named(info):
    with pytest.raises(UsageError, match="info"):
        route_of({"info": info})


def half(threshold=1.0):
    return SingleTurnEnv(
        dataset=[{"question": "q"}], rubric=vf.Rubric([lambda completion: 0.5]), pass_threshold=threshold
    )


@pytest.mark.parametrize(
    ("group", "passed"),
    [
        (EnvGroup([half(0.5), half()]), 1),
        (EnvGroup([EnvGroup([half(0.5), half()]), half(0.3)]), 2),
        (EnvGroup([half(0.5), half(0.5)], pass_threshold=1.0), 0),
        (EnvGroup([half(), half()], pass_threshold=0.5), 2),
        (EnvGroup([EnvGroup([half(), half()], pass_threshold=0.5), half()]), 2),
    ],
)
def test_a_rollout_has_passed_by_the_mark_of_its_environment_unless_the_group_has_one(group, passed):
    assert group.evaluate_sync(lambda messages: "x", "m")["metadata"]["passed"] == passed


def test_the_marks_of_a_group_are_in_its_metadata():
    group = EnvGroup([EnvGroup([half(0.5), half()], ["a", "b"]), half(0.3)], ["inner", "c"])
    found = group.evaluate_sync(lambda messages: "x", "m")["metadata"]["pass_thresholds"]
    assert found == {"inner/a": 0.5, "inner/b": 1.0, "inner": 1.0, "c": 0.3}
    assert "pass_thresholds" not in half().evaluate_sync(lambda messages: "x", "m")["metadata"]
