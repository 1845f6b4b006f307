"""task.toml to TaskConfig: the only file that knows Harbor's keys, their older spellings and their quirks."""

import json
import re
import unicodedata
from datetime import date, datetime, time
from functools import lru_cache
from typing import Any, get_args

import tomli
from pydantic import ValidationError

from seatrial.model.base import check_json_object, plain
from seatrial.model.output import OUTPUT_FORMATS, SCHEMA_GATES, VERDICT_SOURCES
from seatrial.model.task import (
    AgentSpec,
    ArtifactSpec,
    Author,
    CheckSpec,
    CollectHook,
    EnvironmentSpec,
    HealthcheckSpec,
    McpServerSpec,
    NetworkMode,
    NetworkPolicy,
    OutputDeclaration,
    PackageSpec,
    StepSpec,
    TaskConfig,
    TpuSpec,
    User,
    VerifierPhaseSpec,
)
from seatrial.tasks.table import Report, Table, given, is_huge

# The machine: image, limits, network, healthcheck, tool servers.

_MODES: tuple[NetworkMode, ...] = get_args(NetworkMode)
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", re.IGNORECASE)
_TO_MB = {"": 2**-20, "k": 2**-10, "m": 1, "g": 2**10, "t": 2**20}
_DRIVE = re.compile(r"[A-Za-z]:(?:[\\/]|$)")
_MOST_MB = 2**50
_CREDENTIAL = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)
_CREDENTIAL_TEMPLATE = re.compile(r"(?:(?:Bearer|Basic|Token)\s+)?\$\{[A-Za-z_][A-Za-z0-9_]*(?::-)?\}", re.IGNORECASE)


def read_environment(table: Table) -> EnvironmentSpec:
    """`[environment]` or `[verifier.environment]`."""
    environment = given(
        docker_image=_image(table),
        build_timeout_sec=table.number("build_timeout_sec", above=0),
        os=table.choice("os", ("linux", "windows")),
        cpus=table.number("cpus", above=0),
        memory_mb=_megabytes(table, "memory_mb", "memory"),
        storage_mb=_megabytes(table, "storage_mb", "storage"),
        gpus=table.whole("gpus", least=0),
        gpu_types=table.texts("gpu_types"),
        tpu=table.read("tpu", _tpu),
        env=table.variables("env"),
        workdir=_workdir(table),
        network=read_network(table),
        skills_dir=table.text("skills_dir"),
        mcp_servers=tuple(filter(None, map(_mcp_server, table.tables("mcp_servers")))),
        healthcheck=table.read("healthcheck", read_healthcheck),
    )
    table.done()
    return EnvironmentSpec(**environment)


def _image(table: Table) -> str | None:
    image = table.text("docker_image")
    if image is None and isinstance(table.peek("image"), str):
        fix = "rename `image` to `docker_image`"
        table.report.add("old-key", "note", table.key("image"), "read as `docker_image`", fix)
        return table.text("image")
    return image or None


def is_on_windows(path: str) -> bool:
    """Whether a path is one of Windows, such as `C:\\app`; nothing here has such a folder."""
    return _DRIVE.match(path) is not None


def _workdir(table: Table) -> str | None:
    workdir = table.text("workdir")
    if workdir is not None and not workdir.startswith("/") and not is_on_windows(workdir):
        table.report.wrong(table.key("workdir"), "an absolute path", workdir)
        return None
    return workdir


def _megabytes(table: Table, name: str, older: str) -> int | None:
    size = table.whole(name, least=1)
    text = table.text(older)
    if text is None:
        return size
    match = _SIZE.fullmatch(text)
    parsed = float(match[1]) * _TO_MB[match[2].lower()] if match else 0.0
    if not 1 <= parsed < _MOST_MB:
        table.report.wrong(table.key(older), 'a size such as "2G" or "512M"', text)
        return size
    if size is not None and size != int(parsed):
        message = f"{older} is {text} and {name} is {size}; {name} counts"
        table.report.add("contradiction", "warning", table.key(older), message, f"remove `{older}`")
    return int(parsed) if size is None else size


def _tpu(table: Table) -> TpuSpec | None:
    kind, topology = table.text("type"), table.text("topology")
    table.done()
    return TpuSpec(type=kind, topology=topology) if kind else None


def read_network(table: Table) -> NetworkPolicy | None:
    """The network policy of a table, None when it has none. `network_mode` beats the older spellings."""
    mode = table.choice("network_mode", _MODES)
    older = _older_mode(table)
    hosts = table.texts("allowed_hosts")
    if mode and older and mode != older:
        message = f"network_mode is {mode}, but an older key says {older}; network_mode counts"
        table.report.add("contradiction", "warning", table.key("network_mode"), message, "remove the older key")
    chosen = mode or older
    if hosts and chosen != "allowlist":
        message = f"allowed_hosts has no effect: the mode is {chosen or 'not set'}"
        table.report.add(
            "contradiction", "warning", table.key("allowed_hosts"), message, 'set network_mode = "allowlist"'
        )
    return _policy(chosen, hosts) if chosen else None


