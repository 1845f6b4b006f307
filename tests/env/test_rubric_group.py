"""Several rubrics as one: sums of rewards, all metrics, and each rubric as it was."""

import asyncio

import pytest

from seatrial.env.environment import Environment
from seatrial.env.hooks import advantage, teardown
from seatrial.env.parsers import Parser
from seatrial.env.rollout import new_state
from seatrial.env.rubric import Rubric
from seatrial.env.rubric_group import RubricGroup
from seatrial.errors import HookError, RewardError, UsageError
from tests.env.games import Guessing, counting


def state_of(said="a"):
    state = new_state({"prompt": "q"}, "m", None)
    state["completion"] = [{"role": "assistant", "content": said}]
    return state


def scored(rubric, said="a"):
    state = state_of(said)
    try:
        asyncio.run(rubric.score_rollout(state))
    except RewardError as error:
        state["error"] = error
    return state


def scored_together(rubric, *said):
    states = [state_of(each) for each in said]
    asyncio.run(rubric.score_group(states))
    return states


def length(completion):
    return len(completion[-1]["content"])


def broken():
    raise KeyError("x")


def longest(completions):
    lengths = [len(each[-1]["content"]) for each in completions]
    return [float(each == max(lengths)) for each in lengths]


def test_rewards_are_added_and_metrics_of_one_name_told_apart():
    state = scored(RubricGroup([Rubric([length], [0.5]), Rubric(), Rubric([length])]), "aa")
    assert state["reward"] == 3.0
    assert state["metrics"] == {"length": 2.0, "length_2": 2.0}


def test_a_failure_leaves_no_reward_and_the_metrics_of_the_others():
    metric = Rubric([length, broken], [1.0, 0.0])
    state = scored(RubricGroup([Rubric([broken]), metric]))
    assert (state["reward"], state["metrics"]) == (None, {"broken": None, "length": 1.0, "broken_2": None})
    assert state["reward_errors"].keys() == {"broken", "broken_2"}
    assert isinstance(state["error"], RewardError)


def test_empty_rubrics_leave_the_reward_to_the_environment():
    state = state_of()
    state["reward"] = 0.25
    asyncio.run(RubricGroup([Rubric(), Rubric()]).score_rollout(state))
    assert state["reward"] == 0.25
    asyncio.run(RubricGroup([Rubric(), Rubric([length])]).score_rollout(state))
    assert state["reward"] == 1.0


def test_advantages_are_those_of_the_sum_in_each_turn_too():
    group = RubricGroup([Rubric([length]), Rubric([longest], [10.0])])
    states = [state_of("a"), state_of("aaa")]
    for state in states:
        state["trajectory"].append({"reward": None, "advantage": None})
    asyncio.run(group.score_group(states))
    assert [state["trajectory"] for state in states] == [
        [{"reward": 1.0, "advantage": -6.0}],
        [{"reward": 13.0, "advantage": 6.0}],
    ]
    assert [state["reward"] for state in states] == [1.0, 13.0]
    assert [state["advantage"] for state in states] == [-6.0, 6.0]
    assert states[1]["metrics"] == {"length": 3.0, "longest": 1.0}
    assert group.has_group_rewards
    assert not group.has_advantages


def test_one_that_a_rubric_cannot_score_is_not_compared_by_the_next():
    def picky(completion):
        return 1 / (len(completion[-1]["content"]) - 3)

    short, long = scored_together(RubricGroup([Rubric([picky]), Rubric([longest])]), "aa", "aaa")
    assert isinstance(long["error"], RewardError)
    assert (long["reward"], long["advantage"]) == (None, None)
    assert (short["reward"], short["advantage"], short["error"]) == (0.0, 0.0, None)


def test_the_first_rubric_that_says_the_advantages_does_so_for_all():
    @advantage
    def doubled(rewards):
        return [2 * reward for reward in rewards]

    group = RubricGroup([Rubric([length]), Rubric([doubled])])
    assert group.has_advantages
    assert [state["advantage"] for state in scored_together(group, "a", "aa")] == [2.0, 4.0]


def test_a_rubric_that_scores_groups_in_its_own_way_is_one_of_them():
    class Own(Rubric):
        async def score_group(self, states):
            for at, state in enumerate(states):
                state["reward"], state["metrics"] = float(at), {"at": float(at)}

    states = scored_together(RubricGroup([Own(), Rubric([length])]), "a", "a")
    assert [state["reward"] for state in states] == [1.0, 2.0]
    assert states[1]["metrics"] == {"at": 1.0, "length": 1.0}


def test_functions_go_to_the_first_rubric_and_objects_to_all():
    def bonus_of(bonus):
        return bonus

    first, second = Rubric(), Rubric([bonus_of], [2.0])
    group = RubricGroup([first, second])
    group.add_reward_func(length)
    group.add_metric(bonus_of)
    group.add_class_object("bonus", 3)
    assert scored(group)["reward"] == 7.0
    assert group._get_reward_func_names() == ["length", "bonus_of", "bonus_of"]
    assert (first.weights, group._get_reward_weights()) == ([1.0, 0.0], [1.0, 0.0, 2.0])


def test_a_group_has_the_parser_it_was_given_or_that_of_its_first_rubric():
    parser, other = Parser(len), Parser()
    assert RubricGroup([Rubric(parser=parser), Rubric()]).parser is parser
    assert RubricGroup([Rubric(parser=parser)], parser=other).parser is other


def test_groups_are_flat_and_what_they_are_made_of_stays_as_it_was():
    one, two, three = Rubric([length]), Rubric([length]), Rubric([length])
    group = one.plus(two)
    assert group.plus(three).rubrics == [one, two, three]
    assert group.rubrics == [one, two]


def test_each_rubric_is_cleaned_up_and_torn_down_even_if_another_fails():
    class Leaving(Rubric):
        @teardown
        def leave(self):
            self.left = True
            raise OSError("no")

    leaving = [Leaving(), Leaving()]
    leaving[1].add_cleanup_handler(lambda state: state.update(swept=True))
    group, state = RubricGroup(leaving), state_of()
    asyncio.run(group.cleanup(state))
    assert state["swept"]
    with pytest.raises(HookError, match="leave failed: OSError"):
        asyncio.run(group.teardown())
    assert all(each.left for each in leaving)


def test_no_rubrics_are_no_group():
    with pytest.raises(UsageError, match="at least one rubric"):
        RubricGroup([])


def test_an_environment_may_have_a_group_and_add_to_it():
    env: Environment = Guessing(rubric=RubricGroup([Rubric([lambda: 1.0]), Rubric([lambda: 2.0])]))
    env.add_rubric(Rubric([lambda: 4.0]))
    results = env.evaluate_sync(counting, "m", num_examples=1)
    assert results["outputs"][0]["reward"] == 7.0
