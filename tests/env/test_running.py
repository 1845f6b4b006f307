"""Streams of rollouts: outputs as they end, no further ahead than they are read, and nothing left behind."""

import asyncio
import itertools
from contextlib import aclosing

import pytest

import seatrial as vf
from tests.env.games import ROWS, Guessing, counting
from tests.env.test_run_row import Ranking


def run(work):
    async def bounded():
        async with asyncio.timeout(30):
            return await work

    return asyncio.run(bounded())


async def read(stream):
    return [each async for each in stream]


def test_outputs_come_as_they_end_not_as_they_began():
    async def scenario():
        first_may_end = asyncio.Event()

        async def model(messages):
            if "slow" in messages[0]["content"]:
                await first_may_end.wait()
            return "0"

        env = vf.MultiTurnEnv(dataset=[{"prompt": "slow"}, {"prompt": "quick"}], max_turns=1)
        came = []
        async for output in env.stream(-1, model, "m"):
            came.append(output["prompt"][0]["content"])
            first_may_end.set()
        return came

    assert run(scenario()) == ["quick", "slow"]


def test_rows_are_a_number_a_list_or_without_end():
    env = Guessing(max_turns=1)
    assert len(run(read(env.stream(2, counting, "m", rollouts_per_example=3)))) == 6
    assert len(run(read(env.stream(ROWS, counting, "m")))) == 3
    endless = ({**ROWS[0], "info": {"number": number}} for number in itertools.count())

    async def first_few():
        async with aclosing(env.stream(endless, counting, "m", max_concurrent=2)) as stream:
            return [output["example_id"] async for output, _ in _zipped(stream, 5)]

    came = run(first_few())
    assert len(set(came)) == 5
    assert max(came) <= 5  # two at once: at most one was ahead of those that came


async def _zipped(stream, count):
    for number in range(count):
        yield await anext(stream), number


@pytest.mark.parametrize("limit", [1, 3])
def test_a_slow_reader_slows_rollouts_down(limit):
    begun = []

    async def model(messages):
        begun.append(1)
        return "0"

    async def scenario():
        ahead: list[int] = []
        async for _ in Guessing(dataset=ROWS * 10, max_turns=1).stream(-1, model, "m", max_concurrent=limit):
            for _ in range(20):  # everything that may happen before the next one is taken
                await asyncio.sleep(0)
            ahead.append(len(begun) - len(ahead))
        return ahead

    ahead = run(scenario())
    assert len(ahead) == 30
    assert max(ahead) == limit


def test_leaving_the_loop_cancels_and_cleans_up():
    swept = []

    class Swept(Guessing):
        @vf.cleanup
        async def sweep(self, state):
            await asyncio.sleep(0)
            swept.append(state["example_id"])

    async def scenario():
        async def model(messages):
            if len(swept):
                await asyncio.Event().wait()
            return "0"

        async for output in Swept(max_turns=1).stream(-1, model, "m", max_concurrent=2):
            assert output["example_id"] == 0
            break
        for _ in range(50):  # the loop closes what was left of the stream
            await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1
        return sorted(swept)

    assert run(scenario()) == [0, 1]


def test_a_cancelled_reader_leaves_nothing_behind():
    async def scenario():
        asked = asyncio.Event()

        async def never(messages):
            asked.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(read(Guessing().stream(-1, never, "m")))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return len(asyncio.all_tasks())

    assert run(scenario()) == 1


def test_a_group_comes_out_whole_and_compared_even_if_it_is_larger_than_what_may_run():
    async def model(messages):
        return str(next(answers))

    answers = itertools.count()
    env = Guessing(max_turns=1, rubric=vf.Rubric([lambda completion: float(completion[-1]["content"])]))
    groups = run(read(env.stream_groups(2, model, "m", rollouts_per_example=4, max_concurrent=2)))
    assert [len(group) for group in groups] == [4, 4]
    for group in groups:
        assert sum(output["advantage"] for output in group) == pytest.approx(0.0)
        assert len({output["example_id"] for output in group}) == 1


@pytest.mark.parametrize("each", [1, 3])
def test_outputs_of_a_stream_have_the_advantages_of_their_group(each):
    async def model(messages):
        return str(next(answers))

    answers = itertools.count()
    env = Guessing(max_turns=1, rubric=vf.Rubric([lambda completion: float(completion[-1]["content"])]))
    outputs = run(read(env.stream(2, model, "m", rollouts_per_example=each, max_concurrent=1)))
    assert [output["example_id"] for output in outputs] == [0] * each + [1] * each
    assert [output["advantage"] for output in outputs] == ([0.0] if each == 1 else [-1.0, 0.0, 1.0]) * 2


def test_outputs_of_a_stream_wait_for_no_group_where_that_is_asked_for():
    async def scenario():
        may_end = asyncio.Event()

        async def model(messages):
            if next(asked):
                await may_end.wait()
            return "0"

        asked = itertools.count()
        came = []
        stream = Guessing(max_turns=1).stream(1, model, "m", rollouts_per_example=2, independent_scoring=True)
        async for output in stream:
            came.append(output["advantage"])
            may_end.set()
        return came

    assert run(scenario()) == [None, None]


def test_outputs_that_are_scored_in_groups_wait_for_their_group():
    env = Guessing(max_turns=1, rubric=Ranking())
    outputs = run(read(env.stream(2, counting, "m", rollouts_per_example=3, max_concurrent=2)))
    assert [output["reward"] for output in outputs] == [0.0, 1.0, 2.0] * 2


def test_outputs_of_a_stream_are_kept_where_that_is_asked_for(tmp_path):
    env = Guessing(max_turns=1)
    first = run(read(env.stream(ROWS, counting, "m", save_to=tmp_path)))
    again = run(read(env.stream(ROWS, lambda messages: 1 / 0, "m", save_to=tmp_path, resume=True)))
    assert {output["trajectory_id"] for output in again} == {output["trajectory_id"] for output in first}
    with pytest.raises(vf.UsageError, match="rows that come one by one"):
        env.stream(iter(ROWS), counting, "m", save_to=tmp_path)


def test_mistakes_are_said_at_once_and_errors_of_rows_come_out():
    env = Guessing()
    with pytest.raises(vf.UsageError, match="max_retry: did you mean max_retries"):
        env.stream(1, counting, "m", max_retry=1)
    with pytest.raises(vf.UsageError, match="rollouts_per_example is 0"):
        env.stream(1, counting, "m", rollouts_per_example=0)
    with pytest.raises(vf.UsageError, match="row 1 of the dataset"):
        run(read(env.stream(iter([ROWS[0], {}]), counting, "m")))
    with pytest.raises(vf.UsageError, match="the client is of type int"):
        run(read(env.stream(1, 7, "m")))


def test_rows_that_have_to_be_waited_for_are_refused():
    async def rows():
        yield ROWS[0]

    with pytest.raises(vf.UsageError, match="rows come from a async_generator"):
        Guessing().stream(rows(), counting, "m")
