"""Agents of presets: what is said to them, in words that nobody can break out of."""

import json
import shlex
import subprocess
from pathlib import Path

import pytest
import tomli
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.agents.api import AgentContext, AgentLaunch, make_agent, with_own_setup
from seatrial.agents.preset_agent import PresetAgent, fill, merged, settings_text
from seatrial.agents.presets import as_json, find_preset
from seatrial.errors import AgentSetupError, UsageError
from seatrial.model.job import AgentLayer, AgentOptions
from seatrial.model.preset import Preset
from seatrial.tasks.load import load_task
from tests.agents.presets_made import options, preset
from tests.trial.support import write_task

REACHED = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_API_KEY": "st-key", "OPENAI_MODEL": "m"}
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30)
MCP = '[[environment.mcp_servers]]\nname = "w"\ntransport = "stdio"\ncommand = "serve {model}"\n'


def shipped(name: str) -> Preset:
    found = find_preset(name)
    assert found is not None
    return found


def launch(root: Path, agent_options: AgentOptions, step: int | None = None) -> AgentLaunch:
    task = load_task(root)
    context = AgentContext(task, None if step is None else task.steps[step], "/app", {})
    prepared = make_agent(agent_options).prepare(context)
    assert prepared is not None
    return prepared.finished(REACHED)


def written(script: str, home: Path) -> str:
    """Run the part of a script that writes settings, below another home, and return what it says."""
    ran = subprocess.run(["/bin/sh", "-c", script.replace("/logs/agent", str(home))], capture_output=True, check=True)
    return ran.stdout.decode()


def test_a_preset_is_an_agent_by_its_name(tmp_path):
    agent = make_agent(AgentOptions(name="claude-code", model="anthropic/claude-x"))
    assert isinstance(agent, PresetAgent)
    assert agent.ref.model == "anthropic/claude-x"
    made = launch(write_task(tmp_path / "task"), AgentOptions(name="claude-code", model="anthropic/claude-x"))
    assert made.argv[3:6] == ("claude-code", "--model", "claude-x")
    assert made.env["CLAUDE_CONFIG_DIR"] == "/logs/agent/claude-code"
    assert made.env["OPENAI_MODEL"] == "m"


def test_the_job_keeps_preset_and_recipe_unless_the_user_brings_the_agent():
    chosen = with_own_setup(AgentOptions(name="codex", version="0.1.0", model="m"))
    assert chosen.preset == as_json(shipped("codex"))
    assert chosen.recipe is not None
    assert chosen.recipe.version == "0.1.0"
    assert with_own_setup(chosen) == chosen
    layer = with_own_setup(AgentOptions(name="codex", layer=AgentLayer(source="/tree")))
    setup = with_own_setup(AgentOptions(name="codex", setup="install it"))
    assert [each.recipe for each in (layer, setup)] == [None, None]
    assert all(each.preset for each in (layer, setup))
    assert with_own_setup(AgentOptions(name="oracle")).preset is None


@pytest.mark.parametrize(
    ("name", "given_options", "said"),
    [
        ("codex", {"max_turn": "5"}, "no option 'max_turn'; it has: effort, .*web_tools, session"),
        ("codex", {"effort": "huge"}, "found 'huge', expected one of none, minimal"),
        ("qwen-code", {"max_turns": "-1"}, "expected a whole number above 0"),
        ("qwen-code", {"max_turns": "1e3"}, "expected a whole number above 0"),
        ("claude-code", {"system_prompt": ""}, "expected some text"),
    ],
)
def test_options_that_it_does_not_have_are_refused(name, given_options, said):
    with pytest.raises(UsageError, match=said):
        make_agent(AgentOptions(name=name, options=given_options))


def test_a_command_beside_a_preset_or_options_beside_a_command_are_refused():
    with pytest.raises(UsageError, match="has a command of its own"):
        make_agent(AgentOptions(name="codex", command="x"))
    with pytest.raises(UsageError, match="no version and no options"):
        make_agent(AgentOptions(name="command", command="x", options={"a": "b"}))


def test_without_a_model_it_cannot_start(tmp_path):
    agent = make_agent(AgentOptions(name="codex", model="m"))
    prepared = agent.prepare(AgentContext(load_task(write_task(tmp_path / "task")), None, "/app", {}))
    assert prepared is not None
    with pytest.raises(AgentSetupError, match="needs a model"):
        prepared.finished({})


def test_options_are_said_as_the_agent_wants_them(tmp_path):
    root = write_task(tmp_path / "task")
    said = {"max_turns": "7", "web_tools": "on"}
    gemini = launch(root, AgentOptions(name="gemini-cli", model="m", options=said))
    config = json.loads(
        written(
            f"{gemini.argv[2].rpartition(chr(10))[0]}\ncat {tmp_path}/x/gemini-cli/.gemini/settings.json",
            tmp_path / "x",
        )
    )
    assert config["model"] == {"maxSessionTurns": 7}
    assert "tools" not in config
    claude = launch(root, AgentOptions(name="claude-code", model="m", options={"reasoning_effort": "high"}))
    assert claude.argv[-2:] == ("--effort", "high")
    assert "--disallowedTools=WebSearch,WebFetch" in claude.argv
    own = launch(
        root, AgentOptions(name="kimi-code", model="m", options={"max_turns": "3"}, env={"KIMI_CODE_HOME": "/h"})
    )
    assert (own.env["KIMI_LOOP_MAX_STEPS_PER_TURN"], own.env["KIMI_CODE_HOME"]) == ("3", "/h")


