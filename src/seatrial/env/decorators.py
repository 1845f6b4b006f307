"""`stop`, `cleanup`, `teardown`, `advantage`: marks on methods of an environment or a rubric, and how they are found.

Each is used bare or with a priority, `@stop(priority=10)`; the highest comes first, and equals are
sorted by name, as in verifiers. A method that overrides a marked one is marked like it;
`None` in its place takes it away.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeVar, overload
from weakref import WeakKeyDictionary

Mark = Literal["stop", "cleanup", "teardown", "advantage"]
Method = Callable[..., Any]
M = TypeVar("M", bound=Method)

_MARKED: WeakKeyDictionary[type, dict[Mark, tuple[str, ...]]] = WeakKeyDictionary()
"""What was found once, since it is looked for in each turn of each rollout."""


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


@overload
def advantage(method: M, /) -> M: ...
@overload
def advantage(*, priority: int = 0) -> Callable[[M], M]: ...
def advantage(method: Method | None = None, /, *, priority: int = 0) -> Any:
    """Mark a function or a method of a rubric that says the advantage of each rollout of a group."""
    return _mark("advantage", method, priority)


def marked_methods(owner: object, mark: Mark) -> dict[str, Method]:
    """The bound methods with a mark by their names, in the order in which they are to run."""
    known = _MARKED.setdefault(type(owner), {})
    if mark not in known:
        known[mark] = _marked_names(type(owner), mark)
    return {name: method for name in known[mark] if callable(method := getattr(owner, name))}


def priority_of(method: object, mark: Mark) -> int | None:
    """The priority of a mark; None without it."""
    priority = getattr(method, _attribute(mark), None)
    return priority if isinstance(priority, int) else None


def _marked_names(owner: type, mark: Mark) -> tuple[str, ...]:
    priorities: dict[str, int] = {}
    for kind in reversed(owner.__mro__):
        for name, member in vars(kind).items():
            priority = priority_of(member, mark)
            if priority is not None:
                priorities[name] = priority
    return tuple(sorted(priorities, key=lambda name: (-priorities[name], name)))


def _mark(mark: Mark, method: Method | None, priority: int) -> Any:
    def put(marked: Method) -> Method:
        setattr(marked, _attribute(mark), priority)
        return marked

    return put if method is None else put(method)


def _attribute(mark: Mark) -> str:
    return f"_seatrial_{mark}"
