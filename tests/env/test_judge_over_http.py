"""A judge behind a real socket: what it says, and all the ways in which it may not."""

import asyncio

import pytest

import seatrial as vf
from seatrial.env.judge import JudgeRubric
from seatrial.testing.fake_provider import Cut, Fail, FakeProvider, Hang, Raw, Say


async def approved(judge, prompt, completion, answer, state):
    return (await judge(prompt, completion, answer, state)) == "yes"


async def asked_directly(judge_client, judge_model):
    answer = await judge_client.chat.completions.create(model=judge_model, messages=[{"role": "user", "content": "?"}])
    return answer.choices[0].message.content == "yes"


def judged(*script, func=approved, rollouts=1, otherwise=None, **config):
    """The outputs of rollouts that a judge is asked about, and what that was asked."""

    async def scenario():
        async with FakeProvider(*script, otherwise=otherwise) as provider:
            client = vf.ClientConfig(base_url=provider.base_url, api_key="secret", **{"max_retries": 0, **config})
            rubric = JudgeRubric(judge_client=client, judge_model="judge", judge_sampling_args={"max_tokens": 5})
            rubric.add_reward_func(func)
            rows = [{"question": "2 + 2?", "answer": "four"}]
            async with vf.SingleTurnEnv(dataset=rows, rubric=rubric) as env:
                results = await env.evaluate(lambda messages: "4", "m", rollouts_per_example=rollouts)
        return results, provider.received

    return asyncio.run(scenario())


def test_it_is_asked_for_chat_completions_and_believed():
    results, (received,) = judged(Say("yes"))
    assert results["outputs"][0]["reward"] == 1.0
    assert received.headers["authorization"] == "Bearer secret"
    assert (received.payload["model"], received.payload["max_completion_tokens"]) == ("judge", 5)
    assert "four" in received.payload["messages"][0]["content"]


def test_functions_that_ask_it_themselves_get_what_it_says():
    assert judged(Say("yes"), func=asked_directly)[0]["outputs"][0]["reward"] == 1.0


def test_a_failure_that_passes_is_asked_again():
    results, received = judged(Fail(503, headers={"retry-after": "0"}), Say("no"), max_retries=1)
    assert (results["outputs"][0]["reward"], len(received)) == (0.0, 2)


NONSENSE = [b"not json", b"[]", b"{}", b'{"choices": null}', b'{"choices": [null]}', b'{"choices": {"a": 1}}']
NONSENSE += [b'{"choices": [{"message": "yes"}]}', b'{"choices": [{"message": {"content": null}}]}', b""]
NONSENSE += [b'{"error": {"message": "overloaded"}}', b'{"choices": [{"message": {"content": {"a": 1}}}]}']


@pytest.mark.parametrize(
    "step",
    [Fail(400), Fail(401), Fail(429), Fail(500), Cut(), Cut(0), Hang(), Hang(0), *(Raw(body) for body in NONSENSE)],
    ids=lambda step: repr(step)[:60],
)
def test_without_a_verdict_there_is_an_error_of_the_model_and_no_zero(step):
    results, _ = judged(step, timeout=0.3, idle_timeout=0.3, otherwise=step)
    (output,) = results["outputs"]
    assert (output["reward"], output["error"]["kind"], results["metadata"]["avg_reward"]) == (None, "model", None)
    assert output["error"]["message"]


@pytest.mark.parametrize("body", NONSENSE[:7])
def test_nonsense_is_its_fault_also_where_functions_ask_it_themselves(body):
    (output,) = judged(Raw(body), func=asked_directly)[0]["outputs"]
    assert (output["reward"], output["error"]["kind"]) == (None, "model")


def test_one_that_is_not_judged_takes_no_other_with_it():
    results, _ = judged(Say("yes"), Raw(b"nonsense"), Say("no"), rollouts=3)
    rewards = sorted(str(output["reward"]) for output in results["outputs"])
    assert rewards == ["0.0", "1.0", "None"]
    assert (results["metadata"]["avg_reward"], results["metadata"]["errors_by_kind"]) == (0.5, {"model": 1})
