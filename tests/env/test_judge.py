"""A rubric with a judge in it: what it is asked, what it says, and what happens when it cannot be reached."""

import asyncio
import pickle
from types import SimpleNamespace

import pytest

import seatrial as vf
from seatrial.env.judge import JudgeClient, JudgeRubric
from seatrial.env.parsers import XMLParser
from seatrial.env.rollout import new_state
from seatrial.errors import EmptyModelResponseError, ProviderError, UsageError
from seatrial.gateway.upstreams.function import FunctionModel
from tests.env.games import Guessing, counting

ASKED = (
    [{"role": "system", "content": "s"}, {"role": "user", "content": "2 + 2?"}],
    [{"role": "assistant", "content": "4"}],
)


class Judge:
    """A judge that remembers what it was asked."""

    def __init__(self, said="yes"):
        self.said = said
        self.requests = []

    def __call__(self, request):
        self.requests.append(request)
        if isinstance(self.said, Exception):
            raise self.said
        return self.said

    @property
    def asked(self):
        return [request["messages"][-1]["content"] for request in self.requests]


async def approved(judge, prompt, completion, answer, state):
    return (await judge(prompt, completion, answer, state)) == "yes"


def verdict(rubric, state=None, answer="four"):
    return asyncio.run(rubric.judge(*ASKED, answer, state))


def test_the_judge_is_asked_about_the_last_message_and_the_parsed_answer():
    judge = Judge()
    rubric = JudgeRubric(XMLParser(["answer"]), judge_client=judge, judge_prompt="{question}|{answer}|{response}")
    said = asyncio.run(rubric.judge(ASKED[0], "<answer>{4}</answer>", "four"))
    assert (said, judge.asked) == ("yes", ["2 + 2?|four|{4}"])
    asyncio.run(rubric.judge("plain", "no field", 4))
    asyncio.run(rubric.judge([], "no field", None))
    assert judge.asked[1:] == ["plain|4|None", "|None|None"]


def test_the_usual_prompt_holds_all_three():
    judge = Judge()
    verdict(JudgeRubric(judge_client=judge), answer="the right one")
    assert all(each in judge.asked[0] for each in ("2 + 2?", "the right one", "\n4\n"))


def test_the_same_question_about_one_rollout_is_asked_once():
    judge, state = Judge(), new_state({"prompt": "q"}, "m", None)
    rubric = JudgeRubric(judge_client=judge)
    assert [verdict(rubric, state), verdict(rubric, state), verdict(rubric, state, "five")] == ["yes"] * 3
    assert len(judge.asked) == 2
    assert state["judge_response"].keys() == set(judge.asked)
    verdict(rubric)
    assert len(judge.asked) == 3


def test_model_and_sampling_arguments_are_passed_on():
    judge = Judge()
    sampling = {"temperature": 0.5, "max_tokens": 10, "top_p": None, "extra_body": {"seed": 3}}
    verdict(JudgeRubric(judge_client=judge, judge_model="strict", judge_sampling_args=sampling))
    (request,) = judge.requests
    del request["messages"]
    assert request == {"model": "strict", "temperature": 0.5, "max_completion_tokens": 10, "seed": 3}


def test_a_client_of_an_sdk_is_asked_by_the_judge_and_by_functions_themselves():
    async def create(*, model, messages):
        return {"choices": [{"index": 0, "message": {"role": "assistant", "content": f"{model} says yes"}}]}

    client = SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))
    rubric = JudgeRubric(judge_client=client, judge_model="m1")
    assert rubric.judge_client is client
    assert verdict(rubric) == "m1 says yes"


def test_functions_may_ask_the_client_themselves():
    async def by_hand(judge_client, judge_model, judge_prompt, judge_sampling_args, completion):
        question = judge_prompt.format(response=completion[-1]["content"])
        messages = [{"role": "user", "content": question}]
        answer = await judge_client.chat.completions.create(model=judge_model, messages=messages, **judge_sampling_args)
        return float(answer.choices[0].message.content)

    rubric = JudgeRubric(judge_client=Judge("0.5"), judge_prompt="Rate: {response}", judge_sampling_args={"seed": 1})
    rubric.add_reward_func(by_hand)
    state = new_state({"prompt": "q"}, "m", None)
    state["completion"] = ASKED[1]
    asyncio.run(rubric.score_rollout(state))
    assert state["reward"] == 0.5


def test_a_judge_out_of_reach_is_an_error_of_the_rollout_and_never_a_zero():
    rubric = JudgeRubric(judge_client=Judge(OSError("unplugged")))
    rubric.add_reward_func(approved)
    results = Guessing(rubric=rubric).evaluate_sync(counting, "m", num_examples=1)
    (output,) = results["outputs"]
    assert output["reward"] is None
    assert output["error"]["kind"] == "model"
    assert "unplugged" in output["error"]["message"]
    assert results["metadata"]["avg_reward"] is None


