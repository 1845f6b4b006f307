"""Verifiers that hang, crash, write garbage or far too much: what is kept, and that none of it is a reward."""

import pytest

import seatrial.verify.stage as verify_run
from tests.conftest import sampled
from tests.sandbox.embedded.support import needs_root
from tests.trial.support import ANSWER, Desk, Ran

pytestmark = needs_root

REWARD = "/logs/verifier/reward.txt"
NO_NETWORK = '[environment]\nnetwork_mode = "no-network"\n'


def judge(desk: Desk, script: str, toml: str = NO_NETWORK, **options: float) -> Ran:
    return desk.attack(
        f"echo right > {ANSWER}", files={"tests/test.sh": f"#!/bin/sh\n{script}\n"}, toml=toml, **options
    )


@pytest.mark.whole
def test_a_verifier_that_hangs_gives_no_verdict_even_if_it_had_written_one(desk):
    ran = judge(
        desk, f"echo 1 > {REWARD}; setsid sleep 1000 & sleep 1000", f"{NO_NETWORK}[verifier]\ntimeout_sec = 1.0\n"
    )
    assert (ran.record.outcome, ran.reward) == ("verifier_error", 0.0)
    assert (ran.run.timed_out, ran.run.exit_code) == (True, None)
    assert any("reward.txt said 1.0 by then" in line for line in ran.evaluation.validity.errors)
    assert ran.provenance.reward_file is None


def test_the_times_of_a_task_are_multiplied(desk):
    toml = f"{NO_NETWORK}[agent]\ntimeout_sec = 200.0\n[verifier]\ntimeout_sec = 200.0\n"
    ran = desk.attack(
        "sleep 1000", files={"tests/test.sh": "#!/bin/sh\nsleep 1000\n"}, toml=toml,
        agent_timeout_multiplier=0.002, verifier_timeout_multiplier=0.001,
    )  # fmt: skip
    assert (ran.agent.status, ran.run.timed_out) == ("timed_out", True)
    assert 0.4 <= ran.agent.duration_sec < 200
    assert 0.2 <= ran.run.duration_sec < 200


def test_without_a_time_the_agent_may_take_any(desk):
    assert desk.attack(f"sleep 0.1; echo right > {ANSWER}").agent.status == "exited"


def test_a_verifier_that_crashes_has_not_judged(desk):
    ran = judge(desk, "echo half a word; echo oh dear >&2; kill -SEGV $$")
    assert (ran.record.outcome, ran.reward) == ("verifier_error", 0.0)
    assert ran.run.exit_code not in (0, None)
    assert ran.text("verifier/stdout.txt") == "half a word\n"
    assert "oh dear" in ran.text("verifier/stderr.txt")


def test_an_exit_code_beside_a_reward_is_only_noted(desk):
    ran = judge(desk, f"echo 0.5 > {REWARD}; exit 3")
    assert (ran.record.outcome, ran.reward, ran.run.exit_code) == ("partial", 0.5, 3)


@pytest.mark.parametrize(
    "script",
    sampled(
        [
            f"echo many > {REWARD}",
            f"head -c 1000 /dev/urandom > {REWARD}",
            f"mkdir {REWARD}",
            f"ln -s /tests/one {REWARD}; echo 1 > /tests/one",
            f"mkfifo {REWARD}",
            f"truncate -s 2G {REWARD}",
            f"echo 2 > {REWARD}",
            "true",
            "exit 1",
        ]
    ),
)
def test_garbage_is_no_reward(desk, script):
    ran = judge(desk, script)
    assert (ran.record.outcome, ran.reward) == ("verifier_error", 0.0)
    assert ran.evaluation.validity.errors


def test_logs_beyond_all_measure_are_left_behind_and_the_verdict_is_not(desk, monkeypatch):
    monkeypatch.setattr(verify_run, "MAX_LOG_BYTES", 2**20)
    ran = judge(
        desk,
        f"head -c 3000000 /dev/zero > /logs/verifier/big; echo 1 > {REWARD}; echo '{{}}' > /logs/verifier/ctrf.json",
    )
    assert ran.reward == 1.0
    assert {path.name for path in (ran.folder / "verifier/files").iterdir()} == {"reward.txt", "ctrf.json"}


def test_a_declared_name_is_found_among_too_many_logs_as_well(desk, monkeypatch):
    monkeypatch.setattr(verify_run, "MAX_LOG_BYTES", 2**20)
    toml = f'{NO_NETWORK}[verifier]\nreward_path = "/logs/verifier/score.json"\n'
    script = "head -c 3000000 /dev/zero > /logs/verifier/big; echo '{\"reward\": 1}' > /logs/verifier/score.json"
    assert judge(desk, script, toml).reward == 1.0


def test_logs_with_names_too_long_for_this_machine_do_not_hide_the_verdict(desk):
    nest = "cd /logs/verifier; for _ in $(seq 40); do n=$(printf 'd%.0s' $(seq 200)); mkdir $n; cd $n; done; echo x > f"
    assert judge(desk, f"{nest}; echo 1 > {REWARD}").reward == 1.0


@pytest.mark.whole
def test_a_verifier_that_fills_its_logs_to_the_brim_stays_within_bounds(desk):
    """It has a file system of its own there, which is small enough for everybody else."""
    ran = judge(
        desk,
        "cd /logs/verifier; head -c 3G /dev/zero > big; said=$?; rm big; echo $said > reward.txt",
    )
    assert ran.text("verifier/files/reward.txt") == "1\n"


def test_endless_output_is_cut(desk):
    ran = judge(desk, f"echo 1 > {REWARD}; head -c 20000000 /dev/zero; head -c 20000000 /dev/zero >&2")
    assert ran.reward == 1.0
    assert ran.run.truncated
    assert (ran.folder / "verifier/stdout.txt").stat().st_size == 16 * 2**20
    assert (ran.folder / "verifier/stderr.txt").stat().st_size == 16 * 2**20


def test_what_a_verifier_leaves_running_is_waited_for_by_nobody(desk):
    ran = judge(desk, f"echo 1 > {REWARD}; sleep 1000 & setsid sleep 1000 &")
    assert (ran.reward, ran.run.exit_code) == (1.0, 0)


def test_a_script_without_interpreter_or_rights_runs_all_the_same(desk):
    ran = desk.attack(f"echo x > {ANSWER}", files={"tests/test.sh": f"echo 1 > {REWARD}\n"})
    assert ran.reward == 1.0


def test_a_task_without_tests_cannot_be_judged(desk, tmp_path):
    root = desk.new_folder() / "task"
    root.mkdir()
    (root / "task.toml").write_text(NO_NETWORK)
    (root / "instruction.md").write_text("Do it.\n")
    ran = desk.run(root, "true")
    assert (ran.failure.phase, ran.failure.cause, ran.failure.retryable) == ("verify", "VerifierStageError", False)
