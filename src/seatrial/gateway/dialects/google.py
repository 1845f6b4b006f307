"""Google's Gemini API: generateContent and streamGenerateContent.

Each event of a stream is an answer of its own with the next parts of each candidate. Texts of one kind are joined; all
else that is said of a candidate, or beside them, is the last that was said.
"""

import re
from collections.abc import Mapping
from typing import Any

from seatrial.gateway.base import SseEvent
from seatrial.gateway.dialects.base import Dialect, ModelPath, Provider
from seatrial.gateway.fields import Payload, ToldError, garbled, overridden, told_error
from seatrial.gateway.neutral.google_answers import (
    GoogleReader,
    GoogleWriter,
    counts,
    read_content,
    split_answer,
    write_answer,
)
from seatrial.gateway.neutral.google_requests import MODEL_NAME, NAMES, is_model_name, read_request, write_request
from seatrial.model.trace import CallErrorKind
from seatrial.untrusted.json import dump, items, mapping, parse_object, text, whole_number

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    504: "DEADLINE_EXCEEDED",
}
# By this Gemini CLI knows that it need not ask again; without it, it asks ten times.
_USED_UP = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "MODEL_CAPACITY_EXHAUSTED"}
_CAPITAL = re.compile(r"[A-Z]")
_GROWING = frozenset({"text", "thought", "thoughtSignature"})
_STREAM = "streamGenerateContent"
_CALL = re.compile(rf"/(v1|v1beta|v1alpha)/models/({MODEL_NAME}):(generateContent|{_STREAM}|countTokens)")
_OWN = re.compile(rf"/v1(?:beta|alpha)/|/v1/models/.*:(?:generateContent|{_STREAM}|countTokens)\Z")
_MODELS = re.compile(rf"/(?:v1beta|v1alpha)/models(?:/{MODEL_NAME})?")
_VERSION = re.compile(r"\A/v1(?:beta|alpha)?/(?=models\b)")


class GooglePaths:
    """The ModelPaths of this dialect."""

    example = "/v1beta/models/MODEL:generateContent"
    queries = frozenset({"alt", "pageSize", "pageToken"})

    def owns(self, target: str) -> bool:
        return _OWN.match(target.partition("?")[0]) is not None

    def lists_models(self, path: str) -> bool:
        return _MODELS.fullmatch(path) is not None

    def unversioned(self, target: str) -> str:
        return _VERSION.sub("/", target)

    def read(self, target: str) -> ModelPath | None:
        path, _, query = target.partition("?")
        found = _CALL.fullmatch(path)
        if found is None:
            return None
        stream, events = found[3] == _STREAM, "alt=sse" in query.split("&")
        leaves = f"{path}?alt=sse" if stream and events else path
        return ModelPath(found[2], leaves, found[3] != "countTokens", stream, events)

    def write(self, payload: Payload, asked: str = "") -> str:
        name, before = payload.get("model"), _CALL.match(asked)
        if not isinstance(name, str) or not is_model_name(name):
            raise ValueError("`model` has to be a name of letters, digits and . _ : @ - to stand in a path")
        method = f"{_STREAM}?alt=sse" if payload.get("stream") is True else "generateContent"
        return f"/{before[1] if before else 'v1beta'}/models/{name.removeprefix('models/')}:{method}"

    def of_model(self, target: str, model: str) -> str:
        found = self.read(target)
        if found is None or not is_model_name(model):
            return target
        return found.target.replace(f"/models/{found.model}:", f"/models/{model.removeprefix('models/')}:")

    def contradiction(self, payload: Payload, path: ModelPath) -> str | None:
        if payload.get("model") not in (None, path.model, f"models/{path.model}"):
            return f"`model` is {payload['model']!r:.100}, but the path says {path.model!r}"
        if "stream" in payload:
            return "there is no field `stream` in this dialect; ask for a stream by :streamGenerateContent"
        return None


def check(payload: Any) -> str | None:
    if not isinstance(payload, dict):
        return "the body is not a JSON object"
    return None if isinstance(payload.get("contents"), list | dict) else "`contents` is missing or not an array"


def messages(payload: Payload) -> list[Any]:
    """The conversation of a request; `systemInstruction` is not part of it. A single content may stand alone."""
    found = payload.get("contents")
    return [found] if isinstance(found, dict) else items(found)


def without_messages(payload: Payload) -> Payload:
    rest = payload.copy()
    rest.pop("contents", None)
    return rest


