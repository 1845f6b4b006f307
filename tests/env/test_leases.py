"""A policy that is swapped between rollouts: who answers which, and when clients are opened and closed."""

import asyncio

import seatrial as vf
from seatrial.env.client import make_upstream
from seatrial.env.policy import Policy
from tests.env.games import ROWS, Guessing, counting


class Served:
    """An upstream that counts how often it is opened and closed."""

    def __init__(self, text):
        self.inner = make_upstream(lambda messages: text)
        self.dialects = self.inner.dialects
        self.life = []

    def ask(self, request):
        return self.inner.ask(request)

    async def __aenter__(self):
        self.life.append("opened")
        return self

    async def __aexit__(self, *_):
        self.life.append("closed")


def test_each_output_says_which_version_it_was_made_with():
    async def scenario():
        policy = Policy(lambda messages: "old")
        env = vf.MultiTurnEnv(dataset=[{"prompt": "q"}] * 4, max_turns=1)
        came = []
        async for output in env.stream(-1, policy, "m", max_concurrent=1, state_columns=["model"]):
            came.append((output["completion"][0]["content"], output["policy_version"], output["model"]))
            if len(came) == 2:
                assert policy.swap(lambda messages: "new", model="better") == 1
        return came

    assert asyncio.run(scenario()) == [("old", 0, "m"), ("old", 0, "m"), ("new", 1, "better"), ("new", 1, "better")]


def test_a_rollout_keeps_the_client_that_it_began_with():
    async def scenario():
        policy = Policy(None, version=7)

        async def old(messages):
            policy.swap(lambda messages: "new")
            return "1"

        policy.client = old
        env = Guessing(dataset=ROWS[:1], max_turns=2)
        return await env.evaluate(policy, "m", rollouts_per_example=2, max_concurrent=1)

    first, second = asyncio.run(scenario())["outputs"]
    assert [step["completion"][0]["content"] for step in first["trajectory"]] == ["1", "1"]
    assert (first["policy_version"], second["completion"][0]["content"]) == (7, "new")


def test_clients_are_opened_once_and_closed_when_no_rollout_has_them():
    async def scenario():
        old, new = Served("old"), Served("new")
        policy = Policy(old)
        env = vf.MultiTurnEnv(dataset=[{"prompt": "q"}] * 4, max_turns=1)
        count = 0
        async for _ in env.stream(-1, policy, "m", max_concurrent=1):
            count += 1
            if count == 2:
                policy.swap(new)
            if count == 4:
                assert old.life == ["opened", "closed"]
        return old.life, new.life

    assert asyncio.run(scenario()) == (["opened", "closed"], ["opened", "closed"])


def test_weights_that_change_in_place_are_another_version_of_the_same_client():
    policy = Policy(counting)
    assert (policy.swap(), policy.swap(version=40), policy.swap()) == (1, 40, 41)
    assert policy.client is counting


def test_a_client_that_is_none_fails_its_rollout_and_no_other():
    async def scenario():
        policy, came = Policy(counting), []
        async for output in Guessing(max_turns=1).stream(-1, policy, "m", max_concurrent=1):
            came.append(output["error"] and output["error"]["kind"])
            policy.swap(7 if len(came) == 1 else counting)
        return came

    assert asyncio.run(scenario()) == [None, "usage", None]


def test_a_rollout_by_hand_takes_a_policy_too():
    state = asyncio.run(Guessing(max_turns=1).rollout(ROWS[0], Policy(counting), "m"))
    assert state["error"] is None


def test_it_works_wherever_a_client_does():
    results = Guessing(max_turns=1).evaluate_sync(
        Policy(vf.ClientConfig(base_url="http://127.0.0.1:9/v1", max_retries=0)), "m"
    )
    assert results["metadata"]["base_url"] == "http://127.0.0.1:9/v1"
    assert results["metadata"]["errors_by_kind"] == {"model": 3}
