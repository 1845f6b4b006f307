"""The errors of OpenAI's APIs, which chat completions and responses share."""

from seatrial.gateway.dialects.api import Payload
from seatrial.model.trace import CallErrorKind

_TYPES: dict[int, tuple[str, str | None]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    408: ("timeout", None),
    429: ("requests", "rate_limit_exceeded"),
}


def error_body(status: int, kind: CallErrorKind, message: str) -> Payload:
    """The body of an error answer. A budget that is used up looks like an account that is."""
    if kind == "budget" and status in (402, 429):
        return _body("insufficient_quota", "insufficient_quota", message)
    name, code = _TYPES.get(status, ("server_error" if status >= 500 else "invalid_request_error", None))
    return _body(name, code, message)


def _body(name: str, code: str | None, message: str) -> Payload:
    return {"error": {"message": message, "type": name, "param": None, "code": code}}
