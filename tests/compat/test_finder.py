import importlib
import subprocess
import sys

import pytest


def imported(statement):
    names: dict[str, object] = {}
    exec(statement, names)  # noqa: S102 - import statements of this file
    return names


@pytest.mark.parametrize(
    ("statement", "name", "module"),
    [
        ("from verifiers.envs.multiturn_env import MultiTurnEnv as it", "MultiTurnEnv", "seatrial.env.turns"),
        (
            "from verifiers.legacy.envs.multiturn_env import MultiTurnEnv as it",
            "MultiTurnEnv",
            "seatrial.env.turns",
        ),
        ("from verifiers.envs.experimental.harbor_env import HarborEnv as it", "HarborEnv", "seatrial.compat.names"),
        ("import verifiers as vf; it = vf.rubrics.rubric.Rubric", "Rubric", "seatrial.env.rubric"),
        ("import verifiers.types as types; it = types.State", "State", "seatrial.env.rollout"),
        ("from verifiers.envs.environment import State as it", "State", "seatrial.env.rollout"),
        ("from verifiers.errors import SandboxError as it", "SandboxError", "seatrial.errors"),
    ],
)
def test_names_resolve_to_ours_from_wherever_they_are_taken(compat, statement, name, module):
    it = imported(statement)["it"]
    assert (it.__name__, it.__module__) == (name, module)


def test_a_star_gives_the_names_of_a_module(compat):
    names = imported("from verifiers.errors import *")
    assert {"ToolCallError", "SandboxError"} <= set(names)
    assert "Environment" not in names


def test_what_is_not_ours_is_an_error_that_says_what_to_use(compat):
    vf = importlib.import_module("verifiers")
    assert not hasattr(vf, "TextArenaEnv")
    with pytest.raises(AttributeError, match=r"verifiers\.BrowserEnv is not in Seatrial; use StatefulToolEnv"):
        _ = vf.BrowserEnv
    with pytest.raises(AttributeError, match="did you mean HarborEnv"):
        _ = vf.HarbourEnv


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("from verifiers import TextArenaEnv", "verifiers.TextArenaEnv is not in Seatrial; use MultiTurnEnv"),
        ("import verifiers.v1 as vf", "verifiers.v1 is not in Seatrial, .* use HarborEnv, ToolEnv or MultiTurnEnv"),
        ("from verifiers.envs.integrations.browser_env.modes import x", "browser_env is not in .* use StatefulToolEnv"),
        ("from verifiers.utils.threaded_sandbox_client import x", "use self.sandbox_client of SandboxEnv"),
        ("from verifiers.types import Mesages", "verifiers.types.Mesages is not .* did you mean Messages"),
        ("from verifiers.utils.data_utils import nothing", r"data_utils.nothing is not in Seatrial, .*from-verifiers"),
    ],
)
def test_what_is_not_ours_cannot_be_imported(compat, statement, said):
    with pytest.raises(ImportError, match=said):
        imported(statement)


def test_an_environment_may_ask_whether_something_is_there(compat):
    names = imported("try:\n    from verifiers import MCPEnv\nexcept ImportError:\n    MCPEnv = None")
    assert names["MCPEnv"] is None


def test_a_name_is_looked_up_once(compat):
    vf = importlib.import_module("verifiers")
    assert "Rubric" not in vars(vf)
    assert vars(vf).setdefault("Rubric", vf.Rubric) is vf.Rubric
    assert "Rubric" in dir(vf)


def test_the_import_brings_in_no_environment_yet():
    code = (
        "import sys, seatrial.compat.verifiers, verifiers, verifiers.types, verifiers.envs.multiturn_env;"
        "print([name for name in sys.modules if name.startswith(('seatrial.env', 'pydantic', 'aiohttp'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
