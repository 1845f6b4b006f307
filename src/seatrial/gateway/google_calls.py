"""Requests of Google's own agents as they go out: their paths name the model that the run asks for."""

from typing import Any

from seatrial.gateway.api import ModelRequest
from seatrial.gateway.dialects import google_paths
from seatrial.gateway.foreign import written
from seatrial.gateway.neutral.types import Untranslatable


def to_google(request: ModelRequest, payload: dict[str, Any]) -> ModelRequest:
    """A call with the payload that it has now, in the agent's version of the API. Raises Untranslatable."""
    asked = google_paths.read_path(request.path)
    body = request.body if payload is request.payload else written("google", payload)
    try:
        path = google_paths.path_for(payload, asked.version if asked else google_paths.USUAL_VERSION)
    except ValueError as error:
        raise Untranslatable("model", str(error)) from error
    return request._replace(path=path, payload=payload, body=body)


def counted_for(request: ModelRequest, model: str | None) -> ModelRequest:
    """A request that is no call. If tokens are to be counted, that is done for the model of the run."""
    path = google_paths.read_path(request.path) if model is not None else None
    if path is None or model is None or not google_paths.is_model_name(model):
        return request
    return request._replace(path=path._replace(model=model.removeprefix("models/")).written())
