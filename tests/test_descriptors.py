"""Descriptors: the limit is raised, they are shared out in advance, and who runs out of them learns the numbers."""

import errno
import os
import resource
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from seatrial import descriptors
from seatrial.descriptors import affordable_trials, raise_if_short, share, shortage, taking_part

RAISE = """
import resource
from seatrial.descriptors import in_use, limit, raise_limit, shortage
print(raise_limit(), raise_limit(), limit())
"""


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


def test_the_limit_is_raised_and_what_it_was_is_known():
    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 200))

    done = subprocess.check_output([sys.executable, "-c", RAISE], text=True, preexec_fn=lower)
    assert done == "(64, 200) (64, 200) 200\n"


@pytest.mark.parametrize(
    ("soft", "wanted", "expected"), [(1024, 12, 12), (112, 12, 5), (40, 12, 1), (10, 4, 1), (-1, 10_000, 10_000)]
)
def test_how_many_trials_there_are_descriptors_for(monkeypatch, soft, wanted, expected):
    monkeypatch.setattr("resource.getrlimit", lambda _: (soft, soft))
    assert affordable_trials(wanted) == expected


def test_a_shortage_names_the_limit_what_is_open_and_what_to_do(monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda _: (64, 64))
    before = descriptors.in_use()
    with Path(os.devnull).open():
        assert f"has {before + 1} of at most 64 files open" in shortage()
    assert "ulimit -n" in shortage()
    assert "-n)" in shortage()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_only_a_shortage_is_let_through(number):
    raise_if_short(FileNotFoundError(errno.ENOENT, "gone"))
    raise_if_short(ValueError("no"))
    with pytest.raises(OSError, match="too many"):
        raise_if_short(OSError(number, "too many"))
