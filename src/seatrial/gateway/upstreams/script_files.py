"""Scripts from files: a list of answers, a line each, or rules, in JSON, TOML or YAML."""

from pathlib import Path
from typing import Any

import orjson
import tomli

from seatrial.errors import UsageError
from seatrial.gateway.upstreams.ruled import RuledModel
from seatrial.gateway.upstreams.script_rules import read_rules
from seatrial.gateway.upstreams.scripted import ScriptedModel

_RULES = '"rules"'


def load_script(path: Path) -> ScriptedModel | RuledModel:
    """The model that says what a file says. Raises UsageError that names what is wrong in it."""
    rules = _rules(path)
    return ScriptedModel.from_file(path) if rules is None else RuledModel(read_rules(rules, str(path)))


def _rules(path: Path) -> Any:
    """What a file of rules has in it; None for one with answers in a line."""
    kind = path.suffix.lower()
    text = _text(path)
    try:
        if kind == ".toml":
            return tomli.loads(text)
        return _yaml_rules(text) if kind in (".yaml", ".yml") else _json_rules(text)
    except ValueError as error:
        raise UsageError(f"the script {path} cannot be read: {error}") from error


def _yaml_rules(text: str) -> Any:
    from seatrial.bounded_yaml import read_documents  # noqa: PLC0415 - few need it, and it takes a while to import

    documents = read_documents(text, repeated="refuse")
    return documents[0] if len(documents) == 1 else documents


def _json_rules(text: str) -> Any:
    """A table with `rules` in it. Answers in a line may begin with a table too, but not with one like that."""
    if not text.lstrip().startswith("{") or _RULES not in text:
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        if _is_json(text.lstrip().partition("\n")[0]):  # a line of its own
            return None
        raise
    return value if "rules" in value else None


def _is_json(line: str) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the script {path} cannot be read: {error}") from error
