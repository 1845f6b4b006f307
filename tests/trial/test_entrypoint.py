"""What an image runs by itself: its ENTRYPOINT, before the agent, wherever a task is furnished."""

from pathlib import Path

import pytest

from seatrial.trial import entrypoint
from tests.sandbox.embedded.support import needs_root
from tests.trial.support import needs_busybox, run_in_image, write_task

pytestmark = [needs_root, needs_busybox]

REWARD = "if grep -qx mended /place/state; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"
BASE = "FROM test/small:1\nWORKDIR /place\nRUN chmod 777 /place\n"
HEALTHY = '[environment]\nnetwork_mode = "no-network"\n[environment.healthcheck]\ninterval_sec = 0.0\n'


def task_of(folder: Path, script: str, *, more: str = 'ENTRYPOINT ["/start.sh", "one word"]\n', toml: str = "") -> Path:
    """A task whose image has a script at /start.sh, and whose verifier wants a mended state."""
    files = {
        "environment/Dockerfile": f"{BASE}COPY --chmod=755 start.sh /start.sh\n{more}",
        "environment/start.sh": f"#!/bin/sh\n{script}\n",
        "tests/test.sh": f"#!/bin/sh\n{REWARD}",
    }
    return write_task(folder / "task", files=files, toml=toml)


def test_the_fault_of_an_entry_point_is_what_the_agent_finds(desk, images, tmp_path):
    """It runs once, as Docker runs it: its own arguments first, the image's user, folder and variables."""
    script = 'echo "$1 by $(id -u) in $(pwd), $WHO"; shift; echo broken > state; exec "$@"'
    more = 'ENV WHO=me\nUSER al\nENTRYPOINT ["/start.sh", "one word"]\n'
    ran = run_in_image(desk, images, task_of(tmp_path, script, more=more), "cat state; ps -o args; echo mended > state")
    found = ran.text("agent/stdout.txt")
    assert (ran.reward, found.split()[0]) == (1.0, "broken")
    assert "sleep" not in found
    assert ran.text("entrypoint.txt") == "one word by 1000 in /place, me\n"
    assert ran.changes.added + ran.changes.modified == ("/place/state",)
    assert not ran.tags


@pytest.mark.parametrize(
    ("work", "reward"),
    [("echo '# looked at' >> /etc/app.conf", 0.0), ("echo good > /etc/app.conf", 1.0), ("true", 0.0)],
)
def test_a_fault_in_a_setting_is_mended_by_nobody_but_the_agent(desk, images, tmp_path, work, reward):
    """What the verifier meets is not the file of the image, which was as it should be, and not disputed either."""
    more = 'RUN echo good > /etc/app.conf\nENTRYPOINT ["/start.sh"]\n'
    root = task_of(tmp_path, 'echo broken > /etc/app.conf; exec "$@"', more=more)
    test = 'if [ "$(cat /etc/app.conf)" = good ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n'
    (root / "tests/test.sh").write_text(f"#!/bin/sh\n{test}")
    ran = run_in_image(desk, images, root, work)
    assert (ran.reward, ran.run.restored, ran.record.disputed_reward) == (reward, (), None)


@pytest.mark.parametrize(
    "script",
    [
        'shift; "$@"',  # which waits for the command, as an init does that reaps
        'shift; env -i PATH=/bin "$@" & wait $!',
        'shift; { exec "$@"; } 2>&1 | grep -v nothing',
        "echo up; exec sleep 1000",
        "exec > /dev/null 2>&1; exec sleep 1000",
    ],
)
def test_an_entry_point_that_stays_runs_beside_the_agent(desk, images, tmp_path, monkeypatch, script):
    monkeypatch.setattr(entrypoint, "_SERVICE_SEC", 0.5 if "1000" in script else 50.0)
    work = "ps -o args | grep -c '^sleep'; echo mended > state"
    ran = run_in_image(desk, images, task_of(tmp_path, script), work)
    assert (ran.reward, ran.text("agent/stdout.txt").strip()) == (1.0, "1")
    assert "processes_left_running" in ran.tags


