"""Where presets come from, and what is said of one that is wrong."""

from pathlib import Path

import pytest

from seatrial.agents import presets
from seatrial.agents.preset_agent import PresetAgent
from seatrial.agents.presets import find_preset, preset_names, read_preset, recipe_of
from seatrial.errors import UsageError
from seatrial.model.job import AgentOptions
from tests.agents.presets_made import preset

OURS = (
    *("aider", "claude-code", "codex", "gemini-cli", "kimi-code", "mini-swe-agent", "opencode", "openhands", "pi"),
    "qwen-code",
)
MINIMAL = """
title = "Mine"
version = "1"
dialect = "openai_chat"
command = "mine"
version_command = "mine --version"
packages = { pip = ["mine=={version}"], programs = { mine = "mine" } }
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("SEATRIAL_AGENTS", raising=False)
    folder = tmp_path / "config" / "seatrial" / "agents"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("name", OURS)
def test_ours_are_complete_and_make_an_agent(name):
    found = find_preset(name)
    assert found is not None
    assert (found.name, found.source) == (name, None)
    agent = PresetAgent(AgentOptions(name=name, model="m"), found)
    recipe = agent.setup.recipe
    assert recipe == recipe_of(name)
    assert recipe is not None
    assert any(found.version in package for package in (*recipe.npm, *recipe.pip))
    assert found.least_memory_mb
    assert {"arguments", "variables"} & {key for key in ("arguments", "variables") if getattr(found, key)}


def test_all_of_them_are_found_by_name_and_by_the_names_that_harbor_has():
    assert set(OURS) <= set(preset_names())
    assert {(found := find_preset(name)) and found.name for name in ("qwen-coder", "kimi-cli")} == {
        "qwen-code",
        "kimi-code",
    }
    assert find_preset("nobody") is None
    assert find_preset("../presets/codex") is None


def test_one_of_the_users_own_goes_before_ours(home, tmp_path, monkeypatch):
    (home / "codex.toml").write_text(MINIMAL)
    found = find_preset("codex")
    assert found is not None
    assert (found.title, found.source) == ("Mine", str(home / "codex.toml"))
    named, given = tmp_path / "named", tmp_path / "given"
    for folder, title in ((named, "Named"), (given, "Given")):
        folder.mkdir()
        (folder / "codex.toml").write_text(MINIMAL.replace("Mine", title))
    monkeypatch.setenv("SEATRIAL_AGENTS", str(named))
    assert [each.title for each in (find_preset("codex"), find_preset("codex", given)) if each] == ["Named", "Given"]


def test_another_version_is_another_recipe():
    assert recipe_of("codex", "0.1.0").npm == ("@openai/codex@0.1.0",)
    with pytest.raises(UsageError, match=r"there is no preset called 'nobody'; there are: .*claude-code"):
        recipe_of("nobody")
    with pytest.raises(UsageError, match="'1 ; rm' is not a version"):
        recipe_of("codex", "1 ; rm")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("title = ", "not TOML"),
        (MINIMAL.replace('"openai_chat"', '"latin"'), "dialect: expected .*found 'latin'"),
        (MINIMAL + "colour = 'red'\n", "colour: Extra inputs are not permitted, found 'red'"),
        (MINIMAL.replace('version = "1"\n', ""), "version: Field required"),
        (MINIMAL + "arguments = ['{modle}']\n", r"\{modle\} is no placeholder; there are model, "),
        (MINIMAL.replace('"mine"\nv', '"mine {model}"\nv'), r"command: \{model\} has no meaning in a shell line"),
        (MINIMAL + "continued = 'mine -c'\n", "sessions: expected where"),
        (MINIMAL + "files = [{path = '../x'}]\n", "files.0.path: expected a path below the agent's home"),
        (MINIMAL + "files = [{path = '/etc/x'}]\n", "files.0.path"),
        (MINIMAL + "sessions = '$(id)'\n", "sessions: "),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(home, text, said):
    (home / "mine.toml").write_text(text)
    with pytest.raises(UsageError, match=rf"(?s)mine\.toml: .*{said}"):
        find_preset("mine")


@pytest.mark.parametrize("kind", ["preset", "path", "function", "number", "failure"])
def test_entry_points_give_presets_or_their_paths(tmp_path, monkeypatch, kind):
    (tmp_path / "x.toml").write_text(MINIMAL)
    registered = {
        "preset": preset(name="x"),
        "path": tmp_path / "x.toml",
        "function": lambda: str(tmp_path / "x.toml"),
        "number": 5,
        "failure": lambda: 1 / 0,
    }[kind]
    monkeypatch.setattr(presets, "find_plugin", lambda group, name: registered if name == "x" else None)
    if kind in ("number", "failure"):
        with pytest.raises(UsageError, match="entry point"):
            find_preset("x")
    else:
        found = find_preset("x")
        assert found is not None
        assert (found.name, bool(found.source)) == ("x", True)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(UsageError, match="the preset cannot be read"):
        read_preset(tmp_path / "none.toml")


def test_the_users_own_have_other_names_too(home):
    (home / "mine.toml").write_text(f'{MINIMAL}aliases = ["my-own"]\n')
    found = find_preset("my-own")
    assert found is not None
    assert (found.name, found.source) == ("mine", str(home / "mine.toml"))


def test_what_is_no_file_is_no_preset(home):
    (home / "folder.toml").mkdir()
    (home / "gone.toml").symlink_to("nowhere")
    (home / ".toml").write_text("")
    assert preset_names() == sorted(OURS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('name = "codex"', "mine.toml: name: expected 'mine', as the file is called, found 'codex'"),
        ('skills = "../../x"', "mine.toml: skills: expected a path below the agent's home"),
        ('mcp = { style = "usual", file = "a/../../x" }', "mine.toml: mcp.file: expected a path below"),
    ],
)
def test_it_stays_below_its_own_home(home, text, said):
    (home / "mine.toml").write_text(f"{MINIMAL}{text}\n")
    with pytest.raises(UsageError, match=said):
        find_preset("mine")
