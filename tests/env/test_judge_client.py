"""A judge's client: opened late, once for each event loop, closed again."""

import asyncio
import pickle

import pytest

from seatrial.env.judge_client import JudgeClient
from seatrial.errors import UsageError
from seatrial.gateway.upstreams.function import FunctionModel


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
