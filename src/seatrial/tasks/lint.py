"""Lint: what a task's author would want to know before anyone runs it. Ordered small checks with stable codes.

Loading reports what task.toml gets wrong; the checks here look at how configuration, instruction and tests fit.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import chain

from seatrial.model.loaded_task import Problem, Task
from seatrial.tasks.instruction import strip_canary
from seatrial.tasks.layout import read_text
from seatrial.tasks.lint_image import missing_sources
from seatrial.tasks.lint_tests import (
    TESTS_CHECKS,
    Unit,
    new_problem,
    read_unit,
)
from seatrial.tasks.needs import needs_of
from seatrial.tasks.outline import TaskOutline
from seatrial.tasks.toml import TASK_TOML

_TEMPLATE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}")
_MAX_DOCKERFILE_BYTES = 2**20
Check = Callable[[Task, Mapping[str, str]], Iterator[Problem]]


def lint(task: Task, environ: Mapping[str, str] = os.environ) -> list[Problem]:
    """Every problem of a loaded task, in the order of the checks; `environ` is where `${VAR}` is looked up."""
    own = chain.from_iterable(check(task, environ) for check in CHECKS)
    of_tests = chain.from_iterable(check(unit) for unit in _units(task) for check in TESTS_CHECKS)
    # Steps share the root tests: what is wrong there is said once.
    return [*task.problems, *own, *dict.fromkeys(of_tests)]


def _units(task: Task) -> list[Unit]:
    """What is judged on its own: the task, or each of its steps with the tests they share."""
    dockerfile = _dockerfile(task)
    if not task.steps:
        units = [read_unit(task.root, ("tests",), task.layout, task.output, task.config)]
    else:
        units = [
            read_unit(task.root, ("tests", f"steps/{step.spec.name}/tests"), step.layout, step.output, task.config)
            for step in task.steps
        ]
    return [replace(unit, dockerfile=dockerfile) for unit in units]


def _dockerfile(task: Task) -> str | None:
    """The Dockerfile of the image that the verifiers run in; None where it is another image or a verifier's own."""
    return None if _is_separate(task) else _built(task, task.layout.dockerfile)


def _is_separate(task: Task) -> bool:
    phases = [task.config.verifier, *(step.verifier for step in task.config.steps)]
    return any(phase.environment_mode == "separate" for phase in phases)


def _built(task: Task, dockerfile: str | None) -> str | None:
    """The text of a Dockerfile that an image of the task is built from; None where it is named or put together."""
    if dockerfile is None or task.config.environment.docker_image or task.layout.compose_file:
        return None
    with suppress(ValueError):
        return read_text(task.root / dockerfile, _MAX_DOCKERFILE_BYTES)
    return None


def _missing_sources(task: Task, _: Mapping[str, str]) -> Iterator[Problem]:
    layouts = [task.layout, *(step.layout for step in task.steps)] if _is_separate(task) else []
    for file in dict.fromkeys([task.layout.dockerfile, *(layout.verifier_dockerfile for layout in layouts)]):
        if file is None or (text := _built(task, file)) is None:
            continue
        for line, why in missing_sources(task.root / file, text):
            fix = "put it there, or copy something else: where a source is missing no image can be built"
            yield new_problem("missing-source", "warning", file, f"line {line}: {why}", fix)


def _empty_instruction(task: Task, _: Mapping[str, str]) -> Iterator[Problem]:
    for layout in [task.layout, *(step.layout for step in task.steps)]:
        if layout.instruction and not strip_canary((task.root / layout.instruction).read_text("utf-8")).strip():
            yield new_problem(
                "empty-instruction", "warning", layout.instruction, "the agent is told nothing", "say what to do"
            )


def _unset_variables(task: Task, environ: Mapping[str, str]) -> Iterator[Problem]:
    for table, values in _env_tables(task):
        for name, value in values.items():
            match = _TEMPLATE.search(value)
            key = f"{table}.{name}"
            if match and match.group() != value:
                message = f"{value!r} is used as it stands: a template must be the whole value"
                yield new_problem(
                    "partial-template", "warning", TASK_TOML, message, f'write "{match.group()}" alone', key
                )
            elif match and match[2] is None and match[1] not in environ:
                message = f"the variable {match[1]} is not set on this machine and has no default"
                fix = f"set {match[1]}, or write ${{{match[1]}:-default}}"
                yield new_problem("unset-variable", "warning", TASK_TOML, message, fix, key)


