"""What goes along to another machine: modules from files beside the environment, and `import verifiers` where used."""

import pickle
import sys
from importlib import import_module

import pytest

import seatrial as vf
from seatrial.env.loading import load_environment
from seatrial.env.sent_modules import StandIn, modules_of

MODULE = """
import seatrial as vf
from {beside} import PRIZE

class Own(vf.SingleTurnEnv):
    pass

def won():
    return PRIZE

def load_environment():
    return Own(dataset=[{{"question": "q"}}], rubric=vf.Rubric([won]))
"""


@pytest.fixture
def forgotten(monkeypatch):
    """Modules and folders that a test adds are gone afterwards."""
    known = set(sys.modules)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in set(sys.modules) - known:
        if name.startswith("of_test_"):
            del sys.modules[name]


@pytest.mark.usefixtures("forgotten")
def test_the_module_of_an_environment_and_those_beside_it_go_along(tmp_path):
    (tmp_path / "of_test_beside.py").write_text("PRIZE = 1.0")
    (tmp_path / "of_test_sent.py").write_text(MODULE.format(beside="of_test_beside"))
    env = load_environment(str(tmp_path / "of_test_sent.py"))
    assert {module.__name__ for module in modules_of(env)} == {"of_test_sent", "of_test_beside"}


def test_what_is_installed_does_not():
    assert modules_of(vf.SingleTurnEnv(dataset=[{"question": "q"}])) == []


def test_where_verifiers_was_stood_in_for_it_is_there_too_before_anything_needs_it():
    sent = pickle.dumps((StandIn(), Late()))
    compat = import_module("seatrial.compat.verifiers")
    compat.uninstall()
    try:
        assert pickle.loads(sent)[1] == "Seatrial"  # noqa: S301 - our own
        assert vf.MultiTurnEnv.asks_once_more
    finally:
        compat.uninstall()
    assert not vf.MultiTurnEnv.asks_once_more


class Late:
    """Imports verifiers when it is unpickled, as a class of an environment does."""

    def __reduce__(self):
        return imported, ()


def imported():
    return "Seatrial" if "+seatrial" in import_module("verifiers").__version__ else "verifiers"


@pytest.mark.usefixtures("forgotten")
def test_a_folder_that_is_called_like_that_of_python_or_lies_in_it_goes_along(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))  # as /usr is, for environments in /usr/src
    (tmp_path / "of_test_near.py").write_text("PRIZE = 1.0")
    (tmp_path / "of_test_within.py").write_text(MODULE.format(beside="of_test_near"))
    env = load_environment(str(tmp_path / "of_test_within.py"))
    assert {module.__name__ for module in modules_of(env)} == {"of_test_within", "of_test_near"}
