"""What a run decides about judging: which reward file counts, and whether the verifier sees the solution."""

import pytest

from tests.trial.support import ANSWER, write_task

BOTH = f"""#!/bin/sh
echo 0.25 > /logs/verifier/reward.txt
echo '{{"reward": 0.75}}' > /logs/verifier/reward.json
cat {ANSWER}
"""
SOLUTION = {"solution/solve.sh": f"#!/bin/sh\necho right > {ANSWER}\n"}
LOOK = "#!/bin/sh\nif test -s /tests/solution/solve.sh; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"
RIGHT = f"echo right > {ANSWER}"


@pytest.mark.parametrize(("policy", "reward"), [("declared", 0.75), ("text_first", 0.25)])
def test_the_policy_says_which_reward_file_counts(desk, tmp_path, policy, reward):
    root = write_task(tmp_path / "task", files={"tests/test.sh": BOTH})
    ran = desk.run(root, RIGHT, reward_policy=policy)
    assert ran.reward == reward
    assert ran.provenance.reward_file == ("reward.txt" if policy == "text_first" else "reward.json")
    assert any(line.startswith("reward_conflict: ") for line in ran.evaluation.validity.errors)


@pytest.mark.parametrize(("solution", "seen"), [("withheld", 0.0), ("staged", 1.0)])
def test_the_verifier_sees_the_solution_only_when_it_is_staged(desk, tmp_path, solution, seen):
    root = write_task(tmp_path / "task", files={"tests/test.sh": LOOK, **SOLUTION})
    assert desk.run(root, RIGHT, solution=solution).reward == seen


@pytest.mark.parametrize("isolation", ["kill", "separate"])
def test_a_staged_solution_is_there_however_the_verifier_is_isolated(desk, tmp_path, isolation):
    root = write_task(tmp_path / "task", files={"tests/test.sh": LOOK, **SOLUTION}, instruction="Do it.\n")
    assert desk.run(root, RIGHT, solution="staged", isolation=isolation).reward == 1.0


def test_a_task_without_a_solution_is_judged_all_the_same(desk, tmp_path):
    assert desk.run(write_task(tmp_path / "task"), RIGHT, solution="staged").reward == 1.0


SPEAKS_BY_EXIT = {"tests/test.sh": f"#!/bin/sh\ngrep -qx right {ANSWER}\n"}
BY_EXIT = '[verifier]\nverdict = "exit_status"\n'


@pytest.mark.parametrize(("answer", "outcome"), [("right", "pass"), ("wrong", "fail")])
@pytest.mark.parametrize(("toml", "options"), [(BY_EXIT, {}), ("", {"verdict": "exit_status"})], ids=["task", "run"])
def test_a_verifier_may_speak_by_its_exit_status(desk, tmp_path, toml, options, answer, outcome):
    ran = desk.run(write_task(tmp_path, toml=toml, files=SPEAKS_BY_EXIT), f"echo {answer} > {ANSWER}", **options)
    assert (ran.record.outcome, ran.evaluation.validity.verifier_completed) == (outcome, True)
    assert any("is the verdict" in line for line in ran.evaluation.validity.errors)
    assert (ran.provenance.reward_file, ran.run.baseline) == (None, None)


def test_a_step_may_speak_by_its_exit_status_while_another_writes_a_reward(desk, tmp_path):
    toml = '[[steps]]\nname = "one"\n[steps.verifier]\nverdict = "exit_status"\n[[steps]]\nname = "two"\n'
    files = {
        "steps/one/instruction.md": "One.\n",
        "steps/two/instruction.md": "Two.\n",
        "steps/one/tests/test.sh": "#!/bin/sh\nexit 0\n",
        "steps/two/tests/test.sh": "#!/bin/sh\necho 0.5 > /logs/verifier/reward.txt\n",
    }
    ran = desk.run(write_task(tmp_path, toml=toml, files=files, instruction=None), RIGHT)
    assert [step.evaluation.reward for step in ran.record.steps] == [1.0, 0.5]
