"""How far agent and verifier are apart: a sandbox of its own, hooks in between, and honest work that stays."""

import json

import pytest

from tests.attacks.attack import FORGE_PY, plant, program
from tests.conftest import sampled
from tests.sandbox.embedded.support import needs_python, needs_root
from tests.system_python import NAME, SITE_HOOK
from tests.trial.support import ANSWER, INSTRUCTION, PYTHON_FILES, SHELL_TEST, Desk, Ran, write_task

pytestmark = [needs_root, needs_python]

ENVIRONMENT = '[environment]\nnetwork_mode = "no-network"\n'
LOOK = """#!/bin/sh
find /app /tmp /logs /out 2>/dev/null | sort > /logs/verifier/seen.txt
if grep -qx right /app/answer.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


def separately(desk: Desk, command: str, artifacts: list[str], **options: str) -> Ran:
    toml = f"artifacts = {json.dumps(artifacts)}\n{ENVIRONMENT}"
    return desk.attack(command, files={"tests/test.sh": LOOK}, toml=toml, **options)


def seen(ran: Ran) -> set[str]:
    return set(ran.text("verifier/files/seen.txt").split())


def test_only_artifacts_cross_into_a_separate_sandbox(desk):
    command = f"echo right > {ANSWER}; echo x > /app/other; echo x > /tmp/note; mkdir -p /out/a; echo x > /out/a/b"
    ran = separately(desk, command, [ANSWER, "/out"], isolation="separate")
    assert (ran.reward, ran.run.isolation) == (1.0, "separate")
    assert seen(ran) >= {ANSWER, "/out/a/b"}
    assert not seen(ran) & {"/app/other", "/tmp/note"}


def test_what_the_agent_publishes_crosses_too(desk):
    ran = separately(desk, f"echo right > {ANSWER}; echo x > /logs/artifacts/p", [ANSWER], isolation="separate")
    assert "/logs/artifacts/p" in seen(ran)


def test_a_task_may_ask_for_a_separate_sandbox(desk):
    toml = f'artifacts = ["{ANSWER}"]\n{ENVIRONMENT}[verifier]\nenvironment_mode = "separate"\n'
    ran = desk.attack(f"echo right > {ANSWER}; echo x > /tmp/note", files={"tests/test.sh": LOOK}, toml=toml)
    assert (ran.reward, ran.run.isolation) == (1.0, "separate")
    assert "/tmp/note" not in seen(ran)


def test_links_devices_and_pipes_do_not_cross(desk):
    command = f"""
    echo right > {ANSWER}; mkdir /out; cd /out; echo x > file
    ln -s /etc/passwd absolute; ln -s ../../../etc/passwd relative; ln -s file inside; mkfifo pipe
    """
    ran = separately(desk, command, [ANSWER, "/out"], isolation="separate")
    assert {path for path in seen(ran) if path.startswith("/out")} == {"/out", "/out/file"}
    assert not [path for path in (ran.folder / "artifacts").rglob("*") if path.is_symlink()]


def test_what_one_artifact_puts_in_the_way_leads_no_other_elsewhere(desk):
    outside = desk.new_folder()
    command = f"mkdir /out /real; echo x > /real/f; ln -s /real /out/way; ln -s {outside} /out/far; echo x > {ANSWER}"
    ran = separately(desk, command, ["/out", "/out/way/f", "/out/far/f"])
    assert ran.manifest() == {"/out": "empty", "/out/way/f": "ok", "/out/far/f": "empty"}
    assert not list(outside.iterdir())


def test_a_hook_that_runs_the_agents_program_opens_no_door(desk):
    """The program plants what nobody could find before the hook ran."""
    planting = plant(SITE_HOOK, FORGE_PY)
    trap = plant("/usr/local/bin/report", f"#!/bin/sh\n{planting}", end="TRAP")
    toml = f'{ENVIRONMENT}[[verifier.collect]]\ncommand = "report"\n'
    ran = desk.attack(f"echo wrong > {ANSWER}\n{trap}", files=PYTHON_FILES, toml=toml)
    assert ran.reward == 0.0
    assert ran.run.restored == (SITE_HOOK,)
    assert SITE_HOOK not in ran.changes.modified


def test_programs_that_the_image_does_not_have_stay(desk):
    """An honest agent may have installed them."""
    test = "#!/bin/sh\nfancy-tool && cp /app/said /logs/verifier/reward.txt\n"
    tool = plant("/usr/local/bin/fancy-tool", "#!/bin/sh\nexec fancy-part")
    part = plant("/usr/local/bin/fancy-part", "#!/bin/sh\necho 1 > /app/said")
    ran = desk.attack(f"echo x > {ANSWER}\n{tool}\n{part}", files={"tests/test.sh": test})
    assert (ran.reward, ran.run.isolation, ran.run.restored) == (1.0, "guarded", ())
    assert ran.tags == {"program_changed", "system_changed"}


@pytest.mark.parametrize(("instruction", "reward"), [(INSTRUCTION, 0.0), (f"{INSTRUCTION} Install uvx.", 1.0)])
def test_a_tool_of_verifiers_is_the_agents_to_bring_only_if_somebody_asks_for_it(desk, instruction, reward):
    test = "#!/bin/sh\nuvx; cp /app/said /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
    uvx = plant("/usr/local/bin/uvx", "#!/bin/sh\necho 1 > /app/said")
    root = write_task(desk.new_folder() / "task", files={"tests/test.sh": test}, instruction=instruction)
    ran = desk.run(root, f"echo x > {ANSWER}\n{uvx}")
    assert (ran.reward, ran.record.disputed_reward) == (reward, None if reward else 1.0)


def test_a_package_that_the_agent_installs_stays(desk):
    """As pip does it: modules, their description, a program, and a file that extends the path."""
    site = f"/usr/local/lib/{NAME}/dist-packages"
    command = "\n".join([
        f"echo right > {ANSWER}",
        plant(f"{site}/honest/__init__.py", "answer = 'right'"),
        plant(f"{site}/honest/sitecustomize.py", "raise SystemExit('not loaded by itself')"),
        plant(f"{site}/honest-1.dist-info/METADATA", "Name: honest\nVersion: 1"),
        plant(f"{site}/honest.pth", "/usr/local/share"),
        plant("/usr/local/bin/honest", "#!/usr/bin/python3\nimport honest; print(honest.answer)"),
    ])  # fmt: skip
    test = SHELL_TEST.replace(f"grep -qx right {ANSWER}", "honest | grep -qx right")
    ran = desk.attack(command, files={"tests/test.sh": test})
    assert (ran.reward, ran.run.isolation, ran.run.restored) == (1.0, "guarded", ())
    assert ran.tags == {"program_changed", "python_path_changed", "system_changed"}


@pytest.mark.parametrize("tool", sampled([NAME, "grep", "sh"]))
def test_an_upgraded_tool_still_works_and_is_named(desk, tool):
    """An upgrade replaces programs by others that do the same."""
    path = "/usr/bin/dash" if tool == "sh" else f"/usr/bin/{tool}"
    command = f"cp {path} {path}.new && mv {path}.new {path} && echo right > {ANSWER}"
    ran = desk.attack(command, files=PYTHON_FILES)
    assert (ran.reward, ran.run.restored) == (1.0, (path,))
    assert ran.tags == {"program_changed", "verifier_tools_restored"}


def test_restored_tools_are_those_of_the_image_byte_by_byte(desk):
    test = f"#!/bin/sh\n/usr/bin/sha256sum /usr/bin/grep /usr/bin/env > /logs/verifier/sums.txt\n{SHELL_TEST}"
    honest = desk.attack(f"echo x > {ANSWER}", files={"tests/test.sh": test})
    attacked = desk.attack(f"{program('/usr/bin/grep')}\n{program('/usr/bin/env')}", files={"tests/test.sh": test})
    assert attacked.text("verifier/files/sums.txt") == honest.text("verifier/files/sums.txt")


def test_a_verifier_in_the_host_image_sees_the_agents_files(desk, tmp_path):
    ran = desk.run(
        write_task(tmp_path / "task", files={"tests/test.sh": LOOK}), f"echo right > {ANSWER}; echo x > /tmp/n"
    )
    assert {"/tmp/n", ANSWER} <= seen(ran)


def test_what_can_be_kept_apart_is_not_merely_kept(desk):
    assert desk.attack(f"echo right > {ANSWER}", isolation="keep").run.isolation == "guarded"
