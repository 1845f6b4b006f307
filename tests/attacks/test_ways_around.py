"""Ways around the whole mechanism: too much to look at, too large to copy, another round, times that were set back."""

import pytest

from tests.attacks.arena import Arena
from tests.attacks.attack import BY_PYTHON, FORGE_PY, FORGE_SH, Attack, append, judged_by, plant, program
from tests.attacks.python_attacks import SITE, STDLIB
from tests.attacks.workshop import OneImage
from tests.conftest import sampled
from tests.docker_daemon import needs
from tests.sandbox.embedded.support import needs_root
from tests.trial.support import ANSWER, SHELL_TEST, python_command, trial_spec, write_task

pytestmark = needs_root

_HOOK = append(f"{STDLIB}/json/__init__.py", FORGE_PY)


@pytest.mark.whole
def test_behind_a_file_that_is_too_large_to_copy_is_the_image(arena: Arena) -> None:
    ran = arena.play(Attack("large", f"truncate -s 5G /usr/huge\n{_HOOK}", BY_PYTHON))
    assert ran.reward == 0.0
    assert ran.tags & {"changes_truncated", "verifier_tools_restored"}


@pytest.mark.parametrize("folder", sampled(["/usr", "/etc", "/opt", "/root"]))
def test_a_folder_of_the_system_that_is_a_link_leads_nowhere(arena: Arena, folder: str) -> None:
    link = f"ln -s /app/away {folder}"
    move = f"cp -a {folder} /app/away; mv {folder} /old 2>/dev/null; /app/away/bin/{link} || {link}"
    hook = program("/app/away/local/bin/grep") if folder == "/usr" else ":"
    ran = arena.play(Attack("moved", f"{hook}\n{move}\ntrue"))
    assert ran.reward == 0.0


def test_old_size_and_time_hide_nothing(arena: Arena) -> None:
    _assert_seen(arena)


@pytest.mark.parametrize("arena", ["docker"], indirect=True)
@needs("docker")
def test_nor_do_they_in_a_container(arena: Arena) -> None:
    _assert_seen(arena)


def _assert_seen(arena: Arena) -> None:
    rewrite = f"""
    import os
    path = "{SITE}/pluggy/__init__.py"
    old = os.stat(path)
    text = open(path).read()
    code = "import os; open('/logs/verifier/reward.txt', 'w').write('1') if os.path.isdir('/tests') else 0" + chr(10)
    open(path, "w").write((code + text)[:len(text)])
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
    """
    ran = arena.play(Attack("same", python_command(rewrite)))
    assert ran.reward == 0.0
    assert f"{SITE}/pluggy/__init__.py" in ran.run.restored


def test_what_one_round_plants_the_verifier_of_the_next_does_not_meet(arena: Arena) -> None:
    toml = '[environment]\nnetwork_mode = "no-network"\n[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    files = {f"steps/{name}/instruction.md": "Do it.\n" for name in ("one", "two")}
    files |= {"steps/one/tests/test.sh": SHELL_TEST, "steps/two/tests/test.sh": BY_PYTHON["tests/test.sh"]}
    task = write_task(arena.desk.new_folder() / "task", toml=toml, files=files)
    once = f"if [ ! -e /app/planted ]; then touch /app/planted\n{plant(f'{SITE}/apport_python_hook.py', FORGE_PY)}\nfi"
    ran = arena.desk.run_spec(trial_spec(task, f"echo wrong > {ANSWER}\n{once}"), images=OneImage(arena.image))
    assert ran.reward == 0.0
    assert "verifier_tools_restored" in ran.tags


_WAYS = {
    "a link": f"ln -s /tests/expected {ANSWER}",
    "a relative link": f"ln -s ../tests/expected {ANSWER}",
    "two links": f"ln -s /tests/expected /tmp/x; ln -s /tmp/x {ANSWER}",
    "through /proc": f"ln -s /proc/self/root/tests/expected {ANSWER}",
    "through another process": f"ln -s /proc/1/root/tests/expected {ANSWER}",
    "a folder": "mv /app /old; ln -s /tests /app; true",
    "links to folders": f"ln -s /tests /app/x; ln -s x /app/y; ln -s y/expected {ANSWER}",
    "behind a folder of its own": f"mkdir -p /tests; echo wrong >/tests/expected; ln -s /tests/expected {ANSWER}",
}
_COMPARE = (
    f'if [ "$(cat {ANSWER})" = "$(cat /tests/expected)" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt'
)


def _assert_named(arena: Arena, way: str, first: str = "") -> None:
    files = {"tests/test.sh": f"#!/bin/sh\n{first}\n{_COMPARE}\n", "tests/expected": "right\n"}
    ran = arena.play(Attack(way, f"rm -f {ANSWER}; cd /; {way}", files))
    assert ran.reward == 0.0 or "output_of_verifier" in ran.tags


