"""SandboxEnv: a conversation beside a sandbox that is made for each rollout and gone after it."""

import asyncio
import json

import pytest

import seatrial as vf
from seatrial.env import sandbox_env
from seatrial.env.sandbox_env import PythonEnv
from seatrial.errors import SandboxError
from seatrial.testing.fake import FakeBackend, answer, command_line
from tests.env.tool_models import scripted, tool_texts
from tests.env.worlds import evaluate, only, world


class Shell(vf.SandboxEnv):
    """Whatever the model says is run as a command."""

    async def env_response(self, messages, state, **_):
        result = await self.sandbox_client.execute_command(state["sandbox_id"], messages[-1]["content"])
        return result.stdout


def shell(kind=Shell, **options):
    options = {"backend": world(), "image": "host", "max_turns": 2, "dataset": [{"prompt": "Go."}], **options}
    return kind(**options)


def model(messages):
    return f"command {len(messages)}"


def test_each_rollout_has_its_sandbox_and_it_is_gone_afterwards():
    backend = world()
    results = evaluate(shell(backend=backend, dataset=[{"prompt": "Go."}] * 3), model)
    assert [output["completion"][1]["content"] for output in results["outputs"]] == ["command 1"] * 3
    assert len({output["sandbox_id"] for output in results["outputs"]}) == 3
    assert [sandbox.destroyed for sandbox in backend.sandboxes] == [True] * 3


def test_hooks_may_use_the_sandbox_before_the_first_turn_and_in_cleanups():
    seen = []

    class Furnished(Shell):
        async def post_sandbox_setup(self, state):
            await self.sandbox_client.upload_content(state["sandbox_id"], "x", "/app/x")

        @vf.cleanup
        async def look(self, state):
            seen.append(await self.sandbox_client.read_file(state["sandbox_id"], "/app/x"))

    assert only(evaluate(shell(Furnished), model))["cleanup_errors"] == []
    assert seen == ["x"]


def test_variables_and_image_are_those_that_were_given():
    backend = world()

    class Named(Shell):
        async def get_docker_image(self, state):
            return "python:3.9"

    output = only(evaluate(shell(Named, backend=backend, environment_vars={"A": "1"}), model))
    assert (output["docker_image"], output["image_used"]) == ("python:3.9", "host")
    assert backend.sandboxes[0].spec.env == {"A": "1"}


@pytest.mark.parametrize("where", ["setup", "response"])
def test_a_sandbox_is_gone_also_when_a_hook_fails(where):
    class Breaking(Shell):
        async def post_sandbox_setup(self, state):
            if where == "setup":
                raise RuntimeError("broken")

        async def env_response(self, messages, state, **_):
            raise RuntimeError("broken")

    backend = world()
    output = only(evaluate(shell(Breaking, backend=backend), model))
    assert output["error"]["kind"] == "hook"
    assert [sandbox.destroyed for sandbox in backend.sandboxes] == [True]


def test_a_sandbox_that_cannot_be_made_is_an_error_of_the_rollout():
    output = only(evaluate(shell(backend=world(fail_on={"create": SandboxError("full")})), model))
    assert (output["error"]["error"], output["reward"]) == ("SandboxError", None)


def test_single_rollouts_bring_their_own_backend():
    env = shell(backend="local", network="none", enforcement="partial")

    async def run():
        with pytest.warns(UserWarning, match="isolates nothing"):
            return await env.rollout({"prompt": "Go."}, lambda messages: "echo hello", "m")

    state = asyncio.run(run())
    assert state["completion"][1]["content"] == "hello\n"
    assert env._sandboxes.backend._kept == {}


def test_what_it_takes_is_named_in_errors():
    with pytest.raises(vf.UnknownArgumentError, match="did you mean disk_size_gb"):
        shell(disk_size=3)


def test_it_ends_after_the_minutes_of_its_sandbox():
    assert shell(timeout_minutes=2, timeout_seconds=500).timeout_seconds == 120
    assert vf.SandboxEnv("mine:1", dataset=[{"prompt": "Go."}]).docker_image == "mine:1"


def offered_shell(commands, **options):
    return vf.SandboxEnv(backend=FakeBackend(commands), image="host", dataset=[{"prompt": "Go."}], **options)


def test_the_model_runs_commands_by_bash_and_sees_only_the_command():
    env = offered_shell({"ls": answer("a\n", stderr="warn\n"), "true": answer(), "sleep 99": answer(exit_code=None)})
    (table,) = env.tool_defs
    assert (table["function"]["name"], table["function"]["parameters"]["required"]) == ("bash", ["command"])
    calls = [("bash", {"command": command}) for command in ("ls", "true", "sleep 99")]
    output = only(evaluate(env, scripted(calls, "done")))
    assert tool_texts(output) == ["a\nstderr:\nwarn", "(no output)", "Error: Command timed out after 30s"]
    assert (output["stop_condition"], output["metrics"]["bash_calls"]) == ("no_tools_called", 3.0)


def test_commands_have_the_working_directory_of_the_state_and_their_time():
    seen = []

    def run(spec, sandbox):
        seen.append((spec.cwd, spec.timeout_sec))
        return answer("ok")

    class Placed(vf.SandboxEnv):
        async def post_sandbox_setup(self, state):
            state["working_dir"] = "/src"

    env = Placed(backend=FakeBackend(run), image="host", timeout_per_command_seconds=7, dataset=[{"prompt": "Go."}])
    evaluate(env, scripted([("bash", {"command": "ls", "working_dir": "/etc", "sandbox_id": "other"})], "done"))
    assert seen == [("/src", 7)]


def test_a_sandbox_that_fails_under_bash_is_an_error_of_the_rollout():
    env = vf.SandboxEnv(
        backend=world(fail_on={"exec": SandboxError("gone")}), image="host", dataset=[{"prompt": "Go."}]
    )
    output = only(evaluate(env, scripted([("bash", {"command": "ls"})], "unreached")))
    assert (output["error"]["error"], output["error"]["kind"]) == ("SandboxError", "infrastructure")


def test_an_override_of_env_response_may_leave_the_end_to_its_base():
    class Reminding(vf.SandboxEnv):
        async def env_response(self, messages, state, **kwargs):
            return [*await super().env_response(messages, state, **kwargs), {"role": "user", "content": "hurry"}]

    env = Reminding(backend=world(), image="host", dataset=[{"prompt": "Go."}])
    output = only(evaluate(env, scripted([("bash", {"command": "ls"})], "done")))
    assert [message["role"] for message in output["completion"]] == ["assistant", "tool", "user", "assistant"]
    assert output["stop_condition"] == "has_final_env_response"


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


@pytest.mark.whole
def test_variables_stay_and_code_that_does_not_stop_is_ended(monkeypatch):
    monkeypatch.setattr(sandbox_env, "_GRACE_SEC", 1.5)
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
