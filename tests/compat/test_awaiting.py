import asyncio

import pytest

from seatrial.compat.awaiting import maybe_await, maybe_call_with_named_args, maybe_retry, maybe_semaphore, with_sem
from seatrial.errors import SandboxError


async def later(a, b=0):
    return a + b


def test_functions_of_both_kinds_are_called_alike():
    assert asyncio.run(maybe_await(later, 1, b=2)) == 3
    assert asyncio.run(maybe_await(max, 1, 2)) == 2


def test_a_function_gets_the_objects_that_it_names():
    assert asyncio.run(maybe_call_with_named_args(later, a=1, b=2, c=3)) == 3
    assert asyncio.run(maybe_call_with_named_args(lambda **all_of_them: sorted(all_of_them), a=1, c=3)) == ["a", "c"]


def test_a_semaphore_is_there_if_there_is_a_limit():
    async def both():
        limited, free = await maybe_semaphore(1), await maybe_semaphore(-1)
        assert await with_sem(limited, later(1)) == await with_sem(free, later(1)) == 1
        return isinstance(limited, asyncio.Semaphore), isinstance(free, asyncio.Semaphore)

    assert asyncio.run(both()) == (True, False)


@pytest.mark.parametrize("failures", [[SandboxError("x")] * 2, [{"error": SandboxError("x")}] * 2])
def test_what_fails_is_called_again_so_often(failures):
    ends = [*failures, {"error": None}]

    async def rollout():
        end = ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end

    assert asyncio.run(maybe_retry(rollout, max_retries=2, initial=0)()) == {"error": None}
    assert ends == []


def test_what_fails_to_the_last_is_as_it_was_last():
    async def rollout():
        return [{"error": SandboxError("always")}]

    assert str(asyncio.run(maybe_retry(rollout, max_retries=1, initial=0)())[0]["error"]) == "always"
    assert maybe_retry(rollout) is rollout
