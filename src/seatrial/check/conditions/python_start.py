"""What a verifier's Pythons load at their start, to see another date, or directories listed in another order.

This file runs inside images, in any Python from 3.7 on, so it imports nothing of ours. `startup_file` in conditions.py
adds to its text the line that calls `install`. Everything else stays as it is: what was there to be loaded at the start
still is, and objects are of the types they were.
"""

from __future__ import annotations

import copyreg
import datetime as dt
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
    setattr(module, name, _Function(call))


class _Standing(type):
    """Stands for a type of C, of which all instances are its own."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, _REAL[cls]) if cls in _REAL else type.__instancecheck__(cls, value)

    def __subclasscheck__(cls, kind: Any) -> bool:
        return issubclass(kind, _REAL[cls]) if cls in _REAL else type.__subclasscheck__(cls, kind)


class _Datetime(dt.datetime, metaclass=_Standing):
    """`datetime.datetime`, asking the shifted clock. Its instances are those of C, as ever."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return _DATETIME.__new__(_DATETIME if cls is _Datetime else cls, *args, **kwargs)

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return cls.fromtimestamp(time.time(), tz)

    @classmethod
    def today(cls) -> Any:
        return cls.fromtimestamp(time.time())

    @classmethod
    def utcnow(cls) -> Any:
        return cls.utcfromtimestamp(time.time())


class _Date(dt.date, metaclass=_Standing):
    """`datetime.date`, in the same way."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return _DATE.__new__(_DATE if cls is _Date else cls, *args, **kwargs)

    @classmethod
    def today(cls) -> Any:
        return cls.fromtimestamp(time.time())


_DATETIME, _DATE = dt.datetime, dt.date
_REAL: dict[type, type] = {_Datetime: _DATETIME, _Date: _DATE}


def _shift_dates() -> None:
    for standing, real in _REAL.items():
        standing.__name__ = standing.__qualname__ = real.__name__
        standing.__module__ = "datetime"
        setattr(dt, real.__name__, standing)
        # A type is pickled by its name, under which the other one stands now.
        copyreg.pickle(real, _reducer(standing))


def _reducer(standing: type) -> Callable[[Any], tuple[Any, ...]]:
    return lambda value: (standing, value.__reduce_ex__(2)[1])


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
