"""Calling what others wrote: methods of an environment, reward functions. What they raise becomes a HookError."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from seatrial.errors import HookError, SeatrialError


@contextmanager
def blaming(name: str, kind: type[HookError] = HookError) -> Iterator[None]:
    """Whatever foreign is raised in the block is the doing of `name`. Our own errors and a cancellation pass."""
    try:
        yield
    except SeatrialError:
        raise
    except (Exception, SystemExit) as error:
        raise kind(f"{name} failed: {type(error).__name__}: {error}") from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise kind(f"{name} failed: something it waited for was cancelled") from error


async def call_hook(hook: Callable[..., Any], **offered: Any) -> Any:
    """What a hook gives. It gets what it names of what is offered: earlier releases of verifiers passed more."""
    parameters = inspect.signature(hook).parameters
    takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    return await settled(hook(**{name: value for name, value in offered.items() if takes_all or name in parameters}))


async def settled(value: Any) -> Any:
    """A value, or what it turns out to be."""
    return await value if inspect.isawaitable(value) else value