@lru_cache(maxsize=64)
def _policy(mode: NetworkMode, hosts: tuple[str, ...]) -> NetworkPolicy:
    """Most tasks have one of a few policies, which can share them because they never change."""
    return NetworkPolicy(mode=mode, allowed_hosts=hosts)


def _older_mode(table: Table) -> NetworkMode | None:
    """What `allow_internet`, `network = "…"` or `network.mode` say; any other use of `network` stays unknown."""
    allowed = table.flag("allow_internet")
    if allowed is not None:
        return "public" if allowed else "no-network"
    network = table.peek("network")
    word = network.get("mode") if isinstance(network, dict) and len(network) == 1 else network
    word = "no-network" if word == "none" else word
    if word not in _MODES:
        return None
    table.take("network")
    table.report.add("old-key", "note", table.key("network"), "read as `network_mode`", "rename it to `network_mode`")
    return _MODES[_MODES.index(word)]


def read_healthcheck(table: Table) -> HealthcheckSpec | None:
    """`[environment.healthcheck]` or a step's own."""
    command = table.text("command")
    check = given(
        command=command,
        interval_sec=table.number("interval_sec", least=0),
        timeout_sec=table.number("timeout_sec", above=0),
        start_period_sec=table.number("start_period_sec", least=0),
        start_interval_sec=table.number("start_interval_sec", least=0),
        retries=table.whole("retries", least=0),
    )
    table.done()
    if command is None:
        table.report.wrong(table.key("command"), "a command", None)
        return None
    return HealthcheckSpec(**check)


def _mcp_server(table: Table) -> McpServerSpec | None:
    name = table.text("name")
    server = given(
        name=name,
        transport=table.choice("transport", ("stdio", "sse", "streamable-http"), {"http": "streamable-http"}),
        url=table.text("url"),
        command=table.text("command"),
        args=table.texts("args"),
        headers=table.variables("headers"),
    )
    table.done()
    if name is None:
        table.report.wrong(table.key("name"), "a name", None)
        return None
    _refuse_credentials(server.get("headers", {}), table.key("headers"), table.report)
    return McpServerSpec(**server)


def _refuse_credentials(headers: dict[str, str], key: str, report: Report) -> None:
    for header, value in headers.items():
        if _CREDENTIAL.search(header) and not _CREDENTIAL_TEMPLATE.fullmatch(value):
            fix = 'write it as "${VARIABLE}" and set the variable on the host'
            report.add(
                "literal-credential", "error", f"{key}.{header}", "a credential must not stand in task.toml", fix
            )


# The whole file.

TASK_TOML = "task.toml"


@lru_cache(maxsize=16)
def read_config(text: str) -> tuple[TaskConfig | None, Report]:
    """The configuration, None when the file is not TOML, and what was noticed. Errors are among the problems.

    The tasks of a benchmark often have the same file: each of a few texts is read once, and what it says is shared.
    """
    report = Report(TASK_TOML)
    try:
        values = tomli.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        report.add("bad-toml", "error", None, f"not TOML: {error}", "correct the file at that place")
        return None, report
    return _config(Table(values, "", report)), report


def _config(table: Table) -> TaskConfig:
    steps = tuple(_step(step) for step in table.tables("steps"))
    _check_step_names(steps, table.report)
    with table.report.forgiving():
        metadata, package = _metadata(table), table.read("task", _package)
    config = given(
        schema_version=_version(table),
        source=table.text("source"),
        package=package,
        agent=table.read("agent", _agent),
        verifier=table.read("verifier", _verifier),
        environment=table.read("environment", read_environment),
        output=table.read("output", _output),
        check=_check(table),
        solution_env=table.read("solution", _solution),
        artifacts=_artifacts(table),
        steps=steps,
        multi_step_reward_strategy=table.choice("multi_step_reward_strategy", ("mean", "final")),
    )
    table.done()
    try:
        return TaskConfig(**config, metadata=metadata, extra=table.report.extra)
    except ValidationError:  # a value that JSON cannot hold, such as nan
        metadata = _storable(metadata, "metadata.", table.report)
        extra = _storable(table.report.extra, "", table.report)
        return TaskConfig(**config, metadata=metadata, extra=extra)


def _version(table: Table) -> str | None:
    versions = [_loose_text(table, "schema_version"), _loose_text(table, "version")]
    known = [version for version in versions if version is not None]
    if len(set(known)) > 1:
        message = f"schema_version is {known[0]} and version is {known[1]}; schema_version counts"
        table.report.add("two-versions", "note", "version", message, "remove `version`")
    return known[0] if known else None


