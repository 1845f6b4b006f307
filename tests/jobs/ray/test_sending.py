"""What a program sends to nodes: it arrives whole, or the reason says what is missing where."""

import asyncio
import sys
import threading
from types import ModuleType

import pytest

from seatrial.errors import UsageError
from seatrial.jobs.ray.sending import forget_late, pack_trials, unpack_trials
from tests.jobs.samples import record

pytest.importorskip("ray", reason="no Ray: install ray")


class Trials:
    """Stands for an environment; `held` is what it happens to hold."""

    modules: tuple[ModuleType, ...] = ()

    def __init__(self, held: object = None) -> None:
        self.held = held


def test_what_is_sent_arrives():
    assert unpack_trials(pack_trials(Trials(held=("a", 1)))).held == ("a", 1)  # type: ignore[arg-type, attr-defined]


def test_what_cannot_be_sent_is_said_before_anything_starts():
    with pytest.raises(UsageError, match=r"cannot be sent to other machines: TypeError: cannot pickle '_thread.lock'"):
        pack_trials(Trials(held=threading.Lock()))  # type: ignore[arg-type]


def test_what_a_node_has_not_installed_is_named(monkeypatch):
    sent = pack_trials(Trials())  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, __name__, None)
    with pytest.raises(UsageError, match=rf"{__name__.rpartition('.')[2]}.*; install what it imports"):
        unpack_trials(sent)


def test_modules_that_only_this_machine_has_go_along(monkeypatch):
    module = ModuleType("only_here")
    exec("class Held:\n    def say(self):\n        return 'hello'", module.__dict__)  # noqa: S102 - a module from a file
    monkeypatch.setitem(sys.modules, "only_here", module)
    trials = Trials(held=module.__dict__["Held"]())
    alone = pack_trials(trials)  # type: ignore[arg-type]
    monkeypatch.setattr(Trials, "modules", (module,))
    sent = pack_trials(trials)  # type: ignore[arg-type]
    monkeypatch.delitem(sys.modules, "only_here")
    assert unpack_trials(sent).held.say() == "hello"  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="No module named 'only_here'"):
        unpack_trials(alone)


def test_a_late_result_is_taken_off_its_node_and_forgotten():
    folders = []

    async def fetch(folder):
        folders.append(folder)
        assert folder.is_dir()
        return record()

    asyncio.run(forget_late("add.noop.1", fetch))
    assert [folder.exists() for folder in folders] == [False]
