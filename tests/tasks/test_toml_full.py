"""One task.toml with every key of the format, and where each of them ends up."""

from seatrial.model.config import (
    AgentSpec,
    ArtifactSpec,
    Author,
    CollectHook,
    EnvironmentSpec,
    HealthcheckSpec,
    McpServerSpec,
    NetworkPolicy,
    OutputDeclaration,
    PackageSpec,
    StepSpec,
    TaskConfig,
    TpuSpec,
    VerifierPhaseSpec,
)
from seatrial.tasks.toml import read_config

FULL = """
schema_version = "1.4"
source = "plant-bench"
artifacts = ["/workspace/plots", {source = "/var/log/app", destination = "logs", exclude = ["*.tmp"], service = "db"}]
multi_step_reward_strategy = "final"

[task]
name = "acme/pump"
version = "2.1"
description = "Choose a pump"
authors = [{name = "Ada", email = "ada@example.com"}, {name = "Bo"}]
keywords = ["pump", "flow"]

[metadata]
difficulty = "hard"
tags = ["a", "b"]
expert_time_estimate_min = 30

[agent]
timeout_sec = 900
user = "agent"
network_mode = "allowlist"
allowed_hosts = ["example.com", "*.example.org", "10.0.0.0/8"]

[verifier]
timeout_sec = 120.5
env = {KEY = "${KEY}", LEVEL = "${LEVEL:-info}"}
user = 0
workdir = "/tests"
network_mode = "no-network"
environment_mode = "separate"
expected_output_path = "/workspace/out.json"
schema_gate = "zero"
verdict = "exit_status"
reward_path = "/logs/verifier/score.json"
details_path = "/logs/verifier/why.json"

[verifier.environment]
docker_image = "judge:1"

[[verifier.collect]]
command = "pg_dump > /logs/artifacts/db.sql"
service = "db"
timeout_sec = 30
user = "postgres"

[environment]
docker_image = "python:3.11-slim"
build_timeout_sec = 300
os = "linux"
cpus = 2
memory_mb = 2048
storage_mb = 10240
gpus = 1
gpu_types = ["A100"]
env = {MODE = "test"}
workdir = "/workspace"
network_mode = "public"
skills_dir = "/skills"

[environment.tpu]
type = "v5e"
topology = "2x2"

[[environment.mcp_servers]]
name = "files"
transport = "http"
url = "http://files:8000/mcp"
headers = {Authorization = "Bearer ${TOKEN}"}

[environment.healthcheck]
command = "curl -f localhost"
interval_sec = 1
timeout_sec = 2
start_period_sec = 3
start_interval_sec = 4
retries = 5

[output]
path = "/workspace/out.json"
format = "json"
schema = "tests/schema.json"
required_keys = ["pump"]
schema_gate = "report"
max_bytes = 1000

[solution]
env = {SEED = "1"}

[[steps]]
name = "choose"
min_reward = 0.5
artifacts = ["/workspace/choice.json"]
agent = {timeout_sec = 60}
verifier = {timeout_sec = 30}
healthcheck = {command = "true"}

[[steps]]
name = "install"
min_reward = {correctness = 1, speed = 0.5}
"""


def test_every_key_of_the_format_has_its_place():
    config, report = read_config(FULL)
    assert report.problems == []
    assert config == TaskConfig(
        schema_version="1.4",
        source="plant-bench",
        package=PackageSpec(
            name="acme/pump",
            version="2.1",
            description="Choose a pump",
            authors=(Author(name="Ada", email="ada@example.com"), Author(name="Bo")),
            keywords=("pump", "flow"),
        ),
        metadata={"difficulty": "hard", "tags": ["a", "b"], "expert_time_estimate_min": 30},
        agent=AgentSpec(
            timeout_sec=900.0,
            user="agent",
            network=NetworkPolicy(mode="allowlist", allowed_hosts=("example.com", "*.example.org", "10.0.0.0/8")),
        ),
        verifier=VerifierPhaseSpec(
            timeout_sec=120.5,
            env={"KEY": "${KEY}", "LEVEL": "${LEVEL:-info}"},
            user=0,
            workdir="/tests",
            network=NetworkPolicy(mode="no-network"),
            environment_mode="separate",
            environment=EnvironmentSpec(docker_image="judge:1"),
            collect=(
                CollectHook(
                    command="pg_dump > /logs/artifacts/db.sql", service="db", timeout_sec=30.0, user="postgres"
                ),
            ),
            expected_output_path="/workspace/out.json",
            schema_gate="zero",
            verdict="exit_status",
            reward_path="/logs/verifier/score.json",
            details_path="/logs/verifier/why.json",
        ),
        environment=EnvironmentSpec(
            docker_image="python:3.11-slim",
            build_timeout_sec=300.0,
            os="linux",
            cpus=2.0,
            memory_mb=2048,
            storage_mb=10240,
            gpus=1,
            gpu_types=("A100",),
            tpu=TpuSpec(type="v5e", topology="2x2"),
            env={"MODE": "test"},
            workdir="/workspace",
            network=NetworkPolicy(mode="public"),
            skills_dir="/skills",
            mcp_servers=(
                McpServerSpec(
                    name="files",
                    transport="streamable-http",
                    url="http://files:8000/mcp",
                    headers={"Authorization": "Bearer ${TOKEN}"},
                ),
            ),
            healthcheck=HealthcheckSpec(
                command="curl -f localhost",
                interval_sec=1.0,
                timeout_sec=2.0,
                start_period_sec=3.0,
                start_interval_sec=4.0,
                retries=5,
            ),
        ),
        output=OutputDeclaration(
            path="/workspace/out.json",
            format="json",
            schema_file="tests/schema.json",
            required_keys=("pump",),
            schema_gate="report",
            max_bytes=1000,
        ),
        solution_env={"SEED": "1"},
        artifacts=(
            ArtifactSpec(source="/workspace/plots"),
            ArtifactSpec(source="/var/log/app", destination="logs", exclude=("*.tmp",), service="db"),
        ),
        steps=(
            StepSpec(
                name="choose",
                min_reward=0.5,
                artifacts=(ArtifactSpec(source="/workspace/choice.json"),),
                agent=AgentSpec(timeout_sec=60.0),
                verifier=VerifierPhaseSpec(timeout_sec=30.0),
                healthcheck=HealthcheckSpec(command="true"),
            ),
            StepSpec(name="install", min_reward={"correctness": 1.0, "speed": 0.5}),
        ),
        multi_step_reward_strategy="final",
    )


def test_an_empty_file_is_a_task_with_the_defaults_of_the_format():
    config, report = read_config("")
    assert (config, report.problems) == (TaskConfig(), [])
    assert config is not None
    assert (config.schema_version, config.agent.timeout_sec, config.verifier.timeout_sec) == ("1.4", None, 600.0)
    assert config.verifier.environment_mode == "shared"
    assert config.multi_step_reward_strategy == "mean"
