"""Rollouts of a group: functions that compare them, failures in between, and advantages."""

import asyncio

import pytest

from seatrial.env.decorators import advantage
from seatrial.env.rubric import Rubric
from seatrial.env.state import new_state
from seatrial.errors import ProviderError, RewardError, UsageError


def state_of(said, **row):
    state = new_state({"prompt": "q", "task": "t", **row}, "m", None)
    state["completion"] = [{"role": "assistant", "content": said}]
    state["trajectory"].append({"reward": None, "advantage": None})
    return state


def scored(rubric, *states):
    asyncio.run(rubric.score_group(list(states)))
    return list(states)


def length(completion):
    return len(completion[-1]["content"])


def longest(completions):
    lengths = [len(each[-1]["content"]) for each in completions]
    return [float(each == max(lengths)) for each in lengths]


def values(states, key):
    return [state[key] for state in states]


def test_functions_of_a_group_and_of_one_rollout_are_weighted_alike():
    states = scored(Rubric([length, longest], [0.5, 10]), state_of("aa"), state_of("aaaa"))
    assert values(states, "reward") == [1.0, 12.0]
    assert values(states, "metrics") == [{"length": 2.0, "longest": 0.0}, {"length": 4.0, "longest": 1.0}]


def test_functions_of_a_group_get_columns_by_their_plurals_and_objects_by_name():
    def seen(answers, infos, tasks, states, parser, bonus):
        assert (answers, infos, tasks) == (["x", "y"], [{"n": 1}, {"n": 2}], ["t", "t"])
        assert parser.parse("x") == "x"
        return [bonus + state["example_id"] for state in states]

    rubric = Rubric([seen])
    rubric.add_group_score_object_provider(lambda states: {"bonus": len(states)})
    rows = [{"answer": "x", "info": {"n": 1}, "example_id": 5}, {"answer": "y", "info": {"n": 2}, "example_id": 6}]
    assert values(scored(rubric, *(state_of("a", **row) for row in rows)), "reward") == [7.0, 8.0]


def test_a_function_of_a_group_sees_what_earlier_ones_wrote_and_later_ones_see_it():
    async def first(state):
        state["found"] = 2
        return 0

    def middle(states):
        for state in states:
            state["found"] *= len(states)
        return [0] * len(states)

    rubric = Rubric([first, middle, lambda state: state["found"]])
    assert values(scored(rubric, state_of("a"), state_of("b"), state_of("c")), "reward") == [6.0, 6.0, 6.0]


def test_rollouts_that_failed_are_left_alone_and_count_for_nothing():
    failed = state_of("a" * 100)
    failed["error"] = error = ProviderError("gone")
    states = scored(Rubric([length, longest]), state_of("a"), failed, state_of("aa"))
    assert values(states, "reward") == [1.0, None, 3.0]
    assert failed["error"] is error
    assert failed["metrics"] is None
    assert [states[0]["advantage"], states[2]["advantage"]] == [-1.0, 1.0]


def test_one_that_cannot_be_scored_is_not_compared_with_the_others():
    def picky(completion):
        return 1 / (len(completion[-1]["content"]) - 1)

    broken, fine = scored(Rubric([picky, longest]), state_of("a"), state_of("aa"))
    assert isinstance(broken["error"], RewardError)
    assert (broken["reward"], broken["advantage"]) == (None, None)
    assert broken["metrics"] == {"picky": None, "longest": None}
    assert (fine["reward"], fine["advantage"], fine["error"]) == (2.0, 0.0, None)


@pytest.mark.parametrize("said", [[1.0], 1.0, None])
def test_a_function_of_a_group_that_says_nothing_of_each_leaves_no_reward(said):
    def wrong(states):
        return said

    states = scored(Rubric([length, wrong]), state_of("a"), state_of("b"))
    assert values(states, "reward") == [None, None]
    assert all(isinstance(state["error"], RewardError) for state in states)


def test_a_metric_of_a_group_that_fails_is_none():
    rubric = Rubric([length])
    rubric.add_metric(lambda states: [1.0, "no number"])
    one, other = scored(rubric, state_of("a"), state_of("b"))
    assert [one["metrics"], other["metrics"]] == [{"length": 1.0, "<lambda>": 1.0}, {"length": 1.0, "<lambda>": None}]
    assert (one["reward"], other["reward"], other["error"]) == (1.0, 1.0, None)


def test_a_rollout_alone_is_not_compared():
    with pytest.raises(UsageError, match="the reward function longest compares the rollouts of a group"):
        asyncio.run(Rubric([longest]).score_rollout(state_of("a")))


def test_advantages_are_above_the_mean_and_reach_the_turns_that_have_none():
    own = state_of("aaaa")
    own["trajectory"][0]["advantage"] = 9.0
    states = scored(Rubric([length]), state_of("aa"), own)
    assert values(states, "advantage") == [-1.0, 1.0]
    turns = [state["trajectory"][0] for state in states]
    assert turns == [{"reward": 2.0, "advantage": -1.0}, {"reward": 4.0, "advantage": 9.0}]


def test_a_marked_function_says_the_advantages_and_is_no_reward():
    @advantage
    def signs(rewards, states):
        assert len(states) == len(rewards)
        return [1 if reward == max(rewards) else -1 for reward in rewards]

    rubric = Rubric([length, signs])
    states = scored(rubric, state_of("a"), state_of("aaa"))
    assert (values(states, "reward"), values(states, "advantage")) == ([1.0, 3.0], [-1.0, 1.0])
    assert rubric.has_advantages
    assert not rubric.has_group_rewards


def test_a_marked_method_does_too_and_fails_the_group_when_it_fails():
    class Ranked(Rubric):
        @advantage
        def rank(self, rewards):
            return [1 / (reward - 1) for reward in rewards]

    assert values(scored(Ranked([length]), state_of("aa"), state_of("aaa")), "advantage") == [1.0, 0.5]
    states = scored(Ranked([length]), state_of("a"), state_of("aaa"))
    assert values(states, "reward") == [None, None]
    assert all("rank failed: ZeroDivisionError" in str(state["error"]) for state in states)


def test_a_rubric_with_a_way_of_its_own_to_score_a_rollout_is_asked_in_groups_too():
    class Own(Rubric):
        async def score_rollout(self, state):
            state["reward"], state["metrics"] = 0.5, {}

    assert values(scored(Own(), state_of("a"), state_of("b")), "advantage") == [0.0, 0.0]


def test_rewards_that_the_environment_gave_itself_have_advantages():
    one, other, unjudged = (state_of("a") for _ in range(3))
    one["reward"], other["reward"] = 1.0, 0.0
    scored(Rubric(), one, other, unjudged)
    assert (one["advantage"], other["advantage"], unjudged.get("advantage")) == (0.5, -0.5, None)
    asyncio.run(Rubric([longest]).score_group([]))


def test_the_rollouts_of_a_group_are_scored_side_by_side():
    met = asyncio.Barrier(2)

    async def waits_for_the_other():
        async with asyncio.timeout(10):
            await met.wait()
        return 1

    assert values(scored(Rubric([waits_for_the_other]), state_of("a"), state_of("b")), "reward") == [1.0, 1.0]


def test_a_provider_that_fails_leaves_no_reward():
    def broken(state):
        raise KeyError("x")

    alone, together = Rubric([length, longest]), Rubric([length, longest])
    alone.add_score_object_provider(broken)
    together.add_group_score_object_provider(broken)
    for rubric in (alone, together):
        states = scored(rubric, state_of("a"), state_of("b"))
        assert values(states, "reward") == [None, None]
        assert all("KeyError" in str(state["error"]) for state in states)
