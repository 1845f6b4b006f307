"""EnvGroupRubric: groups of rollouts scored by the rubric of the environment that they are of."""

import asyncio

import pytest

import seatrial as vf
from seatrial.env.env_group import EnvGroup
from seatrial.env.single_turn import SingleTurnEnv
from seatrial.env.state import new_state
from seatrial.errors import UsageError


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
