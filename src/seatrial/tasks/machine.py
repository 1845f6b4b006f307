"""The parts of task.toml that describe a machine: image, limits, network, healthcheck, tool servers."""

import re
from functools import lru_cache
from typing import get_args

from seatrial.model.config import EnvironmentSpec, HealthcheckSpec, McpServerSpec, NetworkMode, NetworkPolicy, TpuSpec
from seatrial.tasks.table import Report, Table, given

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