def _metadata(table: Table) -> dict[str, Any]:
    value = table.take("metadata")
    if value is not None and not isinstance(value, dict):
        table.report.wrong("metadata", "a table", value)
    return plain(value) if isinstance(value, dict) else {}


def _storable(values: dict[str, Any], prefix: str, report: Report) -> dict[str, Any]:
    """`values` less the entries JSON cannot hold, each reported."""
    kept: dict[str, Any] = {}
    for name, value in values.items():
        try:
            kept |= check_json_object({name: value})
        except ValueError as error:
            report.add("not-storable", "warning", prefix + name, f"{error}; the value is left out", "write it as text")
    return kept


def _package(table: Table) -> PackageSpec:
    package = given(
        name=table.text("name"),
        version=_loose_text(table, "version"),
        description=table.text("description"),
        authors=_authors(table),
        keywords=table.texts("keywords"),
    )
    table.done()
    return PackageSpec(**package)


def _loose_text(table: Table, name: str) -> str | None:
    value = table.take(name)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and not is_huge(value):
        return str(value)
    table.report.wrong(table.key(name), "text", value)
    return None


def _authors(table: Table) -> tuple[Author, ...]:
    value = table.take("authors")
    authors = []
    for entry in value if isinstance(value, list) else []:
        name = entry.get("name") if isinstance(entry, dict) else entry
        email = entry.get("email") if isinstance(entry, dict) else None
        if isinstance(name, str):
            authors.append(Author(name=name, email=email if isinstance(email, str) else None))
        else:
            table.report.wrong(table.key("authors"), "texts or tables with a name", entry)
    if value is not None and not isinstance(value, list):
        table.report.wrong(table.key("authors"), "a list", value)
    return tuple(authors)


def _agent(table: Table) -> AgentSpec:
    agent = given(timeout_sec=_timeout(table), user=_user(table), network=read_network(table))
    table.done()
    return AgentSpec(**agent)


def _timeout(table: Table) -> float | None:
    for alias in ("timeout_seconds", "timeout"):
        if table.has(alias) and not table.has("timeout_sec"):
            fix = f"rename `{alias}` to `timeout_sec`"
            table.report.add("old-key", "note", table.key(alias), "read as `timeout_sec`", fix)
            return table.number(alias, above=0)
    return table.number("timeout_sec", above=0)


def _user(table: Table) -> User | None:
    value = table.take("user")
    if value is None or (isinstance(value, str | int) and not isinstance(value, bool)):
        return value
    table.report.wrong(table.key("user"), "a user name or number", value)
    return None


def _verifier(table: Table) -> VerifierPhaseSpec:
    environment = table.read("environment", read_environment)
    mode = table.choice("environment_mode", ("shared", "separate"))
    system = table.choice("system", ("image", "agent"))
    verifier = given(
        timeout_sec=_timeout(table),
        env=table.variables("env"),
        user=_user(table),
        workdir=table.text("workdir"),
        network=read_network(table),
        environment_mode=mode or ("separate" if environment else None),
        system=system,
        environment=environment,
        collect=tuple(filter(None, map(_collect, table.tables("collect")))),
        expected_output_path=table.text("expected_output_path"),
        schema_gate=table.choice("schema_gate", SCHEMA_GATES),
        verdict=table.choice("verdict", VERDICT_SOURCES),
        reward_path=table.text("reward_path"),
        details_path=table.text("details_path"),
    )
    table.done()
    return VerifierPhaseSpec(**verifier)


def _collect(table: Table) -> CollectHook | None:
    command = table.text("command")
    hook = given(
        command=command,
        service=table.text("service"),
        timeout_sec=table.number("timeout_sec", above=0),
        user=_user(table),
    )
    table.done()
    if command is None:
        table.report.wrong(table.key("command"), "a command", None)
        return None
    return CollectHook(**hook)


def _check(table: Table) -> CheckSpec:
    with table.report.forgiving():
        return table.read("check", _read_check) or CheckSpec()


def _read_check(table: Table) -> CheckSpec:
    reward = table.number("oracle_reward", least=0.0)
    if reward is not None and reward > 1.0:
        table.report.wrong(table.key("oracle_reward"), "a number from 0 to 1", reward)
        reward = None
    check = given(accept=table.texts("accept"), oracle_reward=reward)
    table.done()
    return CheckSpec(**check)


def _output(table: Table) -> OutputDeclaration:
    output = given(
        path=table.text("path"),
        format=table.choice("format", OUTPUT_FORMATS, {"markdown": "md", "text": "txt", "yml": "yaml"}),
        schema_file=table.text("schema"),
        required_keys=table.texts("required_keys"),
        schema_gate=table.choice("schema_gate", SCHEMA_GATES),
        max_bytes=table.whole("max_bytes", least=1),
    )
    table.done()
    return OutputDeclaration(**output)