def test_a_judge_that_says_nothing_has_no_verdict():
    empty = {"choices": [{"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": "length"}]}
    with pytest.raises(EmptyModelResponseError, match=r"the judge gpt-4\.1-nano said nothing"):
        verdict(JudgeRubric(judge_client=Judge(empty)))


def test_what_was_not_said_is_not_remembered():
    judge, state = Judge(OSError("unplugged")), new_state({"prompt": "q"}, "m", None)
    rubric = JudgeRubric(judge_client=judge)
    with pytest.raises(ProviderError):
        verdict(rubric, state)
    judge.said = "no"
    assert verdict(rubric, state) == "no"


def test_a_prompt_with_other_places_is_refused():
    with pytest.raises(UsageError, match="judge_prompt cannot be filled in: KeyError: 'verdict'"):
        verdict(JudgeRubric(judge_client=Judge(), judge_prompt="{verdict}"))


def test_without_a_client_it_is_openai_whose_key_is_looked_for_at_the_first_question(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    rubric = JudgeRubric()
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        verdict(rubric)


def test_a_judge_may_be_an_upstream_by_its_name_and_is_closed_at_teardown(tmp_path):
    script = tmp_path / "judge.jsonl"
    script.write_text('{"text": "yes"}\n{"text": "no"}\n')
    rubric = JudgeRubric(judge_client=f"scripted:{script}")

    async def use():
        said = [await rubric.judge(*ASKED, answer) for answer in ("4", "5")]
        await rubric.teardown()
        return said

    assert asyncio.run(use()) == ["yes", "no"]


def test_a_judge_beside_another_rubric():
    judged = JudgeRubric(judge_client=Judge())
    judged.add_reward_func(approved, weight=0.5)
    env = Guessing()
    env.add_rubric(judged)
    (output,) = env.evaluate_sync(counting, "m", num_examples=1)["outputs"]
    assert (output["reward"], output["metrics"]) == (1.5, {"won": 1.0, "num_turns": 1.0, "approved": 1.0})
    assert isinstance(env.rubric, vf.Rubric)


def test_the_usual_judge_is_where_openai_s_clients_would_ask(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    given = JudgeRubric().judge_client.given
    assert given == vf.ClientConfig(base_url="http://127.0.0.1:1/v1", api_key_var="OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert JudgeRubric().judge_client.given == vf.ClientConfig()


class Counted(FunctionModel):
    """An upstream that counts how often it is opened and closed."""

    def __init__(self):
        super().__init__(lambda request: f"{request['model']}: {request['messages'][-1]['content']}")
        self.opened = self.closed = 0

    async def __aenter__(self):
        self.opened += 1
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_):
        self.closed += 1


def asked(content):
    return {"model": "judge", "messages": [{"role": "user", "content": content}]}


async def ask_both(client):
    async with asyncio.TaskGroup() as group:
        answers = [group.create_task(client.complete(asked(each))) for each in ("a", "b")]
    return [answer.result()["choices"][0]["message"]["content"] for answer in answers]


def test_it_is_opened_at_the_first_question_once_and_closed():
    upstream = Counted()
    client = JudgeClient(upstream)

    async def use():
        assert upstream.opened == 0
        assert await ask_both(client) == ["judge: a", "judge: b"]
        assert (upstream.opened, upstream.closed) == (1, 0)
        await client.close()
        await client.close()

    asyncio.run(use())
    assert (upstream.opened, upstream.closed) == (1, 1)


def test_each_event_loop_opens_its_own_and_closes_it_when_it_ends():
    upstream = Counted()
    client = JudgeClient(upstream)
    for _ in range(2):
        asyncio.run(ask_both(client))
    assert (upstream.opened, upstream.closed) == (2, 2)
    asyncio.run(client.close())
    assert upstream.closed == 2


def test_it_answers_as_clients_of_sdks_do():
    client = JudgeClient(Counted())

    async def use():
        return await client.chat.completions.create(**asked("hi"), temperature=None, extra_body={"model": "other"})

    answer = asyncio.run(use())
    assert (answer.choices[0].message.content, answer.choices[0].message.role) == ("other: hi", "assistant")


def test_what_is_no_client_is_refused_when_it_is_asked():
    with pytest.raises(UsageError, match="the client is of type int"):
        asyncio.run(JudgeClient(3).complete(asked("a")))


def test_it_can_be_sent_to_another_process_while_it_is_open():
    async def use():
        client = JudgeClient(agreeing)
        await client.complete(asked("a"))
        sent = pickle.loads(pickle.dumps(client))  # noqa: S301 - our own
        await client.close()
        return (await sent.complete(asked("b")))["choices"][0]["message"]["content"]

    assert asyncio.run(use()) == "yes"


def agreeing(messages):
    return "yes"
