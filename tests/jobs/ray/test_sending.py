"""What a program sends to nodes: it arrives whole, or the reason says what is missing where."""

import asyncio
import threading

import pytest

from seatrial.errors import UsageError
from seatrial.jobs.ray.sending import forget_late, pack_trials, unpack_trials
from tests.jobs.samples import record

pytest.importorskip("ray", reason="no Ray: install ray")


class Trials:
    """Stands for an environment; `held` is what it happens to hold."""

    def __init__(self, held: object = None) -> None:
        self.held = held


def test_what_is_sent_arrives():
    assert unpack_trials(pack_trials(Trials(held=("a", 1)))).held == ("a", 1)  # type: ignore[arg-type, attr-defined]


def test_what_cannot_be_sent_is_said_before_anything_starts():
    with pytest.raises(UsageError, match=r"cannot be sent to other machines: TypeError: cannot pickle '_thread.lock'"):
        pack_trials(Trials(held=threading.Lock()))  # type: ignore[arg-type]


def test_what_a_node_has_not_installed_is_named(monkeypatch):
    sent = pack_trials(Trials())  # type: ignore[arg-type]
    monkeypatch.setitem(__import__("sys").modules, __name__, None)
    with pytest.raises(UsageError, match=rf"{__name__.rpartition('.')[2]}.*; install what it imports"):
        unpack_trials(sent)


def test_a_late_result_is_taken_off_its_node_and_forgotten():
    folders = []

    async def fetch(folder):
        folders.append(folder)
        assert folder.is_dir()
        return record()

    asyncio.run(forget_late("add.noop.1", fetch))
    assert [folder.exists() for folder in folders] == [False]
