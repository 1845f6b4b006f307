"""`stop`, `cleanup` and `teardown`: marks on methods of an environment, and how the marked methods are found.

Each is used bare or with a priority, `@stop(priority=10)`; the highest comes first, and of equals the one that was
written first, base classes before their children. A method that overrides a marked one is marked like it;
`None` in its place takes it away.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload

Mark = Literal["stop", "cleanup", "teardown"]
Method = Callable[..., Any]
M = TypeVar("M", bound=Method)


@overload
def stop(method: M, /) -> M: ...
@overload
def stop(*, priority: int = 0) -> Callable[[M], M]: ...
def stop(method: Method | None = None, /, *, priority: int = 0) -> Any:
    """Mark `method(self, state) -> bool` as a condition that ends a rollout."""
    return _mark("stop", method, priority)


@overload
def cleanup(method: M, /) -> M: ...
@overload
def cleanup(*, priority: int = 0) -> Callable[[M], M]: ...
def cleanup(method: Method | None = None, /, *, priority: int = 0) -> Any:
    """Mark `method(self, state)` to run at the end of each rollout, however it ends."""
    return _mark("cleanup", method, priority)


@overload
def teardown(method: M, /) -> M: ...
@overload
def teardown(*, priority: int = 0) -> Callable[[M], M]: ...
def teardown(method: Method | None = None, /, *, priority: int = 0) -> Any:
    """Mark `method(self)` to run when the environment is no longer used."""
    return _mark("teardown", method, priority)


def marked_methods(owner: object, mark: Mark) -> dict[str, Method]:
    """The bound methods with a mark by their names, in the order in which they are to run."""
    priorities: dict[str, int] = {}
    for kind in reversed(type(owner).__mro__):
        for name, member in vars(kind).items():
            priority = getattr(member, _attribute(mark), None)
            if isinstance(priority, int):
                priorities[name] = priority
    names = sorted(priorities, key=lambda name: -priorities[name])
    return {name: method for name in names if callable(method := getattr(owner, name))}


def _mark(mark: Mark, method: Method | None, priority: int) -> Any:
    def put(marked: Method) -> Method:
        setattr(marked, _attribute(mark), priority)
        return marked

    return put if method is None else put(method)


def _attribute(mark: Mark) -> str:
    return f"_seatrial_{mark}"
