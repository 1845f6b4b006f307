"""Tasks with steps: one sandbox, a round for each step, and nothing of an earlier verification in the next round."""

import pytest

from tests.conftest import sampled
from tests.sandbox.embedded.support import needs_python, needs_root
from tests.trial.support import Desk, Ran, python_command, write_task
from tests.trial.test_staging import SEARCH
from tests.trial.test_survivors import LEAVE_BEHIND, SERVICE

pytestmark = [needs_root, needs_python]

BASE = '[environment]\nnetwork_mode = "no-network"\n'
# Root tests serve all steps; a step's own lie over them.
ROOT_TEST = "#!/bin/sh\n. /tests/reward.sh\n"
# The agent's reward is whatever it wrote for the step, so that a test can choose.
GIVE = "cat /app/$STEP > /logs/verifier/reward.json\n"
WRITE = """
step=$(cat /task/instruction.md)
case $step in one) echo '{first}';; two) echo '{second}';; esac > /app/$step
echo "worked on $step"
"""


def steps_toml(first: str = "", second: str = "", strategy: str = "mean") -> str:
    return "\n".join([
        f'multi_step_reward_strategy = "{strategy}"', BASE,
        '[[steps]]\nname = "one"', first, '[steps.verifier.env]\nSTEP = "one"',
        '[[steps]]\nname = "two"', second, '[steps.verifier.env]\nSTEP = "two"', "",
    ])  # fmt: skip


def run_steps(desk: Desk, command: str, toml: str | None = None, files: dict[str, str] | None = None) -> Ran:
    contents = {
        "tests/test.sh": ROOT_TEST,
        "tests/reward.sh": "echo 0.25 > /logs/verifier/reward.txt\n",
        "steps/one/instruction.md": "one",
        "steps/two/instruction.md": "two",
        "steps/one/tests/reward.sh": GIVE,
        "steps/two/tests/reward.sh": GIVE,
    }
    root = write_task(
        desk.new_folder() / "task", toml=toml or steps_toml(), files={**contents, **(files or {})}, instruction=None
    )
    return desk.run(root, command)


def played(ran: Ran) -> list[str]:
    return [step.name for step in ran.record.steps]


@pytest.mark.parametrize(("strategy", "reward"), [("mean", 0.75), ("final", 1.0)])
def test_steps_make_one_reward(desk, strategy, reward):
    command = WRITE.format(first='{"reward": 0.5}', second='{"reward": 1}')
    ran = run_steps(desk, command, steps_toml(strategy=strategy))
    assert ran.reward == reward
    assert ran.evaluation.breakdown == {"steps": {"one": {"reward": 0.5}, "two": {"reward": 1.0}}}
    assert played(ran) == ["one", "two"]
    assert ran.text("steps/one/agent/stdout.txt") == "worked on one\n"
    assert ran.text("steps/two/verifier/files/reward.json") == '{"reward": 1}\n'
    assert ran.changes.added == ("/app/one", "/app/two")


def test_tests_of_a_step_lie_over_those_of_the_task(desk):
    ran = run_steps(desk, WRITE.format(first='{"reward": 1}', second=""), files={"steps/two/tests/reward.sh": "true\n"})
    assert [step.evaluation.reward for step in ran.record.steps if step.evaluation] == [1.0, 0.0]
    digests = {step.provenance.tests_digest for step in ran.record.steps if step.provenance}
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("minimum", "first", "expected"),
    sampled(
        [
            ("min_reward = 0.5", '{"reward": 0.4}', ["one"]),
            ("min_reward = 0.5", '{"reward": 0.5}', ["one", "two"]),
            ("min_reward = 0.0", "garbage", ["one"]),
            ("min_reward = {speed = 0.5}", '{"reward": 1, "speed": 0.4}', ["one"]),
            ("min_reward = {speed = 0.5, reward = 0.1}", '{"reward": 0.2, "speed": 0.6}', ["one", "two"]),
            ("min_reward = {missing = 0.0}", '{"reward": 1}', ["one"]),
            ("", '{"reward": 0}', ["one", "two"]),
        ]
    ),
)
def test_a_step_that_is_not_good_enough_is_the_last(desk, minimum, first, expected):
    ran = run_steps(desk, WRITE.format(first=first, second='{"reward": 1}'), steps_toml(minimum))
    assert played(ran) == expected


def test_nothing_of_the_first_verification_is_left_for_the_second_agent(desk):
    judge = 'echo \'{"reward": 1, "zebra-in-reward": 1}\' > /logs/verifier/reward.json; echo zebra-in-output\n'
    marked = {"steps/one/tests/secret.txt": "zebra-in-tests", "steps/one/tests/reward.sh": judge}
    command = WRITE.format(first="", second='{"reward": 1}')
    command += f"[ $step = one ] || {{ ls -d /tests; ls /logs/verifier\n{python_command(SEARCH)}\n}}"
    ran = run_steps(desk, command, files=marked)
    assert ran.text("steps/two/agent/stdout.txt") == "worked on two\nlooked at True\n"
    assert ran.reward == 1.0


