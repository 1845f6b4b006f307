"""The page of HarborEnv, sentence by sentence: error handling and state keys."""

import asyncio

import pytest

import seatrial as vf
from seatrial.errors import HealthcheckError, SandboxError
from seatrial.sandbox.api import ExecResult, ExecSpec
from seatrial.testing.fake import FakeBackend, FakeSandbox, answer, command_line
from tests.env.worlds import (
    COMMAND,
    REWARD_JSON,
    REWARD_TXT,
    ask,
    evaluate,
    harbor_env,
    make_tasks,
    only,
    record_of,
    world,
)


def rollout(tmp_path, verdict=None, kind=vf.HarborEnv, **options):
    backend = world(verdict=verdict, **options)
    return only(evaluate(harbor_env(make_tasks(tmp_path), kind, backend=backend)))


def test_test_execution_errors_are_logged_but_return_0_reward(tmp_path, caplog):
    output = rollout(tmp_path, {REWARD_TXT: b"-1"})
    assert (output["reward"], output["error"]) == (0.0, None)
    assert "the verifier could not judge" in caplog.text


def test_missing_reward_files_return_0(tmp_path, caplog):
    output = rollout(tmp_path, {})
    assert (output["reward"], output["error"], output["evaluation"].validity.verifier_completed) == (0.0, None, False)
    assert "wrote no reward file" in caplog.text


def test_whether_a_missing_reward_counts_is_said_by_the_untouched_environment(tmp_path):
    async def run(spec: ExecSpec, sandbox: FakeSandbox) -> ExecResult:
        if spec.phase != "verifier":
            sandbox.files["/app/junk"] = b"x" if command_line(spec) == COMMAND else b""
        elif not sandbox.files.get("/app/junk"):
            sandbox.files[REWARD_TXT] = b"0"
        return answer()

    backend = FakeBackend(run)
    silenced = only(evaluate(harbor_env(make_tasks(tmp_path / "silenced"), backend=backend)))
    assert (silenced["reward"], record_of(silenced).outcome) == (0.0, "fail")
    broken = rollout(tmp_path / "broken", {})
    assert (broken["reward"], record_of(broken).outcome) == (0.0, "verifier_error")


MALFORMED = {
    "not a float": {REWARD_TXT: b"good"},
    "two floats": {REWARD_TXT: b"0.5 0.6"},
    "empty": {REWARD_TXT: b""},
    "nan": {REWARD_TXT: b"nan"},
    "infinity": {REWARD_TXT: b"inf"},
    "bytes": {REWARD_TXT: b"\xff\xfe\x00"},
    "huge": {REWARD_TXT: b"1" * 2_000_000},
    "not JSON": {REWARD_JSON: b"{reward: 1}"},
    "JSON of another kind": {REWARD_JSON: b"[1]"},
    "a text": {REWARD_JSON: b'{"reward": "1"}'},
    "a boolean": {REWARD_JSON: b'{"reward": true}'},
    "null": {REWARD_JSON: b'{"reward": null}'},
    "the key twice": {REWARD_JSON: b'{"reward": 0, "reward": 1}'},
    "no key": {REWARD_JSON: b'{"score": 1, "tests": 5}'},
    "deep": {REWARD_JSON: b'{"reward":' + b"[" * 5000 + b"]" * 5000 + b"}"},
}


@pytest.mark.parametrize("name", MALFORMED)
def test_invalid_json_or_float_formats_return_0(tmp_path, name):
    output = rollout(tmp_path, MALFORMED[name])
    assert (output["reward"], output["error"]) == (0.0, None)
    assert output["evaluation"].validity.errors
    assert not output["evaluation"].validity.verifier_completed
    assert record_of(output).outcome == "verifier_error"


COMPOSE = "services: {main: {}, db: {image: postgres}}"


@pytest.mark.parametrize(("unfit", "error"), [("refuse", "the service db"), ("run", None)])
def test_what_a_task_cannot_get_is_an_error_of_its_rollouts_unless_it_is_waived(tmp_path, unfit, error):
    tasks = make_tasks(tmp_path)
    task = next(path.parent for path in tasks.rglob("task.toml"))
    (task / "environment").mkdir(exist_ok=True)
    (task / "environment/docker-compose.yaml").write_text(COMPOSE)
    env = harbor_env(tasks, backend=world(verdict={REWARD_TXT: b"1"}))
    env.trial_options = env.trial_options.model_copy(update={"unfit": unfit})
    output = only(evaluate(env))
    assert (output["error"] is None) == (error is None)
    assert output["reward"] == (None if error else 1.0)
    assert error is None or error in output["error"]["message"]


