"""How long to wait: as asked for, else ever longer, spread by chance."""

import datetime as dt
import email.utils
from itertools import pairwise

import pytest

from seatrial.backoff import retry_after, wait_before

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": email.utils.format_datetime(NOW + dt.timedelta(seconds=30), usegmt=True)}, 30.0),
        ({"retry-after": email.utils.format_datetime(NOW - dt.timedelta(days=1), usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "1", "retry-after-ms": "2500"}, 2.5),
    ],
)
def test_reading_retry_after(headers, seconds):
    assert retry_after(headers, NOW) == seconds


def test_waits_grow_up_to_the_longest_and_spread_by_chance():
    waits = [wait_before(attempt, None, 60, 1.0) for attempt in range(12)]
    assert all(later >= sooner for sooner, later in pairwise(waits))
    assert waits[:3] == [0.5, 1.0, 2.0]
    assert waits[-1] == 60
    assert wait_before(3, None, 60, 0.0) == wait_before(3, None, 60, 1.0) / 2
    assert wait_before(0, 3600, 60, 0.0) == 60
    assert wait_before(0, 0.0, 60, 0.0) > 0
    assert 20 <= wait_before(0, 20, 60, 0.7) <= 22
