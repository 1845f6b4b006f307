"""PythonEnv: code of the model in an interpreter of its sandbox, which code may end but not hang."""

import json

import pytest

from seatrial.env import python_env
from seatrial.env.python_env import PythonEnv
from seatrial.testing.fake import FakeBackend, answer, command_line
from tests.env.tool_models import scripted, tool_texts
from tests.env.worlds import evaluate, only

ROWS = [{"question": "Go."}]


def run_in_memory(*replies, **options):
    """A rollout in which the interpreter answers as a test says."""
    left = list(replies)

    def run(spec, sandbox):
        line = command_line(spec)
        return left.pop(0) if " ask " in line else answer()

    env = PythonEnv(backend=FakeBackend(run), image="host", dataset=ROWS, **options)
    calls = [[("python", {"code": "x"})] for _ in replies]
    return only(evaluate(env, scripted(*calls, "done")))


def test_variables_stay_and_code_that_does_not_stop_is_ended(monkeypatch):
    monkeypatch.setattr(python_env, "_GRACE_SEC", 1.5)
    env = PythonEnv(image="host", enforcement="partial", timeout_per_command_seconds=0.5, dataset=ROWS)
    stubborn = "import signal; signal.signal(signal.SIGALRM, signal.SIG_IGN)\nwhile True: pass"
    codes = ["x = 41\nprint('hi')", "x + 1", stubborn, "x", "3"]
    output = only(evaluate(env, scripted(*[[("python", {"code": code})] for code in codes], "done")))
    said = tool_texts(output)
    assert said[:2] == ["hi", "Out[2]: 42"]
    assert said[2].startswith("Error: the Python interpreter did not stop after 0.5s. The next call starts a new one")
    assert said[3].endswith("NameError: name 'x' is not defined")
    assert (said[4], output["error"]) == ("Out[4]: 3", None)


def test_the_model_is_offered_python_and_nothing_else():
    env = PythonEnv(dataset=ROWS)
    (table,) = env.tool_defs
    assert (table["function"]["name"], table["function"]["parameters"]["required"]) == ("python", ["code"])


@pytest.mark.parametrize("forged", ["", "[]", "{", "null", '"x"', "[" * 100_000])
def test_whatever_code_answers_in_the_interpreter_s_place_is_only_a_message(forged):
    said = tool_texts(run_in_memory(answer(forged)))
    assert said == ["Error: the Python interpreter has ended. The next call starts a new one; all variables are gone."]


def test_answers_are_put_in_words_and_bounded():
    told = {"status": "ok", "stdout": "a\n", "stderr": "b", "result": "1"}
    shown = [{"status": "ok"}, {"status": "error", "result": "Boom\n"}, {"stdout": 3, "result": "x" * 10**6}]
    said = tool_texts(run_in_memory(*[answer(json.dumps(each)) for each in [told, *shown]]))
    assert said[:3] == ["a\nstderr:\nb\nOut[1]: 1", "(no output)", "Boom"]
    assert len(said[3]) < 51_000


@pytest.mark.parametrize("code", [2, 3, 127])
def test_a_sandbox_without_an_interpreter_is_an_error_of_the_rollout(code):
    output = run_in_memory(answer(exit_code=code, stderr="not found"))
    assert (output["error"]["kind"], output["reward"]) == ("infrastructure", None)
    assert "no Python interpreter runs in the sandbox: not found" in output["error"]["message"]


def test_code_that_breaks_its_interpreter_is_no_fault_of_the_sandbox():
    broken = run_in_memory(answer(exit_code=-9), answer(exit_code=3))
    assert (broken["error"], len(tool_texts(broken))) == (None, 2)


@pytest.mark.parametrize("code", [2, 3, 127])
def test_a_model_cannot_undo_its_rollout_by_what_it_removes(code):
    undone = run_in_memory(answer('{"status": "ok"}'), answer(exit_code=code), answer('{"result": "1"}'))
    assert undone["error"] is None
    assert tool_texts(undone)[1].startswith("Error: the Python interpreter has ended.")


def test_packages_that_cannot_be_installed_are_an_error_of_the_rollout():
    def run(spec, sandbox):
        assert command_line(spec) == "python3 -m pip install -q numpy"
        return answer(exit_code=1, stderr="no network")

    env = PythonEnv("numpy", backend=FakeBackend(run), image="host", dataset=ROWS)
    assert "no network" in only(evaluate(env, scripted("unreached")))["error"]["message"]
