"""What is said of agents and tasks that do not quite go together."""

from seatrial.agents.api import with_own_setup
from seatrial.jobs.agent_notices import agent_notices
from seatrial.model.job import AgentLayer, AgentOptions, TrialOptions
from seatrial.model.preset import Preset
from seatrial.tasks.load import read_folder
from seatrial.tasks.outline import TaskOutline
from tests.agents.presets_made import options, preset

TOOLS = '[environment]\nmemory_mb = 256\nskills_dir = "/s"\nmcp_servers = [{name = "m", url = "http://m"}]\n'


def said(make_task, *agents: Preset | str, **trial) -> list[str]:
    read = (read_folder(make_task(name, toml=TOOLS), name) for name in ("one", "two"))
    tasks = [task for task in read if isinstance(task, TaskOutline)]
    made = [with_own_setup(AgentOptions(name=each)) if isinstance(each, str) else options(each) for each in agents]
    return agent_notices(made, tasks, TrialOptions(**trial))


def test_agents_that_have_no_preset_are_not_judged(make_task):
    assert said(make_task, "oracle", "noop") == []


def test_little_memory_is_said_with_the_way_out(make_task):
    short = preset(least_memory_mb=512, mcp={"style": "usual", "file": "m.json"}, skills="s")
    (line,) = said(make_task, short)
    assert "takes 512 MB of memory, and one and 1 more gives it 256 MB; --memory 512M" in line
    assert said(make_task, short, memory_mb=512) == []


def test_tools_that_it_cannot_use_are_named(make_task):
    assert said(make_task, preset()) == [
        "the agent 'fake' cannot use MCP servers, and works without 'm' of one (and 1 more)",
        "the agent 'fake' knows no skills, and works without those of one and 1 more",
    ]
    only = preset(mcp={"style": "codex", "file": "m.toml", "transports": ("stdio",)}, skills="s")
    assert "cannot use MCP servers by sse" in said(make_task, only)[0]


def test_one_of_the_users_own_in_the_place_of_ours_is_said(make_task):
    own = preset(name="codex", source="/mine/codex.toml", mcp={"style": "usual", "file": "m.json"}, skills="s")
    assert said(make_task, own) == [
        "the agent 'codex' is that of /mine/codex.toml, before the one that comes with Seatrial"
    ]


def test_a_layer_that_verifiers_would_use_too_is_said(tmp_path):
    (tmp_path / "opt/mine").mkdir(parents=True)
    (tmp_path / "opt/mine/agent").touch()
    agent = AgentOptions(name="command", command="x", layer=AgentLayer(source=str(tmp_path)))
    assert agent_notices([agent], [], TrialOptions()) == []
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/python3").touch()
    (tmp_path / "usr/bin/sh").symlink_to("/opt/mine/agent")
    (line,) = agent_notices([agent], [], TrialOptions())
    assert "the layer of the agent 'command' brings '/usr/bin/python3' and 1 more outside of /opt" in line
