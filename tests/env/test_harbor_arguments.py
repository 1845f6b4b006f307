"""All arguments that HarborEnv and CliAgentEnv had in verifiers 0.1.9 to 0.3.1 are taken; the page explains each."""

from pathlib import Path
from typing import Any

import pytest

import seatrial as vf
from seatrial.env.mcp_servers import HarborMCPHealthcheck
from seatrial.env.sandbox_settings import WITHOUT_EFFECT, SandboxTimeouts
from tests.env.worlds import cli_env, evaluate, harbor_env, make_tasks, only, world

DOCS = Path(__file__).parents[2] / "docs/harborenv.md"
OF_AGENTS: dict[str, Any] = {
    "interception_port": 8765,
    "interception_url": "https://tunnel.example",
    "max_turns": 10,
    "timeout_seconds": 300.0,
    "poll_interval": 5.0,
    "docker_image": "python:3.11-slim",
    "start_command": "tail -f /dev/null",
    "cpu_cores": 1,
    "memory_gb": 2,
    "disk_size_gb": 5,
    "gpu_count": 0,
    "timeout_minutes": 60,
    "environment_vars": {"A": "1"},
    "team_id": "team",
    "advanced_configs": object(),
    "labels": ["mine"],
    "max_retries": 5,
    "base_delay": 0.5,
    "backoff_factor": 2.0,
    "max_backoff_seconds": 30.0,
    "jitter": 1e-3,
    "sandbox_client_max_workers": 10,
    "sandbox_client_max_connections": 1000,
    "sandbox_client_max_keepalive_connections": 200,
    "sandbox_wait_for_creation_max_attempts": 120,
    "sandbox_creations_per_minute": 128,
    "timeouts": SandboxTimeouts(read_file=20),
    "keep_sandbox_for_scoring": True,
}
OF_TASKS: dict[str, Any] = {
    "mcp_launch_commands": {"files": "serve"},
    "mcp_healthcheck": HarborMCPHealthcheck(retries=2),
}


def test_every_argument_can_be_given_and_is_found_on_the_environment(tmp_path):
    given = {**OF_AGENTS, **OF_TASKS}
    env = harbor_env(make_tasks(tmp_path), **given)
    assert {name: getattr(env, name) for name in given} == given
    assert only(evaluate(env))["error"] is None


def test_an_agent_without_a_task_takes_all_of_its_own():
    assert only(evaluate(cli_env(**OF_AGENTS)))["error"] is None


def test_a_typo_is_refused_with_the_name_that_was_meant(tmp_path):
    folder = make_tasks(tmp_path)
    for wrong, meant in [
        ("mcp_launch_comands", "mcp_launch_commands"),
        ("keep_sandbox_for_score", "keep_sandbox_for_scoring"),
    ]:
        options: dict[str, Any] = {wrong: None}
        with pytest.raises(vf.UnknownArgumentError, match=f"did you mean {meant}"):
            harbor_env(folder, **options)


def test_the_page_names_every_argument_and_why_some_change_nothing():
    page = DOCS.read_text()
    assert [name for name in {**OF_AGENTS, **OF_TASKS} if f"`{name}`" not in page] == []
    rows = [line for line in page.splitlines() if line.startswith("|")]
    for name, reason in WITHOUT_EFFECT.items():
        assert any(f"`{name}`" in row and reason in row for row in rows), name


def test_an_override_of_get_sandbox_resources_says_the_limits_of_a_rollout(tmp_path):
    class Large(vf.HarborEnv):
        def get_sandbox_resources(self, state):
            return {**super().get_sandbox_resources(state), "memory_gb": 2}

    backend = world()
    make_tasks(tmp_path, toml="[environment]\ncpus = 1\nmemory_mb = 100\n")
    only(evaluate(harbor_env(tmp_path, Large, backend=backend)))
    limits = backend.sandboxes[0].spec.limits
    assert (limits.cpus, limits.memory_mb) == (1, 2048)


@pytest.mark.parametrize(("resources", "message"), [({"gpu_count": 1}, "GPUs"), (None, "expected a table")])
def test_resources_that_cannot_be_had_are_an_error_of_the_rollout(tmp_path, resources, message):
    class Wrong(vf.HarborEnv):
        def get_sandbox_resources(self, state):
            return resources

    assert message in only(evaluate(harbor_env(make_tasks(tmp_path), Wrong)))["error"]["message"]


def test_an_override_of_create_sandbox_may_change_the_request():
    class Mine(vf.CliAgentEnv):
        async def create_sandbox(self, state, request):
            request.cpu_cores = 3
            return await super().create_sandbox(state, request)

    backend = world()
    only(evaluate(cli_env(kind=Mine, backend=backend)))
    assert backend.sandboxes[0].spec.limits.cpus == 3
