"""Resolves what a task expects: the output's path, format and shape, and the VerifierSpec, with the reasons kept."""

import posixpath
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter

from seatrial.model.base import JsonObject
from seatrial.model.output import OutputSpec, PathCandidate, ShapeSpec, VerifierSpec, format_of
from seatrial.model.task import TaskConfig, VerifierPhaseSpec
from seatrial.tasks.instruction import named_paths
from seatrial.tasks.layout import read_text
from seatrial.tasks.table import Report
from seatrial.verifier_kit import Block, json_blocks

DEFAULT_WORKDIR = "/app"
_WORKSPACE = "/workspace"
_KEYED_FORMATS = ("json", "jsonl", "md")
_MAX_SCHEMA_BYTES = 2**20
_JSON_OBJECT: TypeAdapter[dict[str, Any]] = TypeAdapter(JsonObject)
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*+)"(\s*:)?|(["{}\[\]])', re.DOTALL)
_OPENING, _CLOSING = ("{", "["), ("}", "]")


def resolve_verifier(phase: VerifierPhaseSpec, output: OutputSpec, script: str | None) -> VerifierSpec:
    """The verifier's contract; a task without a test script still names the one it should have."""
    return VerifierSpec(
        script=script or "tests/test.sh",
        expected_output_path=output.path or "",
        reward_path=phase.reward_path,
        details_path=phase.details_path,
    )


def resolve_output(
    config: TaskConfig, phase: VerifierPhaseSpec, instruction: str, workdir: str, schema: dict[str, Any] | None
) -> OutputSpec:
    """Where the answer is expected and what it must look like. `schema` is the task's JSON Schema, when it has one."""
    declared = phase.expected_output_path or config.output.path
    candidates = named_paths(instruction, _work_roots(workdir), workdir)
    chosen = _choose(candidates)
    if declared is None and chosen is None:
        return OutputSpec(candidates=candidates)
    path = posixpath.join(workdir, declared) if declared else chosen.path if chosen else ""
    file_format = config.output.format or format_of(path)
    blocks = json_blocks(instruction) if file_format in _KEYED_FORMATS else []
    source, reason = _explain(declared, chosen, candidates)
    limit = {"max_bytes": config.output.max_bytes} if config.output.max_bytes else {}
    return OutputSpec(
        path=path,
        format=file_format,
        source=source,
        reason=reason,
        candidates=candidates,
        ends_in_json_block=file_format == "md" and bool(blocks),
        shape=_shape(config, phase, schema, example_keys(instruction, blocks, path)),
        **limit,
    )


@lru_cache(maxsize=64)
def _work_roots(workdir: str) -> tuple[str, ...]:
    roots = {_WORKSPACE, workdir.rstrip("/")} - {""}
    return tuple(sorted(roots))


def _choose(candidates: tuple[PathCandidate, ...]) -> PathCandidate | None:
    """The last path asked for; failing that, the last one of a known format that is merely mentioned.

    A folder gives way to the last path inside of it: to be asked for a file and its folder is to be asked for the file.
    """
    asked = [candidate for candidate in candidates if candidate.role == "output"]
    if asked:
        inside = [candidate for candidate in asked if candidate.path.startswith(f"{asked[-1].path}/")]
        return (inside or asked)[-1]
    mentioned = [c for c in candidates if c.role == "mentioned" and format_of(c.path)]
    return mentioned[-1] if mentioned else None


def _explain(
    declared: str | None, chosen: PathCandidate | None, candidates: tuple[PathCandidate, ...]
) -> tuple[Any, str]:
    if declared or chosen is None:
        return "declared", "task.toml declares it"
    others = [c.path for c in candidates if c.role == chosen.role and c is not chosen]
    more = f"; the last of {len(others) + 1} such paths" if others else ""
    if chosen.role == "output":
        return "inferred", f"the instruction asks for it{more}"
    return "guessed", f"the instruction mentions it without asking for it{more}"


def _shape(
    config: TaskConfig, phase: VerifierPhaseSpec, schema: dict[str, Any] | None, example: tuple[str, ...]
) -> ShapeSpec:
    gate = phase.schema_gate or config.output.schema_gate or "report"
    if schema is not None:
        return ShapeSpec(source="schema", json_schema=schema, gate=gate)
    if config.output.required_keys:
        return ShapeSpec(source="required_keys", required_keys=config.output.required_keys, gate=gate)
    if example:
        return ShapeSpec(source="example", required_keys=example, gate=gate)
    return ShapeSpec(gate=gate)


def example_keys(instruction: str, blocks: list[Block], path: str) -> tuple[str, ...]:
    """The keys of the instruction's JSON example: the last one introduced by the output's name, else the last one."""
    if not blocks:
        return ()
    lines = instruction.splitlines()
    name = posixpath.basename(path)
    for block in reversed(blocks):
        if name in "\n".join(lines[max(0, block.line - 12) : block.line]):
            return _outer_keys(block.body)
    return _outer_keys(blocks[-1].body)


def _outer_keys(text: str) -> tuple[str, ...]:
    """The keys of the first object in a text that need not be valid JSON, such as one with `<number>` in it."""
    keys, depth, level = [], 0, None
    for key, colon, mark in _TOKEN.findall(text):
        if colon:
            if depth == level:
                keys.append(key)
        elif mark in _OPENING:
            depth += 1
            level = depth if level is None and mark == "{" else level
        elif mark in _CLOSING:
            depth -= 1
            if level is not None and depth < level:
                break
        elif mark:  # a quotation mark that nothing closes: the rest of the text belongs to it
            break
    return tuple(dict.fromkeys(keys))


def read_schema(root: Path, relative: str | None, report: Report) -> dict[str, Any] | None:
    """The JSON Schema file a task declares, None when it declares none; a bad one is an error of the task."""
    if relative is None:
        return None
    key = "output.schema"
    try:
        target = (root / relative).resolve()
    except (ValueError, RuntimeError):  # a NUL in the name, or a link to itself
        target = None
    if target is None or not target.is_relative_to(root.resolve()):
        report.wrong(key, "a file inside the task folder", relative)
        return None
    try:
        schema = orjson.loads(read_text(target, _MAX_SCHEMA_BYTES))
        return _JSON_OBJECT.validate_python(schema)
    except ValueError as error:
        report.add("bad-schema", "error", key, f"{relative} cannot be used: {error}", "point it to a JSON Schema file")
        return None