def _solution(table: Table) -> dict[str, str]:
    env = table.variables("env")
    table.done()
    return env


def _artifacts(table: Table) -> tuple[ArtifactSpec, ...]:
    value = table.take("artifacts")
    if value is not None and not isinstance(value, list):
        table.report.wrong(table.key("artifacts"), "a list of paths or tables", value)
        return ()
    entries = (_artifact(entry, f"{table.key('artifacts')}[{n}]", table.report) for n, entry in enumerate(value or []))
    return tuple(filter(None, entries))


def _artifact(entry: Any, key: str, report: Report) -> ArtifactSpec | None:
    table = Table(entry if isinstance(entry, dict) else {"source": entry}, key, report)
    source, destination = table.text("source"), table.text("destination")
    artifact = given(
        source=source, destination=destination, exclude=table.texts("exclude"), service=table.text("service")
    )
    table.done()
    if source is None or ".." in source.split("/"):
        report.wrong(f"{key}.source", "a path without `..`", source)
        return None
    parts = (destination or "").split("/")
    if destination is not None and (destination.startswith("/") or ".." in parts or parts == ["manifest.json"]):
        report.wrong(f"{key}.destination", "a relative path without `..`, other than manifest.json", destination)
        return None
    return ArtifactSpec(**artifact)


def _step(table: Table) -> StepSpec:
    name = table.text("name")
    for alias in ("id", "dir", "path"):
        if name is None and isinstance(table.peek(alias), str):
            name = str(table.take(alias)).rstrip("/").rsplit("/", 1)[-1]
            table.report.add("old-key", "note", table.key(alias), "read as the step's `name`", "add `name`")
    if name is None or name in ("", ".", "..") or "/" in name:
        table.report.wrong(table.key("name"), "the name of a folder under steps/", name)
    step = given(
        name=name or "?",
        agent=table.read("agent", _agent),
        verifier=table.read("verifier", _verifier),
        min_reward=_min_reward(table),
        healthcheck=table.read("healthcheck", read_healthcheck),
        artifacts=_artifacts(table),
    )
    table.done()
    return StepSpec(**step)


def _min_reward(table: Table) -> float | dict[str, float] | None:
    if not isinstance(table.peek("min_reward"), dict):
        return table.number("min_reward")
    rewards = table.table("min_reward")
    return {name: number for name in rewards.names() if (number := rewards.number(name)) is not None}


def _check_step_names(steps: tuple[StepSpec, ...], report: Report) -> None:
    seen: dict[str, str] = {}
    for index, step in enumerate(steps):
        folded = unicodedata.normalize("NFKC", step.name).casefold()
        if folded in seen:
            report.wrong(
                f"steps[{index}].name", f"a name that differs from {seen[folded]!r} by more than case", step.name
            )
        seen[folded] = step.name


# task.toml as agents may see it: without `[check]`, which names what the verifier does not look at.

_TABLE = "check"
_HEADER = re.compile(r"\s*\[{1,2}\s*(\"check\"|'check'|check)\s*[.\]]")
_ANY_HEADER = re.compile(r"\s*\[")
_OWN_KEY = re.compile(r"\s*(\"check\"|'check'|check)\s*[.=]")


def without_check(config: bytes) -> bytes:
    """The same file without the table `check`, as its author wrote it; written anew where that cannot be shown.

    A file that cannot be read as TOML is not the business of this function, and stays as it is.
    """
    if _TABLE.encode() not in config and b"\\" not in config:  # a key may be written with escapes
        return config
    try:
        text = config.decode("utf-8-sig")
        values = tomli.loads(text)
    except ValueError:
        return config
    if _TABLE not in values:
        return config
    wanted = {key: value for key, value in values.items() if key != _TABLE}
    shorter = _without_lines(text)
    try:
        if tomli.loads(shorter) == wanted:
            return shorter.encode()
    except ValueError:
        pass
    return "".join(f"{_text(key)} = {_value(value)}\n" for key, value in wanted.items()).encode()


def _without_lines(text: str) -> str:
    """The text without the lines of the table, and without the comment above its header."""
    kept: list[str] = []
    inside, at_top = False, True
    for line in text.splitlines(keepends=True):
        if _ANY_HEADER.match(line):
            inside, at_top = bool(_HEADER.match(line)), False
            while inside and kept and kept[-1].lstrip().startswith("#"):
                kept.pop()
        if not inside and not (at_top and _OWN_KEY.match(line)):
            kept.append(line)
    return "".join(kept)


def _value(value: Any) -> str:
    """A value as TOML, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(key)} = {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    return value.isoformat() if isinstance(value, date | datetime | time) else repr(value)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
