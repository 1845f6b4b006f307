"""Agents that eat all memory, fill the disk, fork, print or work without end, and are judged all the same."""

import pytest

from tests.attacks.attack import plant, program
from tests.sandbox.embedded.support import needs_python, needs_root
from tests.trial.support import ANSWER, python_command

LIMITED = '[environment]\nnetwork_mode = "no-network"\n'


@needs_root
@needs_python
def test_an_agent_that_eats_all_memory_is_counted(desk):
    command = python_command("x = []\nwhile True:\n    x.append(bytearray(2**20))")
    ran = desk.attack(f"{command}\necho $?; echo right > {ANSWER}", toml=f"{LIMITED}memory_mb = 64\n")
    assert ran.record.resources is not None
    assert ran.record.resources.oom_kills >= 1
    assert (ran.record.sandbox.limits_asked.memory_mb, ran.record.sandbox.limits_enforced.memory_mb) == (64, 64)
    assert ran.record.evaluation is not None


@needs_root
def test_an_agent_that_fills_its_disk_is_judged_all_the_same(desk):
    command = f"echo right > {ANSWER}; head -c 100M /dev/zero > /app/full; echo more > /app/more; cat /app/more"
    ran = desk.attack(command, toml=f"{LIMITED}storage_mb = 24\n")
    assert (ran.reward, ran.record.outcome) == (1.0, "pass")
    assert "No space left" in ran.text("agent/stderr.txt")
    assert ran.record.resources is not None
    assert (ran.record.resources.disk_bytes or 0) < 40 * 2**20


@needs_root
@pytest.mark.parametrize("also", ["", program("/usr/bin/rm") + "\n" + plant("/app/pytest.py", "")])
def test_a_full_disk_keeps_no_tool_from_being_taken_away(desk, also):
    """There is no room to put it back, so it is as good as not there: that is a failed trial and no failed machine."""
    command = f"{also}\necho wrong > {ANSWER}\n{program('/usr/bin/grep')}\nhead -c 100M /dev/zero > /app/full"
    ran = desk.attack(
        f"{command}\nwhile echo x > /app/$((i=i+1)); do :; done; true", toml=f"{LIMITED}storage_mb = 24\n"
    )
    assert (ran.reward, ran.record.outcome) == (0.0, "fail")
    assert "/usr/bin/grep" in ran.run.restored


@pytest.mark.whole
@needs_root
@needs_python
def test_an_agent_that_forks_without_end_is_judged_all_the_same(desk):
    bomb = python_command(
        "import os, time\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        time.sleep(1000)"
    )
    ran = desk.attack(f"echo right > {ANSWER}\n{bomb}", toml=f"{LIMITED}memory_mb = 256\n[agent]\ntimeout_sec = 2.0\n")
    # Who runs out of memory first is chance, and so is what is left; it keeps no verifier from its verdict.
    assert (ran.reward, ran.record.outcome) == (1.0, "pass")


@pytest.mark.whole
@needs_root
def test_an_agent_that_prints_for_ever_fills_no_disk_of_ours(desk):
    ran = desk.attack(f"echo right > {ANSWER}; exec yes", toml=f"{LIMITED}[agent]\ntimeout_sec = 1.0\n")
    assert (ran.agent.status, ran.reward) == ("timed_out", 1.0)
    assert (ran.folder / "agent/stdout.txt").stat().st_size <= 16 * 2**20


@needs_root
def test_an_agent_that_kills_itself_is_judged_all_the_same(desk):
    ran = desk.attack(f"echo right > {ANSWER}; kill -KILL $$")
    assert (ran.agent.status, ran.agent.exit_code, ran.reward) == ("killed", -9, 1.0)


@pytest.mark.whole
@needs_root
def test_files_too_deep_for_this_machine_cost_nobody_a_trial(desk):
    nest = "for _ in $(seq 40); do n=$(printf 'd%.0s' $(seq 200)); mkdir $n; cd $n; done; echo x > f; cd -P /"
    command = f"cd /logs/artifacts; {nest}; cd /logs/agent; {nest}; echo right > {ANSWER}"
    ran = desk.attack(command)
    assert ran.agent.exit_code == 0, ran.text("agent/stderr.txt")
    assert ran.reward == 1.0
    assert ran.manifest() == {"/logs/artifacts": "failed"}
    assert "not-kept.txt" in {path.name for path in (ran.folder / "agent/logs").iterdir()}