def _env_tables(task: Task) -> Iterator[tuple[str, dict[str, str]]]:
    config = task.config
    yield "environment.env", config.environment.env
    yield "verifier.env", config.verifier.env
    yield "solution.env", config.solution_env
    for server in config.environment.mcp_servers:
        yield "environment.mcp_servers.headers", server.headers
    if config.verifier.environment:
        yield "verifier.environment.env", config.verifier.environment.env
    for index, step in enumerate(config.steps):
        yield f"steps[{index}].verifier.env", step.verifier.env


def _no_image(task: Task, _: Mapping[str, str]) -> Iterator[Problem]:
    if not (task.config.environment.docker_image or task.layout.dockerfile or task.layout.compose_file):
        message = "neither docker_image nor environment/Dockerfile: the default image is used"
        fix = "name the image the task was tried with"
        yield new_problem("no-image", "note", TASK_TOML, message, fix, "environment.docker_image")


def _no_solution(task: Task, _: Mapping[str, str]) -> Iterator[Problem]:
    if not (task.layout.solution_script or any(step.layout.solution_script for step in task.steps)):
        message = "without solution/solve.sh nobody can show that the task is solvable"
        yield new_problem("no-solution", "note", "solution/solve.sh", message, "add the reference solution")


def _bad_schema(task: Task, _: Mapping[str, str]) -> Iterator[Problem]:
    schema = task.output.shape.json_schema
    if schema is None:
        return
    from jsonschema.exceptions import SchemaError  # noqa: PLC0415 - slow to import and rarely needed
    from jsonschema.validators import Draft202012Validator, validator_for  # noqa: PLC0415 - slow, and few tasks have a schema

    try:
        draft = schema.get("$schema")
        kind = validator_for(schema, default=Draft202012Validator) if isinstance(draft, str) else Draft202012Validator
        kind.check_schema(schema)
    except SchemaError as error:
        message = f"not a valid JSON Schema at {error.json_path}: {error.message}"
        # A run only notes it: nobody loses a reward over a schema that cannot be used.
        yield new_problem("bad-schema", "warning", task.config.output.schema_file or "", message, "correct it there")


def _unmet_needs(task: Task, _: Mapping[str, str]) -> Iterator[Problem]:
    for need in needs_of(task):
        message = f"asks for {need.what}; no sandbox here gives that, so a run refuses the task"
        yield new_problem(need.code, "warning", need.file, message, need.fix, need.key)


def _odd_servers(task: Task, _: Mapping[str, str]) -> Iterator[Problem]:
    key = "environment.mcp_servers"
    names = [server.name for server in task.config.environment.mcp_servers]
    for name in sorted({name for name in names if names.count(name) > 1}):
        message = f"several MCP servers are called {name!r}; agents get only the last one"
        yield new_problem("mcp-server", "warning", TASK_TOML, message, "give each a name of its own", key)
    for server in task.config.environment.mcp_servers:
        lacks = "command" if server.transport == "stdio" else "url"
        if not getattr(server, lacks):
            message = f"the MCP server {server.name!r} has the transport {server.transport!r} and no {lacks}"
            fix = f"give it a `{lacks}`, or another transport"
            yield new_problem("mcp-server", "warning", TASK_TOML, message, fix, key)


def _uncertain_output(task: Task, _: Mapping[str, str]) -> Iterator[Problem]:
    for output in [step.output for step in task.steps] or [task.output]:
        if output.source in ("guessed", "none"):
            guess = f" (a guess: {output.path})" if output.path else ""
            message = f"no output path is declared or asked for{guess}, so no output is checked"
            fix = 'set `path` in [output], or say "write … to `/workspace/…`" in the instruction'
            yield new_problem("no-output-path", "note", TASK_TOML, message, fix, "output.path")


CHECKS: tuple[Check, ...] = (
    _empty_instruction,
    _unset_variables,
    _no_image,
    _missing_sources,
    _no_solution,
    _bad_schema,
    _uncertain_output,
    _unmet_needs,
    _odd_servers,
)


def errors_of(task: TaskOutline) -> list[Problem]:
    """What lint calls an error."""
    return [problem for problem in lint(task.task()) if problem.severity == "error"]
