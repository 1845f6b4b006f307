"""What a task asks for around its agent: health, users, files, variables, limits."""

import os
import pwd
from typing import Any

import pytest

from seatrial.model.base import to_json
from seatrial.model.job import AgentOptions
from tests.sandbox.embedded.support import needs_root
from tests.trial.support import ANSWER, Desk, Ran, trial_spec, write_task

pytestmark = needs_root

BASE = '[environment]\nnetwork_mode = "no-network"\n'
SAY_ENV = "#!/bin/sh\nenv > /logs/verifier/env.txt\necho 1 > /logs/verifier/reward.txt\n"


def healthcheck(command: str, **settings: float) -> str:
    lines = [f"{key} = {value}" for key, value in {"interval_sec": 0.0, "retries": 3, **settings}.items()]
    return "\n".join([BASE, "[environment.healthcheck]", f"command = '''{command}'''", *lines, ""])


def variables(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def test_an_agent_starts_once_its_surroundings_are_healthy(desk):
    """The third probe finds what the first two have made."""
    probe = "echo x >> /app/probes; [ $(wc -l < /app/probes) -ge 3 ]"
    ran = desk.attack(f"cat /app/probes; echo right > {ANSWER}", toml=healthcheck(probe))
    assert ran.text("agent/stdout.txt") == "x\n" * 3
    assert (ran.reward, ran.changes.added) == (1.0, (ANSWER,))


def test_a_sick_environment_fails_the_trial_and_not_the_agent(desk):
    ran = desk.attack("true", toml=healthcheck("echo not yet >&2; exit 7"))
    assert (ran.failure.phase, ran.failure.cause, ran.failure.retryable) == ("setup", "HealthcheckError", True)
    assert "failed 3 times, last with exit code 7: not yet" in ran.failure.message
    assert ran.record.agent_result is None


def test_a_probe_that_hangs_is_not_tried_again(desk):
    probe = "echo x >> /app/probes; [ $(wc -l < /app/probes) -ge 2 ] || sleep 1000"
    ran = desk.attack("true", toml=healthcheck(probe, timeout_sec=0.3))
    assert "did not answer within 0.3 s" in ran.failure.message


def test_failures_of_the_start_period_do_not_count(desk):
    probe = "echo x >> /app/probes; [ $(wc -l < /app/probes) -ge 6 ]"
    ran = desk.attack("cat /app/probes", toml=healthcheck(probe, start_period_sec=600.0, start_interval_sec=0.0))
    assert ran.text("agent/stdout.txt") == "x\n" * 6


@pytest.mark.parametrize("table", ["agent", "verifier"])
def test_a_user_the_image_does_not_have_is_refused(desk, table):
    ran = desk.attack("true", toml=f'{BASE}[{table}]\nuser = "nobody-of-that-name"\n')
    assert (ran.failure.phase, ran.failure.cause, ran.failure.retryable) == ("setup", "AgentSetupError", False)
    assert "nobody-of-that-name" in ran.failure.message


def test_a_user_of_a_later_step_is_looked_for_before_the_first(desk):
    step = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n[steps.agent]\nuser = "nobody-of-that-name"\n'
    files = {f"steps/{name}/instruction.md": "Do it.\n" for name in ("one", "two")}
    ran = desk.attack("true", toml=BASE + step, files=files)
    assert (ran.failure.phase, ran.failure.cause) == ("setup", "AgentSetupError")


def test_agent_and_verifier_run_as_the_users_they_are_given(desk):
    toml = f'{BASE}[agent]\nuser = "nobody"\n[verifier]\nuser = "daemon"\n'
    files = {"tests/test.sh": "#!/bin/sh\nid -un > /logs/verifier/who.txt\n"}
    ran = desk.attack("id -un", toml=toml, files=files)
    assert ran.text("agent/stdout.txt") == "nobody\n"
    assert ran.text("verifier/files/who.txt") == "daemon\n"


def test_a_user_by_number_needs_no_name(desk):
    uid = pwd.getpwnam("nobody").pw_uid
    assert desk.attack("id -u", toml=f"{BASE}[agent]\nuser = {uid}\n").text("agent/stdout.txt") == f"{uid}\n"


def test_working_directories_and_files_of_the_environment(desk):
    toml = f'{BASE}workdir = "/srv/work"\n[verifier]\nworkdir = "/tests"\n'
    files = {
        "environment/data/in.csv": "a,b\n",
        "environment/run.sh": "echo ran\n",
        "environment/docker-compose.yaml": "services: {}\n",
        "tests/test.sh": "#!/bin/sh\npwd > /logs/verifier/where.txt\n",
    }
    ran = desk.attack("pwd; find . -type f | sort; ./run.sh; echo $AGENT_WORKDIR", toml=toml, files=files)
    lines = ran.text("agent/stdout.txt").split()
    assert lines == ["/srv/work", "./data/in.csv", "./run.sh", "ran", "/srv/work"]
    assert ran.text("verifier/files/where.txt") == "/tests\n"
    assert ran.changes.added == ()


def test_documented_variables_of_an_agent(desk, tmp_path):
    root = write_task(tmp_path / "my-task")
    agent = AgentOptions(name="command", command="env", model="some/model", env={"EXTRA": "x"})
    found = variables(desk.run_spec(trial_spec(root, agent)).text("agent/stdout.txt"))
    expected = {
        "HARBOR_TASK_NAME": "my-task",
        "HARBOR_TASK_DIR": "/task",
        "HARBOR_INSTRUCTION_PATH": "/task/instruction.md",
        "AGENT_WORKDIR": "/app",
        "OPENAI_MODEL": "some/model",
        "EXTRA": "x",
    }
    assert {key: found.get(key) for key in expected} == expected


def run_with_env(desk: Desk, **options: Any) -> Ran:
    toml = (
        f"{BASE}[environment.env]\nALL = 'yes'\nFROM_HOST = '${{SEATRIAL_TEST_A}}'\n"
        "[verifier.env]\nJUDGE = '${SEATRIAL_TEST_B:-default}'\n[solution.env]\nKEY = '${SEATRIAL_TEST_A}'\n"
    )
    files = {"tests/test.sh": SAY_ENV, "solution/solve.sh": f"#!/bin/sh\nenv; echo right > {ANSWER}\n"}
    return desk.run(write_task(desk.new_folder() / "task", toml=toml, files=files), "oracle", **options)


def test_variables_of_the_task_reach_whom_they_are_for(desk, monkeypatch):
    monkeypatch.setenv("SEATRIAL_TEST_A", "secret of the host")
    ran = run_with_env(desk, allow_env=("SEATRIAL_TEST_A",))
    agent, judge = variables(ran.text("agent/stdout.txt")), variables(ran.text("verifier/files/env.txt"))
    both = {"ALL": "yes", "FROM_HOST": "secret of the host"}
    assert both.items() <= agent.items()
    assert both.items() <= judge.items()
    assert (agent["KEY"], "KEY" in judge) == ("secret of the host", False)
    assert (judge["JUDGE"], "JUDGE" in agent) == ("default", False)
    assert "secret of the host" not in to_json(ran.record).decode()


def test_variables_that_nobody_allowed_reach_no_task(desk, monkeypatch):
    monkeypatch.setenv("SEATRIAL_TEST_A", "secret of the host")
    ran = run_with_env(desk)
    assert (ran.failure.phase, ran.failure.cause) == ("setup", "UsageError")
    assert "not allowed: SEATRIAL_TEST_A; allow them by name" in ran.failure.message
    monkeypatch.setenv("SEATRIAL_TEST_B", "another secret")
    judge = variables(run_with_env(desk, allow_env=("SEATRIAL_TEST_A",)).text("verifier/files/env.txt"))
    assert judge["JUDGE"] == "default"


def test_variables_that_the_host_does_not_have_are_named_before_anything_starts(desk, monkeypatch):
    monkeypatch.delenv("SEATRIAL_TEST_A", raising=False)
    ran = run_with_env(desk)
    assert (ran.failure.phase, ran.failure.cause, ran.failure.retryable) == ("setup", "UsageError", False)
    assert "SEATRIAL_TEST_A" in ran.failure.message


def test_nothing_of_our_own_environment_is_inherited(desk, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/app")
    monkeypatch.setenv("SEATRIAL_TEST_A", "ours")
    ran = desk.attack("env", files={"tests/test.sh": SAY_ENV})
    for text in (ran.text("agent/stdout.txt"), ran.text("verifier/files/env.txt")):
        assert not variables(text).keys() & {"PYTHONPATH", "SEATRIAL_TEST_A", "PYTHONSTARTUP", "BASH_ENV", "ENV"}
    assert os.environ["SEATRIAL_TEST_A"] == "ours"


def test_limits_are_set_and_recorded(desk):
    ran = desk.attack("true", toml=f"{BASE}cpus = 0.5\nmemory_mb = 128\nstorage_mb = 64\n")
    asked, enforced = ran.record.sandbox.limits_asked, ran.record.sandbox.limits_enforced
    assert (asked.cpus, asked.memory_mb, asked.storage_mb, asked.pids) == (0.5, 128, 64, None)
    assert (enforced.cpus, enforced.memory_mb, enforced.storage_mb) == (0.5, 128, 64)
    assert enforced.pids


@pytest.mark.parametrize("wish", ["gpus = 1", 'os = "windows"'])
def test_what_no_sandbox_here_has_is_refused(desk, wish):
    toml = f"{BASE}{wish}\n"
    files = {"tests/test.bat": ""}
    ran = desk.attack("true", toml=toml, files=files)
    assert (ran.failure.phase, ran.failure.cause) == ("setup", "HostUnsupportedError")


COMPOSE = {"environment/docker-compose.yaml": "services: {main: {}, db: {image: postgres}}"}


def test_a_service_that_nobody_starts_is_refused_before_an_image_is_looked_for(desk):
    ran = desk.attack("true", toml=f'{BASE}docker_image = "nowhere.invalid/none:1"\n', files=COMPOSE)
    assert ran.failure.cause == "HostUnsupportedError"
    assert "asks for what no sandbox here has: the service db (environment/docker-compose.yaml)" in ran.failure.message
    assert "--force" in ran.failure.message


def test_a_run_may_do_without_all_but_windows(desk):
    toml = f'{BASE}gpus = 1\nmcp_servers = [{{name = "a"}}]\n'
    assert desk.attack("true", toml=toml, files=COMPOSE, unfit="run").record.evaluation is not None
    assert desk.attack("true", toml=toml, files=COMPOSE, enforcement="partial").failure.message.count("service") == 1
    windows = desk.attack("true", toml=f'{BASE}os = "windows"\n', files={"tests/test.bat": ""}, unfit="run")
    assert "Windows (environment.os)" in windows.failure.message
