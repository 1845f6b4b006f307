"""How Anthropic's requests say how hard to think, how to shape the answer, and for whom it is."""

from typing import Any, TypedDict

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.neutral.checks import leave_unread, need_table, without_none
from seatrial.gateway.neutral.efforts import effort_of, is_known, nearest
from seatrial.gateway.neutral.losses import Losses
from seatrial.gateway.neutral.types import Request, Thinking

SETTINGS = ("thinking", "output_config", "output_format", "metadata")

_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_LONGEST_USER = 64
_FORMAT_NAME = "answer"
"""OpenAI's dialects demand a name for a format, which is for their caches only."""


class AnswerSettings(TypedDict):
    """Those fields of a Request."""

    effort: Any
    thinking: Thinking | None
    format: Payload | None
    user: str | None


def read_settings(payload: Payload, losses: Losses) -> AnswerSettings:
    """The settings in neutral words. Raises Untranslatable."""
    config = need_table(payload.get("output_config") or {}, "output_config")
    leave_unread(config, ("effort", "format"), losses, "output_config")
    older = payload.get("output_format")  # its name before there was `output_config`
    name = "output_format" if older is not None else "output_config.format"
    return {
        "effort": config.get("effort"),
        "thinking": _read_thinking(payload.get("thinking"), losses),
        "format": _read_format(config.get("format") if older is None else older, name, losses),
        "user": _read_user(payload.get("metadata"), losses),
    }


def _read_thinking(value: Any, losses: Losses) -> Thinking | None:
    if value is None:
        return None
    asked = need_table(value, "thinking")
    leave_unread(asked, ("type", "budget_tokens", "display"), losses, "thinking")
    kind, budget = asked.get("type"), asked.get("budget_tokens")
    if kind == "disabled":
        return Thinking(on=False)
    if kind not in ("enabled", "adaptive"):
        losses.leave_out("thinking.type", f"there is no thinking of the type {kind!r}")
        return None
    return Thinking(True, budget if type(budget) is int else None, asked.get("display") != "omitted")


def _read_format(value: Any, where: str, losses: Losses) -> Payload | None:
    if value is None:
        return None
    shape = need_table(value, where)
    leave_unread(shape, ("type", "schema"), losses, where)
    if shape.get("type") != "json_schema":
        losses.leave_out(f"{where}.type", f"there is no format {shape.get('type')!r}")
        return None
    return {"type": "json_schema", "name": _FORMAT_NAME, "schema": shape.get("schema"), "strict": True}


def _read_user(value: Any, losses: Losses) -> str | None:
    user = value.get("user_id") if isinstance(value, dict) else None
    if isinstance(user, str) and len(user) <= _LONGEST_USER and len(value) == 1:
        return user
    if value:
        losses.hint("metadata")
    return None


def write_settings(request: Request, losses: Losses) -> Payload:
    """The settings in this dialect. Raises Untranslatable."""
    config = without_none(effort=_write_effort(request, losses), format=_write_format(request, losses))
    metadata = {"user_id": request.user} if request.user is not None else None
    return without_none(
        thinking=_write_thinking(request, losses, thinks="effort" in config),
        output_config=config or None,
        metadata=metadata,
    )


def _is_off(request: Request) -> bool:
    return request.effort == "none" or (request.thinking is not None and request.thinking.on is False)


def _write_effort(request: Request, losses: Losses) -> str | None:
    effort = effort_of(request)
    if effort is None or _is_off(request):
        return None
    if not is_known(effort):
        losses.no_place("effort", f"there is no effort {effort!r:.40}")
        return None
    return nearest(effort, _EFFORTS)


def _write_thinking(request: Request, losses: Losses, *, thinks: bool) -> Payload | None:
    thinking = request.thinking or Thinking()
    if _is_off(request):
        return {"type": "disabled"}
    # Anthropic refuses to think at a temperature other than 1, or before a call that it is forced to make.
    cool = request.temperature not in (None, 1)
    forced = request.choice is not None and request.choice.mode in ("any", "one")
    if (thinks or thinking.on) and not cool and not forced:
        return {"type": "adaptive", **({"display": "summarized"} if thinking.shown else {})}
    if thinking.on or thinking.shown:
        losses.hint(losses.name_of("thinking"))
    return None


def _write_format(request: Request, losses: Losses) -> Payload | None:
    shape = request.format
    if shape is None:
        return None
    if shape.get("type") != "json_schema" or not isinstance(shape.get("schema"), dict):
        losses.no_place("format", "Anthropic takes a JSON schema only")
        return None
    return {"type": "json_schema", "schema": shape["schema"]}