def with_overrides(payload: Payload, model: str | None, sampling: Mapping[str, Any]) -> Payload:
    """The request with the run's values where they are set. The model is written into the path when it is sent."""
    stop = sampling.get("stop")
    values = {
        "temperature": sampling.get("temperature"),
        "topP": sampling.get("top_p"),
        "seed": sampling.get("seed"),
        "maxOutputTokens": sampling.get("max_tokens"),
        "stopSequences": [stop] if isinstance(stop, str) else stop,
    }
    changes = {name: value for name, value in values.items() if value is not None}
    if not changes:
        return overridden(payload, model, {})
    kept = {name: value for name, value in DIALECT.settings(payload).items() if name not in changes}
    changed = {**payload, "generationConfig": {**_without_other_spelling(kept, changes), **changes}}
    changed.pop("generation_config", None)
    return overridden(changed, model, {})


def _without_other_spelling(config: Payload, names: Mapping[str, Any]) -> Payload:
    others = {_CAPITAL.sub(lambda found: f"_{found[0].lower()}", name) for name in names}
    return {name: value for name, value in config.items() if name not in others}


def holds_answer(response: Any) -> bool:
    """Whether there is an answer of a model in it: a candidate, or the reason why a prompt has none."""
    answer = mapping(response)
    return bool(items(answer.get("candidates"))) or bool(mapping(answer.get("promptFeedback")).get("blockReason"))


def finish_reason(response: Any) -> str | None:
    """Why the model stopped its first candidate, or why a prompt was turned away."""
    answer = mapping(response)
    first = next(iter(items(answer.get("candidates"))), None)
    return text(mapping(first).get("finishReason")) or text(mapping(answer.get("promptFeedback")).get("blockReason"))


def error_body(status: int, kind: CallErrorKind, message: str) -> Payload:
    name = _STATUSES.get(status) or ("UNAVAILABLE" if status >= 500 else "FAILED_PRECONDITION")
    error = {"code": status, "message": message, "status": name}
    return {"error": {**error, "details": [_USED_UP]} if kind == "budget" else error}


def error_event(status: int, kind: CallErrorKind, message: str) -> SseEvent:
    return SseEvent(None, dump(error_body(status, kind, message)))


def is_error(body: Payload) -> bool:
    return "status" in mapping(body.get("error"))


def probe(words: str, most: int | None) -> Payload:
    asked: Payload = {"contents": [{"role": "user", "parts": [{"text": words}]}]}
    return {**asked, "generationConfig": {"maxOutputTokens": most}} if most else asked


def model_entry(model: str) -> Payload:
    return {"name": f"models/{model}", "displayName": model, "supportedGenerationMethods": ["generateContent"]}


def count_answer(count: int) -> Payload:
    return {"totalTokens": count}


class GoogleAssembler:
    """The StreamAssembler of streamGenerateContent."""

    def __init__(self) -> None:
        self.first_token = False
        self.finished = False
        self.error: ToldError | None = None
        self.garbled: str | None = None
        self._head: Payload = {}
        self._candidates: dict[int, _Candidate] = {}

    def feed(self, event: SseEvent) -> None:
        parsed = parse_object(event.data)
        if parsed is None:
            self.garbled = self.garbled or garbled(event.data)
        elif parsed.get("error"):
            self.error = told_error(parsed)
        else:
            self._take(parsed)

    def skim(self, whole: str) -> bool:
        """No: every event counts the tokens anew."""
        return False

    def _take(self, parsed: Payload) -> None:
        self._head.update({name: value for name, value in parsed.items() if value is not None})
        for candidate in items(parsed.get("candidates")):
            if isinstance(candidate, dict):
                self._take_candidate(candidate)
        if mapping(parsed.get("promptFeedback")).get("blockReason"):
            self.finished = True

    def _take_candidate(self, candidate: Payload) -> None:
        index = whole_number(candidate.get("index")) or 0
        found = self._candidates.get(index)
        if found is None:
            found = self._candidates[index] = _Candidate()
        if found.take(candidate):
            self.first_token = True
        # There is no other mark of the end.
        self.finished = all(each.finished for each in self._candidates.values())

    def response(self) -> Payload | None:
        if not self._head:
            return None
        if not self._candidates:
            return dict(self._head)
        return {**self._head, "candidates": [self._candidates[index].whole() for index in sorted(self._candidates)]}


