"""Google's answers as its API describes them, and strictly so: a field that is not known here is a mistake."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class GoogleCall(_Strict):
    id: str | None = None
    name: str
    args: dict[str, Any] = {}


class GooglePart(_Strict):
    text: str | None = None
    thought: bool | None = None
    thoughtSignature: str | None = None  # noqa: N815 - Google's own names
    functionCall: GoogleCall | None = None  # noqa: N815


class GoogleContent(_Strict):
    role: Literal["model"]
    parts: list[GooglePart]


class GoogleCandidate(_Strict):
    content: GoogleContent
    finishReason: str | None = None  # noqa: N815
    index: int


class GoogleUsage(_Strict):
    promptTokenCount: int  # noqa: N815
    cachedContentTokenCount: int | None = None  # noqa: N815
    candidatesTokenCount: int | None = None  # noqa: N815
    thoughtsTokenCount: int | None = None  # noqa: N815
    totalTokenCount: int  # noqa: N815


class GoogleAnswer(_Strict):
    candidates: list[GoogleCandidate]
    usageMetadata: GoogleUsage | None = None  # noqa: N815
    modelVersion: str  # noqa: N815
    responseId: str  # noqa: N815