def test_what_an_entry_point_starts_serves_the_agent_and_the_verifier(desk, images, tmp_path):
    """A service goes on, and may go on printing, when the entry point has handed over to the command."""
    service = "mkfifo ask; while read -r line < ask; do echo heard; echo $line > state; done"
    script = f'[ "$2" = sh ] || exit 3; cd /place; {{ {service}; }} & shift; exec "$@"'
    root = task_of(tmp_path, script, toml=f"{HEALTHY}command = 'test -p /place/ask'\n")
    (root / "tests/test.sh").write_text(
        f"#!/bin/sh\ncat state\necho mended > ask\nwhile grep -q x state; do :; done\n{REWARD}"
    )
    ran = run_in_image(desk, images, root, "echo x > ask; while ! grep -q x state; do :; done")
    assert (ran.reward, ran.text("verifier/stdout.txt")) == (1.0, "x\n")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo first; echo no disk >&2; exit 3", "exit code 3: no disk"),
        ("kill -9 $$", "exit code -9: it printed nothing"),
        ("exec /missing", "exit code 127: "),
        ('set -x; : "$@"; exit 5', "exit code 5: + exit 5"),
    ],
)
def test_an_entry_point_that_fails_is_nobodys_zero(desk, images, tmp_path, script, said):
    ran = run_in_image(desk, images, task_of(tmp_path, script), "true")
    assert (ran.failure.phase, ran.failure.cause, ran.record.agent_result) == ("setup", "EntrypointError", None)
    assert f"the ENTRYPOINT of the image (/start.sh one word) failed with {said}" in ran.failure.message


def test_a_probe_that_hangs_is_no_fault_of_an_entry_point(desk, images, tmp_path, monkeypatch):
    monkeypatch.setattr(entrypoint, "_CHECKED_SERVICE_SEC", 0.0)
    toml = f"{HEALTHY}timeout_sec = 0.3\ncommand = 'sleep 1000'\n"
    ran = run_in_image(desk, images, task_of(tmp_path, "exec sleep 1000", toml=toml), "true")
    assert ran.failure.cause == "HealthcheckError"


def test_one_that_fails_while_a_healthcheck_waits_for_it_is_the_reason(desk, images, tmp_path, monkeypatch):
    monkeypatch.setattr(entrypoint, "_CHECKED_SERVICE_SEC", 0.0)
    script = "mkfifo wait; read -r line < wait; echo port taken; exit 4"
    probe = "while ! test -p wait; do :; done; echo go > wait; while [ -e /proc/$(cat pid) ]; do :; done; exit 1"
    root = task_of(tmp_path, f"echo $$ > pid; {script}", toml=f"{HEALTHY}retries = 1\ncommand = '{probe}'\n")
    ran = run_in_image(desk, images, root, "true")
    assert (ran.failure.cause, ran.record.agent_result) == ("EntrypointError", None)
    assert "exit code 4: port taken" in ran.failure.message


def test_an_agent_that_ends_an_entry_point_has_no_excuse(desk, images, tmp_path, monkeypatch):
    monkeypatch.setattr(entrypoint, "_SERVICE_SEC", 0.5)
    ran = run_in_image(desk, images, task_of(tmp_path, "echo $$ > pid; exec sleep 1000"), "kill -9 $(cat pid)")
    assert ran.reward == 0.0


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ("ENTRYPOINT echo $HOME > state; exit 0\n", "/root\n"),
        ('ENTRYPOINT ["/start.sh"]\nENTRYPOINT []\n', None),
        ('CMD ["/start.sh"]\n', None),
    ],
)
def test_shell_form_reset_and_commands(desk, images, tmp_path, more, text):
    """The form of a shell ignores the command, as with Docker; CMD gives way to Harbor's command and never runs."""
    ran = run_in_image(desk, images, task_of(tmp_path, "echo ran > state", more=more), "cat state")
    assert ran.text("agent/stdout.txt") == (text or "")
    assert (ran.folder / "entrypoint.txt").exists() is (text is not None)


def test_a_separate_verifiers_image_has_its_own(desk, images, tmp_path):
    toml = 'artifacts = ["/place/state"]\n[verifier]\nenvironment_mode = "separate"\n'
    toml = f'{toml}[environment]\nnetwork_mode = "no-network"\n'
    root = task_of(tmp_path, 'echo broken > state; shift; exec "$@"', toml=toml)
    start = """ENTRYPOINT ["/bin/sh", "-c", "echo 7 > /golden; exec \\"$@\\"", "sh"]\n"""
    own = f"FROM test/small:1\nRUN mkdir /place\nCOPY test.sh /tests/test.sh\n{start}"
    (root / "tests/Dockerfile").write_text(own)
    (root / "tests/test.sh").write_text("#!/bin/sh\ncat /golden /place/state\n" + REWARD)
    ran = run_in_image(desk, images, root, "echo mended > state")
    assert (ran.reward, ran.text("verifier/stdout.txt")) == (1.0, "7\nmended\n")
    assert ran.text("verifier/entrypoint.txt") == ""


def test_a_silent_verifier_is_asked_where_the_entry_point_has_run_too(desk, images, tmp_path):
    root = task_of(tmp_path, 'echo broken > state; shift; exec "$@"')
    (root / "tests/test.sh").write_text(f"#!/bin/sh\ntest -e state || exit 1\n{REWARD}")
    ran = run_in_image(desk, images, root, "rm state")
    assert (ran.reward, ran.run.baseline) == (0.0, "judged")
