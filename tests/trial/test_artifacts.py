"""What is kept of an agent's work besides its answer: artifacts by manifest, hooks that make them, its own logs."""

from tests.sandbox.embedded.support import needs_root
from tests.trial.support import ANSWER

pytestmark = needs_root

BASE = '[environment]\nnetwork_mode = "no-network"\n'


def test_artifacts_with_everything_one_may_say_about_them(desk):
    wanted = [
        '"/out"',
        '{source = "/app/report.txt", destination = "reports/final.txt"}',
        '{source = "/app/tree", exclude = ["*.pyc", "cache"]}',
        '{source = "/app/other.txt", destination = "reports/final.txt"}',
        '{source = "/app/missing"}',
        '{source = "/app/side", service = "database"}',
    ]
    command = """
    mkdir -p /out/sub /app/tree/cache; echo a > /out/sub/a; echo final > /app/report.txt; echo b > /app/other.txt
    echo x > /app/tree/x.py; echo x > /app/tree/x.pyc; echo x > /app/tree/cache/y
    echo p > /logs/artifacts/p; echo s > /app/side
    """
    ran = desk.attack(command, toml=f"artifacts = [{', '.join(wanted)}]\n{BASE}", unfit="run")
    assert list(ran.manifest().items()) == [
        ("/logs/artifacts", "ok"), ("/out", "ok"), ("/app/report.txt", "ok"), ("/app/tree", "ok"),
        ("/app/other.txt", "skipped"), ("/app/missing", "empty"), ("/app/side", "failed"),
    ]  # fmt: skip
    kept = {artifact.path for artifact in ran.record.artifacts}
    assert kept == {
        "artifacts/manifest.json", "artifacts/logs/artifacts/p", "artifacts/out/sub/a", "artifacts/reports/final.txt",
        "artifacts/app/tree/x.py",
    }  # fmt: skip
    assert ran.text("artifacts/reports/final.txt") == "final\n"


def test_an_artifact_beyond_all_measure_is_not_kept_and_costs_nothing(desk):
    ran = desk.attack(f"echo right > {ANSWER}; truncate -s 3G /app/huge", toml=f'artifacts = ["/app/huge"]\n{BASE}')
    assert (ran.reward, ran.manifest()) == (1.0, {"/app/huge": "failed"})


def test_hooks_run_after_the_agent_and_before_artifacts_are_kept(desk):
    hook = '[[verifier.collect]]\ncommand = "cat /app/state > /logs/artifacts/state.txt"\n'
    ran = desk.attack(f"echo 42 > /app/state; echo right > {ANSWER}", toml=BASE + hook)
    assert ran.text("artifacts/logs/artifacts/state.txt") == "42\n"
    assert ran.changes.added == (ANSWER, "/app/state")


def test_a_hook_that_fails_or_hangs_costs_nothing(desk):
    hooks = (
        '[[verifier.collect]]\ncommand = "exit 3"\n[[verifier.collect]]\ncommand = "sleep 1000"\ntimeout_sec = 0.2\n'
    )
    assert desk.attack(f"echo right > {ANSWER}", toml=BASE + hooks).reward == 1.0


def test_logs_of_the_agent_are_kept(desk):
    ran = desk.attack("echo '{}' > /logs/agent/trajectory.json; ln -s /etc/passwd /logs/agent/link")
    assert ran.text("agent/logs/trajectory.json") == "{}\n"
    assert not (ran.folder / "agent/logs/link").is_symlink()


def test_without_anything_to_keep_there_is_no_folder(desk):
    assert not (desk.attack(f"echo right > {ANSWER}").folder / "artifacts").exists()
