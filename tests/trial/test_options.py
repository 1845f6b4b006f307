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
