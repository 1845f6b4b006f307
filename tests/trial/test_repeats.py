"""`verify_repeats`: the same end state judged again and again, each time as the agent left it where that can be had."""

import asyncio

import pytest

from seatrial.model.evaluation import NONDETERMINISTIC
from seatrial.sandbox.local import LocalBackend
from seatrial.trial.run import run_trial
from seatrial.trial.spec import Machinery
from tests.trial.support import ANSWER, SHELL_TEST, Desk, trial_spec, write_task

# The first time it meets its own mark nowhere; it spoils the answer for whoever judges the same files again.
SPOILS = f"{SHELL_TEST}\necho judged; echo spoiled > {ANSWER}\n"
ROLLS_DICE = """#!/bin/sh
n=$(od -An -N4 -tu4 /dev/urandom); echo "0.$((n % 100000000 + 100000000))" > /logs/verifier/reward.txt
"""


def test_each_repeat_meets_the_end_state_as_the_agent_left_it(desk: Desk):
    ran = desk.attack(f"echo right > {ANSWER}", files={"tests/test.sh": SPOILS}, verify_repeats=3, keep="record")
    assert (ran.reward, ran.run.repeats, ran.run.repeated_in) == (1.0, (1.0, 1.0, 1.0), "fresh")
    assert ran.evaluation.confidence is not None
    assert (ran.evaluation.confidence.verifier_repeats, ran.evaluation.confidence.verifier_reward_sd) == (3, 0.0)
    assert NONDETERMINISTIC not in ran.tags
    assert [ran.text(f"verifier/{name}stdout.txt") for name in ("", "repeat-2/", "repeat-3/")] == ["judged\n"] * 3
    left = sorted(path.name for path in ran.folder.iterdir())
    assert not [name for name in left if name.startswith((".repeat", "snapshot"))], left


def test_processes_that_run_on_have_all_repeats_in_one_sandbox_which_is_said(desk: Desk):
    ran = desk.attack(f"echo right > {ANSWER}; sleep 600 &", files={"tests/test.sh": SPOILS}, verify_repeats=2)
    assert (ran.reward, ran.run.repeats, ran.run.repeated_in) == (0.0, (1.0, 0.0), "same")
    assert NONDETERMINISTIC in ran.tags
    assert [line for line in ran.evaluation.validity.errors if "in the same sandbox" in line]
    assert ran.run.stdout_path == "verifier/repeat-2/stdout.txt"


def test_the_lowest_of_differing_rewards_counts_with_its_own_evidence(desk: Desk):
    ran = desk.attack("true", files={"tests/test.sh": ROLLS_DICE}, verify_repeats=4, keep="snapshot")
    rewards = [reward for reward in ran.run.repeats if reward is not None]
    assert len(set(rewards)) > 1
    assert ran.reward == min(rewards)
    number = rewards.index(ran.reward) + 1
    where = "verifier" if number == 1 else f"verifier/repeat-{number}"
    assert float(ran.text(f"{where}/files/reward.txt")) == ran.reward
    assert ran.run.stdout_path == f"{where}/stdout.txt"
    assert (ran.folder / "snapshot.tar.zst").is_file()


STEPS = '[environment]\nnetwork_mode = "no-network"\n[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
STEP_FILES = {
    "tests/test.sh": SPOILS,
    "steps/one/instruction.md": "one",
    "steps/two/instruction.md": "two",
}


def test_every_step_is_judged_again_by_itself(desk: Desk):
    ran = desk.attack(f"echo right > {ANSWER}", toml=STEPS, files=STEP_FILES, verify_repeats=2)
    runs = [step.verifier_run for step in ran.record.steps]
    assert [run.repeats for run in runs if run] == [(1.0, 1.0), (1.0, 1.0)]
    assert ran.text("steps/two/verifier/repeat-2/stdout.txt") == "judged\n"
    assert ran.evaluation.confidence is not None
    assert ran.evaluation.confidence.verifier_repeats == 2


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_verifier_that_never_speaks_is_asked_for_its_baseline_all_the_same(desk: Desk, repeats: int):
    ran = desk.attack("true", files={"tests/test.sh": "#!/bin/sh\nexit 0\n"}, verify_repeats=repeats)
    assert ran.record.outcome == "verifier_error"
    assert ran.run.repeats == (() if repeats == 1 else (None, None))


@pytest.mark.filterwarnings("ignore::seatrial.sandbox.local.UnisolatedWarning")
def test_a_backend_that_shares_the_files_of_this_machine_repeats_in_place(tmp_path):
    speaks = '#!/bin/sh\necho 1 > "$SANDBOX_ROOT/logs/verifier/reward.txt"\n'
    root = write_task(tmp_path / "task", files={"tests/test.sh": speaks})
    spec = trial_spec(root, "true", enforcement="partial", backend="local", verify_repeats=2)

    async def run():
        async with LocalBackend() as backend:
            return await run_trial(spec, Machinery(backend), tmp_path)

    record = asyncio.run(run())
    assert record.verifier_run is not None
    assert (record.verifier_run.repeats, record.verifier_run.repeated_in) == ((1.0, 1.0), "same")
