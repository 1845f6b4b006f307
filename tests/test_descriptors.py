"""Descriptors are shared out in advance: however many one party wants, the others have theirs."""

from contextlib import ExitStack

import pytest

from seatrial.descriptors import share, taking_part


@pytest.mark.parametrize(
    ("soft", "parties", "expected"),
    [(1024, 1, 128), (1024, 8, 16), (1024, 100, 8), (2**20, 4, 512), (-1, 9, 512)],
)
def test_what_each_party_may_have(monkeypatch, soft, parties, expected):
    monkeypatch.setattr("resource.getrlimit", lambda _: (soft, soft))
    monkeypatch.setattr("seatrial.descriptors._parties", 0)
    with ExitStack() as stack:
        for _ in range(parties):
            stack.enter_context(taking_part())
        assert share(512, 4) == expected
    assert share(512, 4) >= expected
