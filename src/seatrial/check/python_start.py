"""What a verifier's Pythons load at their start, to see another date, or directories listed in another order.

This file runs inside images, in any Python from 3.7 on, so it imports nothing of ours. `startup_file` in conditions.py
adds to its text the line that calls `install`. Everything else stays as it is: what was there to be loaded at the start
still is, and objects are of the types they were.
"""

from __future__ import annotations

import datetime as dt
import gc
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Literal

    Order = Literal["usual", "sorted", "reversed"]


def install(shift_sec: int, order: Order) -> None:
    """Shift the clock and order directories in this process, then load what would have been loaded at the start."""
    _shift_clock(shift_sec)
    _shift_dates()
    _order_folders(order)
    _load_next()


class _Function:
    """A function that does not become a method where a class has it as an attribute, as functions of C do not."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)


def _shift_clock(seconds: int) -> None:
    now, now_ns, formatted, told = time.time, time.time_ns, time.strftime, time.asctime
    _replace(time, "time", lambda: now() + seconds)
    _replace(time, "time_ns", lambda: now_ns() + seconds * 10**9)
    for name in ("localtime", "gmtime", "ctime"):
        _replace(time, name, _of_moment(getattr(time, name)))
    _replace(time, "strftime", lambda form, *when: formatted(form, *(when or (time.localtime(),))))
    _replace(time, "asctime", lambda *when: told(*(when or (time.localtime(),))))


def _of_moment(real: Callable[[float], Any]) -> Callable[..., Any]:
    return lambda seconds=None: real(time.time() if seconds is None else seconds)


def _replace(module: Any, name: str, call: Callable[..., Any]) -> None:
    real, standing = getattr(module, name), _Function(call)
    setattr(module, name, standing)
    if real in os.supports_fd:  # shutil looks there
        os.supports_fd.add(standing)


def _shift_dates() -> None:
    """Have the types of dates ask the shifted clock. They stay the types they are: libraries know them by identity."""

    def now(cls: Any, tz: Any = None) -> Any:
        return cls.fromtimestamp(time.time(), tz)

    def utcnow(cls: Any) -> Any:
        return cls.fromtimestamp(time.time(), dt.timezone.utc).replace(tzinfo=None)  # noqa: UP017 - new in 3.11

    def today(cls: Any) -> Any:
        return cls.fromtimestamp(time.time())

    _give_methods(dt.datetime, now=now, utcnow=utcnow, today=today)
    _give_methods(dt.date, today=today)


def _give_methods(kind: type, **methods: Callable[..., Any]) -> None:
    for name, method in methods.items():
        try:
            setattr(kind, name, classmethod(method))
        except TypeError:  # a type of C, which takes nothing; but behind the view of its dictionary there is one
            for table in gc.get_referents(kind.__dict__):
                if isinstance(table, dict):
                    table[name] = classmethod(method)


class _Entries:
    """What `os.scandir` gives, in an order."""

    def __init__(self, entries: Iterable[Any], close: Callable[[], None]) -> None:
        self._entries = iter(entries)
        self.close = close

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _order_folders(order: Order) -> None:
    real_listdir, real_scandir = os.listdir, os.scandir

    def in_order(entries: Iterable[Any], name: Callable[[Any], Any]) -> list[Any]:
        return list(entries) if order == "usual" else sorted(entries, key=name, reverse=order == "reversed")

    def listdir(*path: Any, **named: Any) -> list[Any]:
        return in_order(real_listdir(*path, **named), lambda entry: entry)

    def scandir(*path: Any, **named: Any) -> _Entries:
        found = real_scandir(*path, **named)
        return _Entries(in_order(found, lambda entry: entry.name), found.close)

    _replace(os, "listdir", listdir)
    _replace(os, "scandir", scandir)


def _load_next() -> None:
    """Load the sitecustomize that this one stands in front of, and leave no trace in the path."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is slow to import
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]  # noqa: PTH100 - as above
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401, PLC0415 - the next one, if any
    except ImportError:
        if ours is not None:
            sys.modules["sitecustomize"] = ours
