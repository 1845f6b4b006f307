"""Trials of agents that presets describe: their settings, their version, their log, and the tools of a task."""

import json

from seatrial.gateway.access import ModelAccess
from seatrial.gateway.prices import PriceTable
from seatrial.gateway.session import SessionOptions
from seatrial.gateway.upstreams.scripted import ScriptedModel
from tests.agents.presets_made import COMMAND, options, preset
from tests.sandbox.embedded.support import needs_root
from tests.trial.support import Desk, Ran, trial_spec, write_task

TOOLS = """
[environment]
network_mode = "no-network"
skills_dir = "/app/skills"
[[environment.mcp_servers]]
name = "files"
transport = "stdio"
command = "serve"
"""
SKILL = {"environment/skills/greet/SKILL.md": "Say hello.\n"}
FILES = ({"path": "deep/settings.json", "content": {"url": "{base_url}", "key": "{api_key}", "model": "{model}"}},)
MCP = {"style": "usual", "file": "deep/settings.json"}


def run(desk: Desk, made, toml: str = "", files=None, **more) -> Ran:
    spec = trial_spec(write_task(desk.new_folder() / "task", toml=toml, files=files), options(made, **more))
    return desk.run_spec(spec, model=ModelAccess(ScriptedModel(["hello"]), SessionOptions(), PriceTable(models={})))


def test_a_preset_solves_a_task_and_its_log_and_version_are_recorded(desk):
    made = preset(arguments=("--model", "{model}"), files=FILES, mcp=MCP, skills="skills")
    ran = run(desk, made, toml=TOOLS, files=SKILL)
    assert ran.reward == 1.0
    assert (ran.record.agent.version, ran.record.agent.model) == ("1.2.3", "openai/m")
    settings = json.loads(ran.text("agent/logs/fake/deep/settings.json"))
    assert settings["url"].startswith("http://127.0.0.1:")
    assert settings["url"].endswith("/v1")
    assert (bool(settings["key"]), settings["model"]) == (True, "m")
    assert settings["mcpServers"] == {"files": {"command": "serve", "args": []}}
    assert ran.text("agent/logs/fake/said") == "--model|m|"
    assert ran.text("agent/logs/fake/skills/greet/SKILL.md") == "Say hello.\n"
    assert "Write the word" in ran.text("agent/logs/fake/log")


def test_any_command_finds_the_tools_of_a_task(desk):
    command = 'cat "$HARBOR_MCP_CONFIG" "$HARBOR_SKILLS_DIR/greet/SKILL.md"'
    ran = desk.attack(command, toml=TOOLS, files=SKILL)
    assert ran.record.failure is None
    found, _, skill = ran.text("agent/stdout.txt").rpartition("}\n")
    assert json.loads(f"{found}}}")["mcpServers"]["files"] == {"type": "stdio", "command": "serve", "args": []}
    assert skill == "Say hello.\n"
    plain = desk.attack('echo "${HARBOR_MCP_CONFIG-none} ${HARBOR_SKILLS_DIR-none}"; test ! -e /task/mcp.json')
    assert (plain.text("agent/stdout.txt"), plain.agent.exit_code) == ("none none\n", 0)


def test_a_program_that_does_not_start_is_no_zero_of_the_agent(desk):
    ran = run(desk, preset(version_command="no-such-program --version"))
    assert (ran.failure.cause, ran.failure.retryable) == ("AgentUnfitError", False)
    assert "'fake' does not start in the image 'host'" in ran.failure.message
    assert "ended with 127" in ran.failure.message
    assert "--agent-layer" in ran.failure.message
    broken = run(desk, preset(version_command="echo no library >&2; exit 126"))
    assert "said: no library. The image has another C library or architecture" in broken.failure.message


@needs_root
def test_settings_belong_to_the_user_that_the_agent_runs_as(desk):
    made = preset(files=FILES, command='test -O "$PWD" || stat -c %U /logs/agent/fake/deep/settings.json; id -un')
    ran = run(desk, made, toml='[agent]\nuser = "nobody"\n')
    assert ran.text("agent/stdout.txt").split() == ["nobody", "nobody"]


def test_a_later_step_goes_on_with_the_session(desk):
    toml = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    files = {f"steps/{name}/instruction.md": f"Do {name}.\n" for name in ("one", "two")}
    made = preset(continued=COMMAND.replace("'%s|'", "'on:%s|'"), sessions="lo*", arguments=("x",))
    ran = run(desk, made, toml=toml, files=files)
    assert ran.record.failure is None
    assert (ran.text("steps/one/agent/logs/fake/said"), ran.text("steps/two/agent/logs/fake/said")) == ("x|", "x|on:x|")