class _Candidate:
    """One candidate while it grows."""

    __slots__ = ("_content", "_fields", "_parts", "_pieces", "finished")

    def __init__(self) -> None:
        self.finished = False
        self._fields: Payload = {}
        self._content: Payload = {}
        self._parts: list[Payload] = []
        self._pieces: list[str] = []  # of the text of the last part, while it grows

    def take(self, candidate: Payload) -> bool:
        """Take what is new; whether something of the answer itself is."""
        for name, value in candidate.items():
            if name != "content" and value is not None:
                self._fields[name] = value
        self.finished = self.finished or bool(candidate.get("finishReason"))
        content = mapping(candidate.get("content"))
        self._content.update({name: value for name, value in content.items() if name != "parts"})
        taken = [self._take_part(part) for part in items(content.get("parts")) if isinstance(part, dict)]
        return any(taken)

    def _take_part(self, part: Payload) -> bool:
        text = part.get("text")
        if not isinstance(text, str) or not _GROWING.issuperset(part):
            self._settle()
            self._parts.append(part)
            return True
        if self._pieces and self._goes_on(part):
            self._pieces.append(text)
            self._parts[-1].update({name: value for name, value in part.items() if name != "text"})
        else:
            self._settle()
            self._parts.append(dict(part))
            self._pieces = [text]
        return bool(text)

    def _goes_on(self, part: Payload) -> bool:
        """Whether it is more of the last text: of the same kind, and no signature has closed that."""
        last = self._parts[-1]
        return "thoughtSignature" not in last and bool(last.get("thought")) == bool(part.get("thought"))

    def _settle(self) -> None:
        if self._pieces:
            self._parts[-1]["text"] = "".join(self._pieces)
            self._pieces = []

    def whole(self) -> Payload:
        parts: list[Any] = [dict(part) for part in self._parts]
        if self._pieces:
            parts[-1]["text"] = "".join(self._pieces)
        content = {"content": {**self._content, "parts": parts}} if parts or self._content else {}
        return {**content, **self._fields}


DIALECT = Dialect(
    name="google",
    title="Google's generateContent",
    provider=Provider(
        "google",
        "https://generativelanguage.googleapis.com",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        url_variables=("GOOGLE_GEMINI_BASE_URL",),
    ),
    model_paths=GooglePaths(),
    count_answer=count_answer,
    key_header=("x-goog-api-key", ""),
    header_prefix="x-goog-",
    check=check,
    messages=messages,
    without_messages=without_messages,
    with_overrides=with_overrides,
    probe=probe,
    content_fields=frozenset({"contents", "labels", "systemInstruction", "system_instruction"}),
    request_fields=frozenset(
        {"cachedContent", "cached_content", "generationConfig", "generation_config", "model", "safetySettings"}
        | {"safety_settings", "serviceTier", "toolConfig", "tool_config", "tools"}
    ),
    settings_fields=("generationConfig", "generation_config"),
    output_limits=("maxOutputTokens", "max_output_tokens"),
    choice_settings=("candidateCount", "candidate_count"),
    input_fields=frozenset({"contents", "systemInstruction", "system_instruction"}),
    external_input=frozenset({"cachedContent", "cached_content"}),
    plain_parts=frozenset(
        {"functionCall", "functionResponse", "text", "thought", "thoughtSignature", "thought_signature"}
    ),
    provider_tools=frozenset(
        {"codeExecution", "code_execution", "computerUse", "computer_use", "fileSearch", "file_search", "googleMaps"}
        | {"googleSearch", "googleSearchRetrieval", "google_maps", "google_search", "urlContext", "url_context"}
    ),
    answer_field="candidates",
    holds_answer=holds_answer,
    counts=counts,
    finish_reason=finish_reason,
    assembler=GoogleAssembler,
    error_body=error_body,
    error_event=error_event,
    is_error=is_error,
    error_statuses={"RESOURCE_EXHAUSTED": 429},
    wrong_key_marker=b"API_KEY_INVALID",
    refusable=dict.fromkeys(("thinking", "thinkingConfig", "thinkingLevel", "thinkingBudget"), ("effort", "thinking")),
    field_names=NAMES,
    read_request=read_request,
    write_request=write_request,
    read_content=read_content,
    write_answer=write_answer,
    split_answer=split_answer,
    reader=GoogleReader,
    writer=GoogleWriter,
    model_entry=model_entry,
    arguments_are_objects=True,
)
