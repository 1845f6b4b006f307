"""An agent's own files and the user's certificates in real sandboxes: there for those they are meant for."""

from dataclasses import replace

import pytest

from seatrial.agents.files import lock_files
from seatrial.images.resolver import ResolvedImage
from seatrial.model.job import AgentFiles, TrialOptions
from seatrial.sandbox.api import HOST_IMAGE
from seatrial.sandbox.trust import VARIABLES
from seatrial.tasks.load import load_task
from seatrial.trial.place import choose_place
from tests.trial.support import ANSWER, trial_spec, write_task

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
LOOKING_TEST = f"""#!/bin/sh
cp "$SSL_CERT_FILE" /logs/verifier/seen.pem
env > /logs/verifier/env.txt
if grep -qx right {ANSWER}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
# Everything that an agent can do to what it was given.
TAMPERING = f"""
. /agent/words.sh
echo "$WORD" > {ANSWER}
cat "$SSL_CERT_FILE"
echo forged > "$SSL_CERT_FILE"
echo forged > /tests/.ca.pem
rm /agent/other.txt
"""


@pytest.fixture(scope="module")
def ran(desk, tmp_path_factory):
    """One trial with files and certificates, whose agent spoils both."""
    root = tmp_path_factory.mktemp("brought")
    (root / "mine").mkdir()
    (root / "mine/words.sh").write_text("WORD=right\n")
    (root / "mine/other.txt").write_text("")
    (root / "both.pem").write_text(f"{CERTIFICATE}-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n")
    files = lock_files(AgentFiles(source=str(root / "mine")))
    task = write_task(root / "task", files={"tests/test.sh": LOOKING_TEST}, toml="[agent]\ntimeout_sec = 50\n")
    limits = {"memory_mb": 96, "agent_timeout_sec": 40.0, "enforcement": "partial"}
    spec = trial_spec(task, TAMPERING, ca_file=str(root / "both.pem"), **limits)
    return desk.run_spec(replace(spec, agent=spec.agent.model_copy(update={"files": (files,)})))


def test_the_agent_works_with_its_files_and_the_record_names_them(ran):
    assert ran.reward == 1.0
    ((target, digest),) = [(each.target, each.digest) for each in ran.record.agent.files]
    assert (target, len(digest)) == ("/agent", 64)


def test_they_are_not_the_agent_s_work(ran):
    assert not [path for path in (*ran.changes.added, *ran.changes.modified) if path.startswith("/agent")]


def test_the_agent_gets_certificates_and_no_key(ran):
    assert ran.text("agent/stdout.txt") == CERTIFICATE


def test_the_verifier_trusts_the_user_s_file_whatever_the_agent_did(ran):
    assert ran.text("verifier/files/seen.pem") == CERTIFICATE
    variables = dict(line.split("=", 1) for line in ran.text("verifier/files/env.txt").splitlines() if "=" in line)
    assert {variables[name] for name in VARIABLES} == {"/tests/.ca.pem"}


def test_limits_of_the_run_go_before_those_of_the_task(ran, desk):
    held = 96 if "memory_mb" in desk.wait(desk.backend.probe()).limits else None
    assert ran.record.sandbox.limits_asked.memory_mb == 96
    assert ran.record.sandbox.limits_enforced.memory_mb == held


def test_a_verifier_s_own_environment_keeps_its_limits(desk, tmp_path):
    toml = "[environment]\nmemory_mb = 64\n[verifier.environment]\nmemory_mb = 128\n"
    task = load_task(write_task(tmp_path / "task", toml=toml))
    capabilities, options = desk.wait(desk.backend.probe()), TrialOptions(memory_mb=96)
    own, image = task.config.verifier.environment, ResolvedImage(HOST_IMAGE, "host")
    assert own is not None
    asked = [choose_place(task, each, image, options, capabilities).asked for each in (task.config.environment, own)]
    assert [limits.memory_mb for limits in asked] == [96, 128]


def test_the_agent_s_time_of_the_run_goes_before_the_task_s(desk, tmp_path):
    root = write_task(tmp_path / "task", toml="[agent]\ntimeout_sec = 50\n")
    ran = desk.run(root, "sleep 40", agent_timeout_sec=0.2)
    assert ran.agent.status == "timed_out"
