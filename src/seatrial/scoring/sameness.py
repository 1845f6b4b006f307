"""Do two breakdowns say the same? What may differ between honest runs does not count: times, places, orders.

Pure. What is named differs in what it says about the work that was judged.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

MAX_DIFFERENCES = 10
_ROUNDING = 1e-9
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
# A value under such a name tells when, where or how fast a verifier ran.
_ABOUT_THE_RUN = frozenset(
    {
        *(
            "time",
            "times",
            "timestamp",
            "timestamps",
            "date",
            "datetime",
            "duration",
            "durations",
            "elapsed",
            "runtime",
        ),
        *("walltime", "latency", "throughput", "started", "finished", "created", "updated", "start", "stop"),
        *("begin", "end", "sec", "secs", "second", "seconds", "ms", "millis", "milliseconds", "us", "ns"),
        *("pid", "ppid", "tid", "port", "path", "paths", "file", "filename", "dir", "directory", "folder", "cwd"),
        *("tmp", "tmpdir", "temp", "tempdir", "host", "hostname", "memory", "mem", "rss", "cpu", "uuid", "guid", "id"),
        *("nonce", "seed", "stdout", "stderr", "log", "logs", "output", "traceback"),
    }
)
_UNITS = r"(?:s|sec|secs|seconds?|ms|milliseconds?|us|µs|ns|m|min|minutes?|h|hours?)"
_VOLATILE = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"  # dates and moments
    r"|\b\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?\b"  # times of day
    rf"|\b\d+(?:[.,]\d+)?\s?{_UNITS}\b"  # lengths of time
    r"|\b0x[0-9a-fA-F]+\b"  # addresses of objects
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|/(?:tmp|var/tmp|proc|dev/shm)/[^\s'\"]*"
    r"|\b(?:pid|port|process)[ =:]*\d+"
)


def differences(first: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Where two breakdowns say something else, such as `drop_v.score`; the first of these places."""
    found: list[str] = []
    for place in _differing("", first or {}, other or {}):
        found.append(place)
        if len(found) == MAX_DIFFERENCES:
            break
    return tuple(found)


def _differing(place: str, first: Any, other: Any) -> Iterator[str]:
    if isinstance(first, dict) and isinstance(other, dict):
        for key in {**first, **other}:
            one, two = first.get(key, _Missing), other.get(key, _Missing)
            if not _is_about_the_run(key) or _is_scored(one) or _is_scored(two):
                yield from _differing(f"{place}.{key}" if place else key, one, two)
    elif isinstance(first, list) and isinstance(other, list):
        if sorted(map(_lasting, first)) != sorted(map(_lasting, other)):
            yield place
    elif not _alike(first, other):
        yield place


class _Missing:
    """Stands for a key that is not there, which is something else than null."""


def _is_scored(value: Any) -> bool:
    """Whether it is a dimension of the work, whatever it is called, such as `travel_time`."""
    return isinstance(value, dict) and "score" in value


def _is_about_the_run(key: str) -> bool:
    return any(word.lower() in _ABOUT_THE_RUN for word in _WORD.findall(key))


def _lasting(value: Any) -> str:
    """What of an item of a list does not depend on when and where it was written."""
    if isinstance(value, dict):
        lasting = {key: _lasting(item) for key, item in value.items() if not _is_about_the_run(key)}
        return json.dumps(lasting, sort_keys=True)
    if isinstance(value, list):
        return json.dumps(sorted(map(_lasting, value)))
    if isinstance(value, str):
        return json.dumps(_words(value))
    if isinstance(value, float):
        return f"{value:.9g}"
    return json.dumps(value)


def _alike(first: Any, other: Any) -> bool:
    if isinstance(first, bool) or isinstance(other, bool):
        return first is other
    if isinstance(first, int | float) and isinstance(other, int | float):
        return math.isclose(first, other, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
    if isinstance(first, str) and isinstance(other, str):
        return first == other or _words(first) == _words(other)
    return bool(first == other)


def _words(text: str) -> list[str]:
    """The words of a text whatever their order: one who lists what is in a set lists it in any."""
    return sorted(re.split(r"[\s,;\[\]{}()'\"]+", _VOLATILE.sub("", text)))
