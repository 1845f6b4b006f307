"""`seatrial env init`: what is new works at once, by its script and by its own test."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

from seatrial.cli.env_command import MEANS
from tests.cli.conftest import Seatrial, cells
from tests.cli.test_gc_command import why_no_sandbox

IN_SANDBOXES = ("harbor", "cli-agent")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize("kind", [kind for kind in MEANS if kind not in IN_SANDBOXES])
def test_a_new_environment_runs_by_its_script(seatrial: Seatrial, kind):
    made = seatrial("env", "init", "my-new-env", "--kind", kind)
    assert made.code == 0
    assert "eval ./my_new_env -m scripted --upstream scripted:my_new_env/script.json" in made.out
    done = seatrial("eval", "./my_new_env", "-m", "s", "--upstream", "scripted:my_new_env/script.json", "-o", "out")
    assert done.code == 0, done.err
    assert f"{MEANS[kind]:.3f}" in done.out


def test_a_new_environment_has_a_test_that_passes(seatrial: Seatrial, monkeypatch):
    seatrial("env", "init", "tested-env", "--kind", "multi-turn")
    monkeypatch.syspath_prepend(Path("tested_env").absolute())
    import_module("test_tested_env").test_the_script_gets_what_it_should()


@pytest.mark.whole
@pytest.mark.parametrize("kind", IN_SANDBOXES)
def test_those_with_a_sandbox_run_too(seatrial: Seatrial, kind):
    if reason := why_no_sandbox():
        pytest.skip(f"embedded sandbox: {reason}")
    seatrial("env", "init", "boxed-env", "--kind", kind, "-p", "envs")
    text = Path("envs/boxed_env/boxed_env.py").read_text()
    Path("envs/boxed_env/boxed_env.py").write_text(text.replace("enforcement=", 'image="host", enforcement='))
    script = ("-m", "scripted", "--upstream", "scripted:envs/boxed_env/script.json")
    done = seatrial("eval", "boxed-env", "-p", "envs", *script, "-o", "out")
    assert done.code == 0, done.err
    assert ["scripted", f"{MEANS[kind]:.3f}"] in [cells(line)[:2] for line in done.out.splitlines()]
    assert Path("out/job.json").exists() is (kind == "harbor")
    assert f"{MEANS[kind]:.3f}" in seatrial("show", "out").out


@pytest.mark.parametrize("name", ["1st", "my env", "class", "a/b", "é"])
def test_names_that_no_module_may_have_are_refused(seatrial: Seatrial, name):
    done = seatrial("env", "init", name)
    assert (done.code, "cannot be a module's name" in done.err) == (2, True)


def test_nothing_is_overwritten(seatrial: Seatrial):
    seatrial("env", "init", "mine")
    Path("mine/mine.py").write_text("mine")
    again = seatrial("env", "init", "mine")
    assert (again.code, "is there already" in again.err) == (2, True)
    assert Path("mine/mine.py").read_text() == "mine"