@pytest.mark.parametrize("method", ["create", "put", "exec", "changes", "get"])
def test_infrastructure_errors_set_state_error_and_skip_scoring(tmp_path, method):
    judged = []

    class Watched(vf.HarborEnv):
        async def compute_reward(self, state):
            judged.append(await super().compute_reward(state))
            return judged[0]

        async def harbor_reward(self, state):
            raise AssertionError("it must not be scored")

    output = rollout(tmp_path, kind=Watched, fail_on={method: SandboxError("the machine is on fire")})
    assert (output["reward"], output["evaluation"]) == (None, None)
    assert (output["error"]["error"], output["error"]["kind"]) == ("SandboxError", "infrastructure")
    assert "on fire" in output["error"]["message"]
    assert judged in ([], [0.0])
    assert record_of(output).outcome == "infrastructure_error"


def test_an_error_of_the_machinery_while_verifying_is_no_reward_and_its_record_says_in_which_phase(tmp_path):
    class Breaking(vf.HarborEnv):
        async def compute_reward(self, state):
            raise HealthcheckError("the database is gone")

    output = rollout(tmp_path, kind=Breaking)
    assert (output["reward"], output["error"]["error"]) == (None, "HealthcheckError")
    assert record_of(output).failure.cause == "HealthcheckError"


def test_the_state_of_a_rollout_that_failed_has_the_float_0(tmp_path):
    states = []

    class Kept(vf.HarborEnv):
        @vf.cleanup(priority=-200)
        async def keep(self, state):
            states.append((state["reward"], type(state["error"])))

    rollout(tmp_path, kind=Kept, fail_on={"changes": SandboxError("gone")})
    assert states == [(0.0, SandboxError)]


def test_a_compute_reward_that_raises_is_a_logged_0_with_its_reason_in_the_evaluation(tmp_path, caplog):
    class Breaking(vf.HarborEnv):
        async def compute_reward(self, state):
            return 1 / 0

    output = rollout(tmp_path, kind=Breaking)
    assert (output["reward"], output["error"]) == (0.0, None)
    assert output["evaluation"].validity.errors == [
        "hook_error: compute_reward failed: ZeroDivisionError: division by zero"
    ]
    assert record_of(output).evaluation == output["evaluation"]
    assert "compute_reward failed" in caplog.text


@pytest.mark.parametrize("returned", [None, "high", float("nan")])
def test_a_compute_reward_that_returns_no_number_is_a_0_too(tmp_path, returned):
    class Odd(vf.HarborEnv):
        async def compute_reward(self, state):
            return returned

    output = rollout(tmp_path, kind=Odd)
    assert (output["reward"], output["error"]) == (0.0, None)
    assert output["evaluation"].validity.errors[0].startswith("hook_error: ")


def test_a_compute_reward_beyond_1_is_in_no_mean_and_the_evaluation_says_why(tmp_path):
    class Generous(vf.HarborEnv):
        async def compute_reward(self, state):
            return 7

    output = rollout(tmp_path, kind=Generous)
    (line,) = output["evaluation"].validity.errors
    assert line.startswith("hook_error: compute_reward returned 7.0; expected a number from 0 to 1")
    assert output["outcome"] == "verifier_error"


@pytest.mark.parametrize(
    ("hook", "given", "said"),
    [
        ("get_docker_image", 42, "get_docker_image failed: TypeError: it gave 42, expected the name of an image"),
        ("build_env_vars", None, "build_env_vars failed: TypeError: it gave None, expected a table of variables"),
        ("build_env_vars", {"N": 3}, "build_env_vars failed: TypeError: it gave 'N' the value 3, expected text"),
    ],
)
def test_what_a_hook_gives_in_vain_is_an_error_that_names_the_hook(tmp_path, hook, given, said):
    async def answer(self, state):
        return given

    error = rollout(tmp_path, kind=type("Odd", (vf.HarborEnv,), {hook: answer}))["error"]
    assert (error["message"], error["kind"]) == (said, "hook")


