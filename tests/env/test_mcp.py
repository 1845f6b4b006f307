"""MCP servers that an environment launches in the sandbox of a rollout; the hooks are those of mcp_mixin.py."""

import asyncio
from typing import Any

import pytest

import seatrial as vf
from seatrial.env.mcp import (
    HarborMCPHealthcheck,
    HarborMCPServer,
    mcp_agent_url,
    mcp_url_port,
    parse_mcp_servers,
    without_proxy,
)
from seatrial.env.rollout import State
from seatrial.testing.fake import FakeBackend, answer, command_line
from tests.env.worlds import COLUMNS, echo, evaluate, harbor_env, make_tasks, only, real_agent, record_of
from tests.trial.support import Desk


def config(**server: Any) -> dict[str, Any]:
    return {"environment": {"mcp_servers": [{"name": "a-b", **server}]}}


@pytest.mark.parametrize(
    ("url", "port", "inside"),
    [
        ("http://files.internal:8123/mcp", 8123, "http://127.0.0.1:8123/mcp"),
        ("https://me:x@files/sse?a=1", 443, "https://me:x@127.0.0.1:443/sse?a=1"),
        ("http://localhost", 80, "http://127.0.0.1:80"),
    ],
)
def test_a_server_is_found_at_its_port_inside_the_sandbox(url, port, inside):
    (server,) = parse_mcp_servers(config(url=url))
    assert (server.transport, mcp_url_port(server), mcp_agent_url(server)) == ("sse", port, inside)


@pytest.mark.parametrize(("entry", "lacks"), [({"transport": "http"}, "url"), ({"transport": "stdio"}, "command")])
def test_a_server_that_nobody_could_reach_is_refused(entry, lacks):
    with pytest.raises(vf.TaskFormatError, match=f"needs a `{lacks}`"):
        parse_mcp_servers(config(**entry))


def test_variables_name_the_servers_that_are_launched_and_those_that_are_elsewhere(tmp_path):
    servers = [{"name": name, "url": "http://far:81/"} for name in ("here", "far-off")]
    servers.append({"name": "own", "transport": "stdio", "command": "x"})
    env = harbor_env(make_tasks(tmp_path), mcp_launch_commands={"here": "serve"})
    named = asyncio.run(env.mcp_agent_env_vars({"environment": {"mcp_servers": servers}}, State()))
    assert named == {"HARBOR_MCP_HERE_URL": "http://127.0.0.1:81/", "HARBOR_MCP_FAR_OFF_URL": "http://far:81/"}


def test_no_proxy_is_asked_for_servers_that_are_launched(tmp_path):
    named = (("here", "http://near:81/"), ("far-off", "http://far:81/"), ("local", "http://localhost:82/"))
    servers = [{"name": name, "url": url} for name, url in named]
    env = harbor_env(make_tasks(tmp_path), mcp_launch_commands={"here": "serve", "local": "serve"})
    direct = asyncio.run(env._unproxied({"environment": {"mcp_servers": servers}}, State(), None))
    assert direct == {"NO_PROXY": "localhost,127.0.0.1,::1,near", "no_proxy": "localhost,127.0.0.1,::1,near"}
    assert without_proxy(["near"], "mine")["NO_PROXY"] == "mine,near"


TOML = """
[environment]
network_mode = "no-network"
[[environment.mcp_servers]]
name = "echo-it"
transport = "streamable-http"
url = "http://echo.internal:8123/mcp"
"""


@pytest.mark.parametrize("mode", ["no-network", "public"])
def test_servers_run_beside_the_agent_and_are_gone_before_it_is_judged(desk: Desk, tmp_path, mode):
    test = "pgrep -f http.server && exit 1\necho 1 > /logs/verifier/reward.txt\n"
    folder = make_tasks(tmp_path, toml=TOML.replace("no-network", mode), files={"tests/test.sh": test})
    agent = real_agent("assert urllib.request.urlopen('http://echo.internal:8123/').status == 200")
    launch = {"echo-it": "cd /srv && exec python3 -m http.server 8123"}
    env = harbor_env(folder, backend=desk.backend, run_command=agent, mcp_launch_commands=launch)
    output = only(desk.wait(env.evaluate(echo, "m", state_columns=COLUMNS, retries=0)))
    assert (output["error"], output["agent_stderr"], output["reward"]) == (None, "", 1.0)
    assert record_of(output).verifier_run.survivors == ()


def failed(tmp_path, serve, **check: Any) -> str:
    async def run(spec, sandbox):
        if command_line(spec) == "serve":
            return await serve()
        return answer(exit_code=int("/proc/net" in command_line(spec)))

    toml = TOML.replace("echo.internal", "localhost")
    env = harbor_env(
        make_tasks(tmp_path, toml=toml),
        backend=FakeBackend(run),
        mcp_launch_commands={"echo-it": "serve"},
        mcp_healthcheck=HarborMCPHealthcheck(**check),
    )
    return str(only(evaluate(env))["error"]["message"])


def test_a_server_that_ends_at_once_is_an_error_that_says_what_it_wrote(tmp_path):
    async def crash():
        return answer(stderr="no such module", exit_code=3)

    assert "ended with 3 before it was ready: no such module" in failed(tmp_path, crash)


def test_a_server_that_never_listens_is_an_error(tmp_path):
    async def hang():
        await asyncio.Event().wait()

    assert "was not ready at port 8123 within 0.02 s" in failed(tmp_path, hang, retries=2, interval_sec=0.01)


def test_a_check_of_ones_own_is_asked_with_the_port():
    assert HarborMCPHealthcheck("curl localhost:{port}").probe(81) == "curl localhost:81"
    assert ":0051 " in HarborMCPHealthcheck().probe(81)
    assert not HarborMCPServer("a", "stdio", "x").is_network