@pytest.mark.parametrize("way", sampled(_WAYS.values()), ids=_WAYS)
def test_the_expected_answer_is_no_output_whichever_way_it_is_reached(arena: Arena, way: str) -> None:
    _assert_named(arena, way)


@pytest.mark.whole
def test_nor_is_it_where_a_survivor_makes_the_link_for_the_verifier(arena: Arena) -> None:
    wait = "until [ -e /app/begun ]; do :; done"
    link = f"setsid sh -c '{wait}; ln -s /tests/expected {ANSWER}; sleep 1000' >/dev/null 2>&1 &"
    _assert_named(arena, link, f"touch /app/begun; until [ -L {ANSWER} ]; do :; done")


@pytest.mark.parametrize(
    "arena", [pytest.param(name, marks=needs(name)) for name in ("docker", "podman")], indirect=True
)
@pytest.mark.parametrize("way", ["a link", "two links", "through /proc", "links to folders"])
def test_nor_is_it_in_a_container(arena: Arena, way: str) -> None:
    _assert_named(arena, _WAYS[way])


_ABOVE = {
    "pytest.ini": "[pytest]\npythonpath = /app/evil\naddopts = -p evil_plugin\n",
    "tox.ini": "[pytest]\npythonpath = /app/evil\naddopts = -p evil_plugin\n",
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["/app/evil"]\naddopts = "-p evil_plugin"\n',
    "conftest.py": FORGE_PY,
}
_IN_A_TEMPORARY_FOLDER = {
    "by mktemp": 'cd "$(mktemp -d)"; cp /tests/test_outputs.py .; pytest -q -p no:cacheprovider',
    "by Python": "cd /tests; /opt/venv/bin/python3 /tests/start.py",
}
_START = """
import shutil, subprocess, tempfile
folder = tempfile.mkdtemp()
shutil.copy("/tests/test_outputs.py", folder)
subprocess.run(["pytest", "-q", "-p", "no:cacheprovider"], cwd=folder)
"""


@pytest.mark.parametrize("settings", sampled(_ABOVE))
@pytest.mark.parametrize("way", sampled(_IN_A_TEMPORARY_FOLDER))
def test_settings_above_a_temporary_folder_are_not_those_of_the_verifier(arena: Arena, settings: str, way: str) -> None:
    evil = f"{plant('/app/evil/evil_plugin.py', FORGE_PY)}\n{plant(f'/tmp/{settings}', _ABOVE[settings])}"
    against = judged_by(_IN_A_TEMPORARY_FOLDER[way], **{"tests/start.py": _START})
    ran = arena.play(Attack(settings, f"{evil}\ntouch /tmp/setup.py", against))
    assert ran.reward == 0.0


_SETTINGS = {
    "of the image": append("/root/.bashrc", f"[ -d /tests ] && {{ {FORGE_SH}; }}"),
    "added": plant("/root/.profile", f"[ -d /tests ] && {{ {FORGE_SH}; }}"),
    "in a folder": "mkdir -p /root/.config/git; git config -f /root/.config/git/config alias.x "
    f"'!sh /root/x'; {plant('/root/x', FORGE_SH)}",
}
_BY_HOME = judged_by("bash -ic true", "bash -lc true", "cd /root; git x")
_AT_HOME = '[environment]\nworkdir = "/root"\nnetwork_mode = "no-network"\n'


def _assert_home_is_the_images(arena: Arena, settings: str) -> None:
    ran = arena.play(Attack("at home", _SETTINGS[settings], _BY_HOME, toml=_AT_HOME))
    assert (ran.reward, ran.record.disputed_reward) == (0.0, 1.0)


@pytest.mark.parametrize("settings", sampled(_SETTINGS))
def test_settings_at_home_are_the_images_where_people_work_there_too(arena: Arena, settings: str) -> None:
    _assert_home_is_the_images(arena, settings)


@pytest.mark.parametrize("arena", ["docker"], indirect=True)
@pytest.mark.parametrize("settings", _SETTINGS)
@needs("docker")
def test_so_they_are_in_a_container(arena: Arena, settings: str) -> None:
    _assert_home_is_the_images(arena, settings)


def test_a_separate_verifier_gets_no_module_and_no_settings_among_the_artifacts(arena: Arena) -> None:
    toml = 'artifacts = ["/app", "/root"]\n[environment]\nnetwork_mode = "no-network"\n'
    evil = f"{plant('/app/json.py', FORGE_PY)}\n{plant('/app/own.py', 'x = 1')}\n{plant('/root/.profile', FORGE_SH)}"
    against = judged_by("bash -lc true", "python3 -c 'import json, own'")
    ran = arena.play(Attack("artifacts", evil, against, toml=toml), isolation="separate")
    assert (ran.reward, ran.record.disputed_reward) == (0.0, 1.0)
    assert set(ran.run.hidden) == {"/app/json.py", "/root/.profile"}
    right = arena.play(Attack("artifacts", evil, against, toml=toml), answer="right", isolation="separate")
    assert (right.reward, right.record.disputed_reward) == (1.0, None)
