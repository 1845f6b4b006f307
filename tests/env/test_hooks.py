"""Whose doing an error is: that of the code that raised it, or of a user who pressed Ctrl-C."""

import asyncio
import os
import signal

import pytest

import seatrial as vf
from seatrial.env.hooks import blaming
from tests.env.games import counting


def interrupting(do):
    """An environment whose first reward function does something; the rollouts that were scored, by their answers."""
    seen = []

    async def judge(answer):
        seen.append(answer)
        if answer == "0":
            await do()
        return 1.0

    rows = [{"prompt": "q", "answer": str(number)} for number in range(3)]
    return vf.SingleTurnEnv(dataset=rows, rubric=vf.Rubric([judge])), seen


async def raises():
    raise KeyboardInterrupt


async def is_pressed():
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.Event().wait()  # forever, unless it is seen to


def test_a_keyboard_interrupt_of_code_ends_only_its_rollout():
    env, _ = interrupting(raises)
    outputs = env.evaluate_sync(counting, "m", max_concurrent=1)["outputs"]
    assert [output["reward"] for output in outputs] == [None, 1.0, 1.0]
    assert outputs[0]["error"]["message"] == "the reward function judge failed: KeyboardInterrupt: "


def test_ctrl_c_ends_everything():
    env, seen = interrupting(is_pressed)
    with pytest.raises(KeyboardInterrupt):
        env.evaluate_sync(counting, "m", max_concurrent=1)
    assert seen == ["0"]


def test_where_python_itself_raises_it_for_ctrl_c_it_is_the_user_s():
    async def blamed():
        with pytest.raises(KeyboardInterrupt), blaming("a hook"):
            raise KeyboardInterrupt

    loop = asyncio.new_event_loop()  # unlike asyncio.run, it leaves SIGINT as it is
    try:
        loop.run_until_complete(blamed())
    finally:
        loop.close()


def test_ctrl_c_pressed_once_more_is_the_user_s_too():
    raised = []

    async def hook():  # which lets nobody else have the word
        try:
            with blaming("a hook"):
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt as error:
            raised.append(type(error))

    async def waiting():
        async with asyncio.TaskGroup() as group:  # which hears of it when the hook has ended
            group.create_task(hook())

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(waiting())
    assert raised == [KeyboardInterrupt]
