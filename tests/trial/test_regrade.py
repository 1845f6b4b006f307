"""Stored trials judged again: by the same steps as a trial, from files alone, and never where that would be unfair."""

from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.errors import UsageError
from seatrial.model.record import Failure, TrialRecord
from seatrial.trial.regrade import RegradeSpec, regrade_trial
from seatrial.trial.repeats import KeptTrial
from seatrial.trial.spec import Machinery, TrialSpec
from tests.sandbox.embedded.support import needs_root
from tests.trial.support import ANSWER, Desk, Ran, trial_spec, write_task
from tests.trial.test_steps import WRITE, steps_toml

pytestmark = needs_root
HALF = "#!/bin/sh\necho 0.5 > /logs/verifier/reward.txt\n"
SILENT = f"#!/bin/sh\n[ -f {ANSWER} ] || echo 0 > /logs/verifier/reward.txt\n"
DONE = f"echo right > {ANSWER}"


def again(desk: Desk, spec: TrialSpec, ran: Ran, **changes) -> Ran:
    """Judge a stored trial again; its task may have changed."""
    folder = desk.new_folder()
    regrade = RegradeSpec("r1", KeptTrial(ran.record, ran.folder), ran.record.trial_id, 1, spec)
    record = desk.wait(regrade_trial(replace(regrade, **changes), Machinery(desk.backend), folder))
    return Ran(record, folder)


def kept(desk: Desk, command: str, isolation: str = "guarded", **task) -> tuple[Path, Ran]:
    """A task and a trial of it whose end state was kept."""
    root = write_task(desk.new_folder() / "task", **task)
    return root, desk.run_spec(trial_spec(root, command, keep="snapshot", isolation=isolation))


def of_the_verifier(record: TrialRecord) -> TrialRecord:
    """A record without what a verifier's run brings along each time: times and the numbers of revisions."""
    each_time = {"duration_sec": 0.0, "cpu_sec": None, "cpu_wait_sec": None}
    run = record.verifier_run.model_copy(update=each_time) if record.verifier_run else None
    return record.model_copy(update={"verifier_run": run, "revision": 0, "parent": None, "regrade": None})


def test_the_same_tests_give_the_same_record_but_for_how_it_came_about(desk):
    root, ran = kept(desk, DONE)
    judged = again(desk, trial_spec(root, "never run"), ran)
    assert of_the_verifier(judged.record) == of_the_verifier(ran.record)
    record = judged.record
    assert (record.revision, record.parent) == (1, ran.record.trial_id)
    assert record.regrade
    assert (record.regrade.first.outcome, record.regrade.first.reward) == ("pass", 1.0)
    assert judged.text("verifier/files/reward.txt") == "1\n"


def test_tests_from_elsewhere_are_run_in_place_of_the_tasks_own(desk, tmp_path):
    root, ran = kept(desk, DONE)
    (tmp_path / "test.sh").write_text(HALF)
    judged = again(desk, trial_spec(root, "never run"), ran, given={None: (tmp_path,)}, tests=str(tmp_path))
    assert (judged.reward, judged.record.outcome) == (0.5, "partial")
    assert judged.provenance.tests_digest != ran.provenance.tests_digest
    assert judged.record.task.digest == ran.record.task.digest


def test_a_verifier_that_falls_silent_is_asked_about_the_untouched_environment(desk):
    root, ran = kept(desk, DONE)
    write_task(root, files={"tests/test.sh": SILENT})
    judged = again(desk, trial_spec(root, "never run"), ran)
    assert (ran.reward, judged.reward, judged.run.baseline) == (1.0, 0.0, "judged")
    assert "verifier_silenced" in judged.tags


FORGED = "printf '#!/bin/sh\\nexit 0\\n' > /usr/local/bin/grep; chmod 755 /usr/local/bin/grep"


def test_a_forged_system_is_kept_from_the_verifier_and_disputed_again(desk):
    root, ran = kept(desk, f"echo wrong > {ANSWER}; {FORGED}")
    judged = again(desk, trial_spec(root, "never run"), ran)
    assert (ran.record.disputed_reward, judged.record.disputed_reward) == (1.0, 1.0)
    assert (judged.reward, judged.tags) == (ran.reward, ran.tags)


def test_a_trial_whose_verification_the_machine_failed_gets_its_verdict(desk):
    root, ran = kept(desk, DONE)
    lost = Failure(phase="verify", cause="SandboxError", message="gone")
    unjudged = {"evaluation": None, "verifier_run": None, "provenance": None, "failure": lost}
    failed = Ran(ran.record.model_copy(update=unjudged), ran.folder)
    judged = again(desk, trial_spec(root, "never run"), failed)
    assert (judged.reward, judged.record.outcome, judged.record.failure) == (1.0, "pass", None)
    assert judged.record.regrade
    assert judged.record.regrade.first.outcome == "infrastructure_error"