def test_nothing_of_the_first_verification_is_left_for_the_second(desk):
    leave = "touch /tests/left /logs/verifier/left; setsid sleep 1000 &\n"
    look = "ls /tests/left /logs/verifier/left; pgrep -x sleep\n"
    files = {"steps/one/tests/reward.sh": leave + GIVE, "steps/two/tests/reward.sh": look + GIVE}
    ran = run_steps(desk, WRITE.format(first='{"reward": 1}', second='{"reward": 1}'), files=files)
    assert ran.reward == 1.0
    assert ran.text("steps/two/verifier/stdout.txt") == ""


def test_a_service_of_the_first_step_is_there_in_the_second(desk):
    service = python_command(f"{LEAVE_BEHIND}\n{SERVICE}")
    fetch = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8765/\").read().decode())'"
    command = WRITE.format(first='{"reward": 1}', second='{"reward": 1}')
    ran = run_steps(desk, f"{command}\nif [ $step = one ]; then {service}\nelse {fetch}; fi")
    assert ran.text("steps/two/agent/stdout.txt") == "worked on two\nright\n"
    assert [step.verifier_run.survivors for step in ran.record.steps if step.verifier_run] == [("python3",)] * 2


# Waits for the verifier of the first step, plants a program for the next one's, and is gone before anybody looks again.
PLANT_LATE = """(setsid sh -c 'while [ ! -e /app/go ]; do sleep 0.01; done
printf "#!/bin/sh\\nexit 0\\n" > /usr/local/bin/grep; chmod 755 /usr/local/bin/grep
touch /app/planted' >/dev/null 2>&1 &)"""


def test_what_is_planted_while_one_step_is_judged_the_verifier_of_the_next_does_not_meet(desk):
    judge_one = "touch /app/go; while [ ! -e /app/planted ]; do sleep 0.01; done\n" + GIVE
    judge_two = "if grep -qx right /app/two; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"
    files = {"steps/one/tests/reward.sh": judge_one, "steps/two/tests/reward.sh": judge_two}
    command = WRITE.format(first='{"reward": 1}', second="wrong")
    ran = run_steps(desk, f"{command}\nif [ $step = one ]; then {PLANT_LATE}; fi", files=files)
    rewards = [step.evaluation.reward for step in ran.record.steps if step.evaluation]
    assert rewards == [1.0, 0.0]
    second = ran.record.steps[1].verifier_run
    assert second is not None
    assert "/usr/local/bin/grep" in (*second.restored, *second.hidden)


def test_files_and_set_up_of_a_step(desk):
    files = {"steps/two/workdir/in.txt": "data", "steps/two/workdir/setup.sh": "echo made > made.txt\n"}
    command = WRITE.format(first='{"reward": 1}', second='{"reward": 1}') + "cat in.txt made.txt"
    ran = run_steps(desk, command, files=files)
    assert ran.text("steps/two/agent/stdout.txt") == "worked on two\ndatamade\n"
    assert ran.text("steps/one/agent/stdout.txt") == "worked on one\n"


def test_a_set_up_that_fails_is_no_fault_of_the_agent(desk):
    files = {"steps/two/workdir/setup.sh": "echo no luck >&2; exit 4\n"}
    ran = run_steps(desk, WRITE.format(first='{"reward": 1}', second=""), files=files)
    assert (ran.failure.phase, ran.failure.cause) == ("setup", "AgentSetupError")
    assert "ended with 4: no luck" in ran.failure.message
    assert played(ran) == ["one", "two"]


def test_health_of_the_environment_is_checked_before_the_first_step_only(desk):
    check = '[environment.healthcheck]\ncommand = "echo x >> /app/probes"\n'
    ran = run_steps(
        desk, f"{WRITE.format(first='0', second='0')}cat /app/probes", steps_toml().replace(BASE, BASE + check)
    )
    assert ran.text("steps/two/agent/stdout.txt") == "worked on two\nx\n"


def test_artifacts_of_steps_are_listed(desk):
    command = WRITE.format(first="1", second="1") + "echo $step > /logs/artifacts/$step.txt"
    ran = run_steps(desk, command)
    assert {artifact.path for artifact in ran.record.artifacts} >= {
        "steps/one/artifacts/logs/artifacts/one.txt",
        "steps/two/artifacts/logs/artifacts/two.txt",
    }


def test_every_phase_of_every_step_has_its_time(desk):
    ran = run_steps(desk, WRITE.format(first='{"reward": 1}', second='{"reward": 1}'))
    phases = ["setup", "agent", "collect", "verify", "score"]
    assert [(time.step, time.phase) for time in ran.record.times] == [
        (None, "setup"), *(("one", phase) for phase in phases), *(("two", phase) for phase in phases)
    ]  # fmt: skip


@pytest.mark.parametrize("trap", sampled(["ln -s /app /task", "echo x > /task"]), ids=["link", "file"])
def test_what_an_agent_puts_in_the_way_of_the_next_instruction_gives_way(desk, trap):
    command = f'{WRITE.format(first=0.5, second=1.0)}\nif [ "$step" = one ]; then rm -rf /task; {trap}; fi'
    ran = run_steps(desk, command)
    assert [step.evaluation and step.evaluation.reward for step in ran.record.steps] == [0.5, 1.0]
