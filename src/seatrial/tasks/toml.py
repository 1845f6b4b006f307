"""task.toml to TaskConfig: the only file that knows Harbor's keys, their older spellings and their quirks."""

import unicodedata
from typing import Any

import tomli
from pydantic import ValidationError

from seatrial.model.base import check_json_object, plain
from seatrial.model.config import (
    AgentSpec,
    ArtifactSpec,
    Author,
    CheckSpec,
    CollectHook,
    OutputDeclaration,
    PackageSpec,
    StepSpec,
    TaskConfig,
    User,
    VerifierPhaseSpec,
)
from seatrial.model.output import OUTPUT_FORMATS, SCHEMA_GATES, VERDICT_SOURCES
from seatrial.tasks.machine import read_environment, read_healthcheck, read_network
from seatrial.tasks.table import Report, Table, given, is_huge

TASK_TOML = "task.toml"


def read_config(text: str) -> tuple[TaskConfig | None, Report]:
    """The configuration, None when the file is not TOML, and what was noticed. Errors are among the problems."""
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