def test_services_are_not_judged_from_files(desk):
    root, ran = kept(desk, f"{DONE}; sleep 600 &")
    with pytest.raises(UsageError, match="needs its services"):
        again(desk, trial_spec(root, "never run"), ran)
    root, ran = kept(desk, f"{DONE}; sleep 600 &", isolation="kill")
    assert again(desk, trial_spec(root, "never run", isolation="kill"), ran).reward == 1.0


WAITING = f"""#!/bin/sh
grep -qx right {ANSWER} && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
touch /app/judged; until [ -e /app/done ]; do sleep 0.01; done
"""
GO_ON = f"""echo wrong > {ANSWER}
(until [ -e /app/judged ]; do sleep 0.01; done; echo right > {ANSWER}; touch /app/done; sleep 600) &"""


@pytest.mark.parametrize("isolation", ["guarded", "kill", "separate"])
def test_what_was_written_after_the_agents_time_never_counts(desk, isolation):
    root, ran = kept(desk, GO_ON, files={"tests/test.sh": WAITING})
    assert ran.reward == 0.0
    write_task(root)
    with pytest.raises(UsageError, match="also those that they wrote by then"):
        again(desk, trial_spec(root, "never run", isolation=isolation), ran)


def test_without_an_end_state_it_is_said_how_to_keep_one(desk):
    root = write_task(desk.new_folder() / "task")
    ran = desk.run(root, DONE, keep="record")
    with pytest.raises(UsageError, match="the end state was not kept: the run said --keep record"):
        again(desk, trial_spec(root, "never run"), ran)


@pytest.mark.parametrize(("command", "reward"), [(DONE, 1.0), ("true", 0.0)])
def test_a_separate_verifier_needs_artifacts_alone(desk, command, reward):
    toml = f'artifacts = ["{ANSWER}"]\n[verifier]\nenvironment_mode = "separate"\n'
    root = write_task(desk.new_folder() / "task", toml=toml, network="")
    ran = desk.run(root, command, keep="record")
    judged = again(desk, trial_spec(root, "never run"), ran)
    assert (ran.reward, judged.reward, judged.run.isolation) == (reward, reward, "separate")
    assert of_the_verifier(judged.record) == of_the_verifier(ran.record)


FLAKY = '#!/bin/sh\necho "0.$(date +%N)" > /logs/verifier/reward.txt\n'


def test_every_reward_of_several_runs_is_kept(desk):
    root, ran = kept(desk, DONE, files={"tests/test.sh": FLAKY})
    judged = again(desk, trial_spec(root, "never run", verify_repeats=2), ran)
    assert judged.evaluation.confidence
    rewards = judged.run.repeats
    assert (len(set(rewards)), judged.reward) == (2, min(filter(None, rewards)))
    assert judged.evaluation.confidence.verifier_repeats == 2
    assert "nondeterministic_verifier" in judged.tags
    assert (judged.folder / "verifier/repeat-2/files/reward.txt").is_file()


STEPS = {
    "tests/test.sh": "#!/bin/sh\ncat /app/$STEP > /logs/verifier/reward.txt\n",
    "steps/one/instruction.md": "one",
    "steps/two/instruction.md": "two",
}
BOTH = WRITE.format(first="0.5", second="1")


def test_steps_are_judged_each_from_its_own_end_state_and_make_one_reward(desk):
    root, ran = kept(desk, BOTH, toml=steps_toml(), files=STEPS, instruction=None)
    same = again(desk, trial_spec(root, "never run"), ran).record
    assert [(step.evaluation, step.end_state) for step in same.steps] == [
        (step.evaluation, step.end_state) for step in ran.record.steps
    ]
    write_task(root, toml=steps_toml(), files={**STEPS, "tests/test.sh": HALF}, instruction=None)
    judged = again(desk, trial_spec(root, "never run"), ran)
    assert (ran.reward, judged.reward) == (0.75, 0.5)


def test_a_step_that_no_agent_was_let_into_is_not_made_up(desk):
    toml = steps_toml(first="min_reward = 0.7")
    root, ran = kept(desk, BOTH, toml=toml, files=STEPS, instruction=None)
    assert len(ran.record.steps) == 1
    write_task(root, toml=toml, files={**STEPS, "tests/test.sh": HALF.replace("0.5", "1")}, instruction=None)
    with pytest.raises(UsageError, match="never let into step two"):
        again(desk, trial_spec(root, "never run"), ran)


def test_steps_after_one_that_fails_now_are_not_judged_any_more(desk):
    toml = steps_toml(first="min_reward = 0.4")
    root, ran = kept(desk, BOTH, toml=toml, files=STEPS, instruction=None)
    write_task(root, toml=toml, files={**STEPS, "tests/test.sh": HALF.replace("0.5", "0.1")}, instruction=None)
    judged = again(desk, trial_spec(root, "never run"), ran)
    assert (ran.reward, judged.reward) == (0.75, 0.1)
    assert [step.evaluation is None for step in judged.record.steps] == [False, True]
