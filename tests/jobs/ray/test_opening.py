"""Getting to a cluster: what stands in the way is said at once, with what to do."""

import os
import socket
import subprocess
import sys
import threading
from types import ModuleType

import pytest

from seatrial.errors import UsageError
from seatrial.jobs.engine import make_engine
from seatrial.jobs.ray.opening import connected, pack_trials, unpack_trials
from seatrial.model.job import RunOptions


def test_without_ray_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'seatrial\[ray\]'"):
        make_engine(RunOptions(engine="ray"))


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("ray://127.0.0.1:10001", "Ray's client cannot be used"),
        ("127.0.0.1:1", "no cluster answers at 127.0.0.1:1: Connection refused"),
        ("127.0.0.1:port", "expected auto, or HOST:PORT"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused_at_once(address, reason):
    pytest.importorskip("ray", reason="no Ray: install ray")
    with pytest.raises(UsageError, match=reason), connected(address):
        pass


pytest.importorskip("ray", reason="no Ray: install ray")


CONNECT = """
import sys
from seatrial.errors import UsageError
from seatrial.jobs.ray.opening import connected
try:
    with connected(sys.argv[1]):
        pass
except UsageError as error:
    print(error)
"""


def test_a_token_that_is_asked_for_and_not_there_is_refused_in_words(tmp_path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        tried = subprocess.run(
            [sys.executable, "-c", CONNECT, address],
            env={**kept, "HOME": str(tmp_path), "RAY_AUTH_MODE": "token"},
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
    assert f"there is no Ray at {address} that could be used: " in tried.stdout, tried.stderr
    assert "set RAY_AUTH_MODE=token here too, and have its token in ~/.ray/auth_token or RAY_AUTH_TOKEN" in tried.stdout


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