def test_a_hook_that_hangs_is_an_error_when_the_time_of_the_sandbox_is_up(tmp_path):
    class Hanging(vf.HarborEnv):
        async def post_sandbox_setup(self, state):
            await asyncio.Event().wait()

    env = harbor_env(make_tasks(tmp_path), Hanging, timeout_minutes=0.0005)
    error = only(evaluate(env))["error"]
    assert (error["message"], error["kind"]) == (
        "post_sandbox_setup has not ended within timeout_minutes=0.0005",
        "hook",
    )


def test_to_judge_before_the_agent_has_ended_is_an_error_that_says_so(tmp_path):
    class Early(vf.HarborEnv):
        async def post_sandbox_setup(self, state):
            await super().post_sandbox_setup(state)
            await self.compute_reward(state)

    error = rollout(tmp_path, kind=Early)["error"]
    assert error["kind"] == "hook"
    assert "it has not ended" in error["message"]


def test_a_task_without_tests_is_an_error_and_no_reward(tmp_path):
    folder = make_tasks(tmp_path)
    (folder / "task_1/tests/test.sh").unlink()
    (folder / "task_1/tests").rmdir()
    output = only(evaluate(harbor_env(folder)))
    assert (output["reward"], output["error"]["error"]) == (None, "VerifierStageError")


def test_an_image_that_cannot_be_had_is_an_error_that_names_the_ways_out(tmp_path):
    output = only(evaluate(harbor_env(make_tasks(tmp_path), image="auto", docker_image="nvidia/cuda:12")))
    assert (output["reward"], output["error"]["error"]) == (None, "HostUnsupportedError")
    for way in ("nvidia/cuda:12", "image_map", "image_fallback='host'", "image='host'"):
        assert way in output["error"]["message"]


def test_the_default_image_is_replaced_with_a_warning_and_the_record_says_so(tmp_path, caplog):
    output = only(evaluate(harbor_env(make_tasks(tmp_path), image="auto")))
    assert (output["docker_image"], output["image_used"]) == ("python:3.11-slim", "host")
    assert (record_of(output).sandbox.image_asked, record_of(output).sandbox.image) == (
        "python:3.11-slim",
        "host",
    )
    assert "the image python:3.11-slim is not here: rollouts run on this machine's own system (host)" in caplog.text


def test_the_state_keys_harbor_config_harbor_task_dir_and_reward(tmp_path):
    states = []

    class Kept(vf.HarborEnv):
        async def post_rollout(self, state):
            await super().post_rollout(state)
            states.append(dict(state))

    folder = make_tasks(tmp_path, toml="[agent]\ntimeout_sec = 5\n")
    only(evaluate(harbor_env(folder, Kept, backend=world(verdict={REWARD_TXT: b"0.5"}))))
    (state,) = states
    assert state["harbor_config"]["agent"] == {"timeout_sec": 5}  # the parsed task.toml
    assert state["harbor_task_dir"] == str(folder / "task_1")  # the local path of the task directory
    assert (state["reward"], type(state["reward"])) == (0.5, float)  # the reward of test execution


def test_the_state_keys_are_there_before_the_hooks_run(tmp_path):
    seen = []

    class Early(vf.HarborEnv):
        async def post_sandbox_setup(self, state):
            await super().post_sandbox_setup(state)
            seen.append((state["harbor_task_dir"], "environment" in state["harbor_config"], state["sandbox_id"]))

    output = rollout(tmp_path, kind=Early)
    assert seen == [(str(tmp_path / "task_1"), True, output["sandbox_id"])]


def test_what_an_agent_asked_is_kept_with_its_record(tmp_path):
    async def agent(spec, sandbox):
        await ask(spec, "hello")

    folder = make_tasks(tmp_path / "tasks")
    evaluate(harbor_env(folder, backend=world(agent)), save_to=tmp_path / "job")
    trial = tmp_path / "job/trials/task_1.command.1"
    assert b"hello" in (trial / "calls.jsonl").read_bytes()
    assert (trial / "record.json").exists()
