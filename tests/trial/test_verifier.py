"""Where verifiers are started and find the solution: as Harbor has it, or as the library verifiers had it."""

import pytest

from tests.sandbox.embedded.support import needs_python, needs_root
from tests.trial.support import Desk, write_task
from tests.trial.test_survivors import TYPIST, leave

pytestmark = [needs_root, needs_python]

# No interpreter is named, and the test only works in bash.
LOOK = """
exec > /logs/verifier/seen.txt 2>&1
pwd; ls /oracle/answer.txt /tests/solution/answer.txt; [[ -n $BASH_VERSION ]] && echo bash
cmp -s /oracle/answer.txt /app/answer.txt && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
"""
HIDE = "echo right > /app/answer.txt; mkdir /oracle; echo x > /oracle/answer.txt"


def judge(desk: Desk, command: str, **options):
    files = {"tests/test.sh": LOOK, "solution/answer.txt": "right\n"}
    return desk.run(write_task(desk.new_folder() / "task", files=files), command, solution="staged", **options)


def test_as_verifiers_had_it_tests_run_by_bash_in_tests_with_the_solution_in_oracle(desk):
    ran = judge(desk, HIDE, layout="verifiers")
    seen = ran.text("verifier/files/seen.txt").splitlines()
    assert seen == ["/tests", "/oracle/answer.txt", "/tests/solution/answer.txt", "bash"]
    assert (ran.reward, ran.run.layout) == (1.0, "verifiers")


def test_as_harbor_has_it_tests_run_in_the_tasks_own_directory(desk):
    ran = judge(desk, "echo right > /app/answer.txt")
    seen = ran.text("verifier/files/seen.txt")
    assert seen.startswith("/app\n")
    assert "/tests/solution/answer.txt" in seen
    assert (ran.reward, ran.run.layout) == (0.0, "harbor")


@pytest.mark.parametrize(("layout", "isolation"), [("verifiers", "kill"), ("harbor", "guarded")])
def test_nobody_is_left_who_could_change_what_oracle_means(desk, layout, isolation):
    ran = judge(desk, leave(TYPIST, "right"), layout=layout)
    assert (ran.run.isolation, bool(ran.run.survivors)) == (isolation, True)


# Nowhere does it say where it looks in one word.
NAMED = """
top=oracle; cmp -s /$top/answer.txt /app/answer.txt && reward=1; echo ${reward:-0} > /logs/verifier/reward.txt
"""


@pytest.mark.parametrize(("solution", "reward"), [("right\n", 1.0), ("other\n", 0.0), (None, 0.0)])
def test_whatever_tests_call_oracle_nothing_of_the_agents_is_there(desk, solution, reward):
    files = {"tests/test.sh": NAMED, **({"solution/answer.txt": solution} if solution else {})}
    forge = "echo right > /app/answer.txt; mkdir /oracle; cp /app/answer.txt /oracle"
    task = write_task(desk.new_folder() / "task", files=files)
    assert desk.run(task, forge, solution="staged", layout="verifiers").reward == reward


def test_a_service_runs_on_beside_tests_that_need_no_oracle(desk):
    files = {"tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n", "solution/answer.txt": "right\n"}
    task = write_task(desk.new_folder() / "task", files=files)
    ran = desk.run(task, leave(TYPIST, "right"), solution="staged", layout="verifiers")
    assert (ran.run.isolation, bool(ran.run.survivors)) == ("guarded", True)


def test_a_working_directory_that_the_task_declares_stays(desk):
    files = {"tests/test.sh": "pwd > /logs/verifier/seen.txt; echo 1 > /logs/verifier/reward.txt\n"}
    task = write_task(desk.new_folder() / "task", toml='[verifier]\nworkdir = "/srv"\n', files=files)
    assert desk.run(task, "true", layout="verifiers").text("verifier/files/seen.txt") == "/srv\n"