def test_servers_of_a_task_are_merged_into_its_settings(tmp_path):
    root = write_task(tmp_path / "task", toml=f"[environment]\n{MCP}")
    codex = launch(root, AgentOptions(name="codex", model="m"))
    text = written(f"{codex.argv[2].rpartition(chr(10))[0]}\ncat {tmp_path}/x/codex/config.toml", tmp_path / "x")
    config = tomli.loads(text)
    assert config["mcp_servers"] == {"w": {"command": "serve {model}", "args": []}}
    assert config["model_providers"]["seatrial"]["base_url"] == "http://127.0.0.1:9/v1"
    assert config["web_search"] == "disabled"
    claude = launch(root, AgentOptions(name="claude-code", model="m"))
    assert "--mcp-config=/logs/agent/claude-code/mcp.json" in claude.argv
    assert "mcp" not in "".join(
        launch(write_task(tmp_path / "other"), AgentOptions(name="claude-code", model="m")).argv
    )


def test_a_later_step_goes_on_with_the_session_that_is_there(tmp_path):
    files = {f"steps/{name}/instruction.md": "Do.\n" for name in ("one", "two")}
    root = write_task(tmp_path / "task", toml='[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n', files=files)
    made = preset(command="echo new", continued="echo on", sessions="s/*.json")
    first, second = (launch(root, options(made), step).argv[2] for step in (0, 1))
    fresh = launch(root, options(made, options={"session": "fresh"}), 1).argv[2]
    assert [written(script, tmp_path / "x") for script in (first, second, fresh)] == ["new\n"] * 3
    (tmp_path / "x/fake/s").mkdir()
    (tmp_path / "x/fake/s/a.json").touch()
    assert [written(script, tmp_path / "x") for script in (first, second, fresh)] == ["new\n", "on\n", "new\n"]


@given(WORDS, WORDS)
@settings(max_examples=25, deadline=None)
def test_no_name_or_option_can_break_out(tmp_path_factory, model, value):
    """What users say stands in arguments, variables, JSON and TOML as it is, and is never run."""
    folder = tmp_path_factory.mktemp("broken")
    content = {"said": "{value}", "{model}": ["a {value} b"]}
    files = tuple({"path": name, "content": content} for name in ("a.json", "b.toml"))
    option = {"help": "", "arguments": ("--x={value}",), "variables": {"X": "{value}"}, "files": files}
    made = preset(command='printf %s "$1"', options={"x": option})
    root = folder / "task"
    write_task(root)
    ready = launch(root, options(made, model=model, options={"x": value}))
    script = ready.argv[2].replace("/logs/agent", str(folder))
    ran = subprocess.run([*ready.argv[:2], script, *ready.argv[3:]], capture_output=True, check=True)
    name = str(fill("{model}", {"model": model.partition("/")[2] or model})) if _provided(model) else model
    expected = {"said": value, name: [f"a {value} b"]} if name != "said" else {"said": [f"a {value} b"]}
    assert ran.stdout.decode() == f"--x={value}"
    assert ready.env["X"] == value
    assert json.loads((folder / "fake/a.json").read_text("utf-8")) == expected
    assert tomli.loads((folder / "fake/b.toml").read_bytes().decode()) == expected
    assert sorted(path.name for path in (folder / "fake").iterdir()) == ["a.json", "b.toml"]


def _provided(model: str) -> bool:
    return model.partition("/")[0] in ("anthropic", "google", "gemini", "openai")


def test_placeholders_are_filled_in_once():
    assert fill("{a}-{b}-{c}", {"a": "{b}", "b": "x"}) == "{b}-x-{c}"
    assert fill({"{a}": ["{n}", 1]}, {"a": "k", "n": 5}) == {"k": [5, 1]}


def test_its_commands_are_shell_lines():
    for name in ("claude-code", "codex", "aider"):
        assert shlex.split(shipped(name).command)


def test_a_job_with_a_preset_that_nobody_wrote_is_refused():
    with pytest.raises(UsageError, match="the preset of the agent 'codex': version: Field required"):
        make_agent(AgentOptions(name="codex", preset={"name": "codex"}))


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
VALUES = st.recursive(
    TEXTS | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
SETTINGS = st.dictionaries(TEXTS, VALUES, max_size=4)


@given(SETTINGS)
def test_a_file_says_what_was_meant(settings):
    assert tomli.loads(settings_text("config.toml", settings)) == settings
    assert json.loads(settings_text("settings.json", settings)) == settings


def test_what_is_nothing_has_no_place_in_toml():
    assert settings_text("a.toml", {"a": None, "b": {"c": None, "d": 1}}) == "[b]\nd = 1\n"


def test_tables_are_merged_and_all_else_is_replaced():
    below = {"a": {"b": 1, "c": [1]}, "d": "x"}
    assert merged(below, {"a": {"c": [2], "e": 3}, "d": {"f": 4}}) == {"a": {"b": 1, "c": [2], "e": 3}, "d": {"f": 4}}
    assert below == {"a": {"b": 1, "c": [1]}, "d": "x"}
