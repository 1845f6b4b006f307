"""Requests of Google's generateContent, read into neutral words and written from them.

A payload of this dialect has `model` and `stream` in it, which its path says when it is sent.
"""

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from seatrial.gateway.fields import Payload
from seatrial.gateway.neutral.checks import (
    FAILED,
    arguments_said,
    arguments_text,
    inline_data,
    need_list,
    need_table,
    need_text,
    tables,
    without_none,
)
from seatrial.gateway.neutral.types import Losses, Request, Thinking, Tool, ToolChoice, Untranslatable
from seatrial.messages import Item, Message, Parts, Picture, Reasoning, ToolCall, ToolResult, split_system
from seatrial.untrusted.json import dump, mapping, text, whole_number

# Names of fields, which may be spelled in two ways: `maxOutputTokens` and `max_output_tokens`.

MODEL_NAME = r"[A-Za-z0-9][A-Za-z0-9._:@-]*(?:/[A-Za-z0-9][A-Za-z0-9._:@-]*){0,2}"
"""A model's name, as it may stand in a path."""

_NAME = re.compile(MODEL_NAME)
_LONGEST_NAME = 256
_UNDERSCORE = re.compile(r"_([a-z0-9])")


def is_model_name(name: object) -> bool:
    """Whether something may stand in a path as the name of a model. Nothing else may: it goes out with a key."""
    return (
        isinstance(name, str)
        and len(name) <= _LONGEST_NAME
        and _NAME.fullmatch(name.removeprefix("models/")) is not None
    )


def usual(name: str) -> str:
    return _UNDERSCORE.sub(lambda found: found[1].upper(), name)


def spelled(given: Payload) -> Payload:
    """A table of Google's with its names in the usual spelling."""
    return {usual(name): value for name, value in given.items()}


def leave_out_unread(
    given: Payload,
    read: Iterable[str],
    where: str,
    losses: Losses,
    defaults: Mapping[str, tuple[Any, ...]] | None = None,
) -> None:
    """Leave out what is set, neither read nor at its default, as the agent spelled it. Raises as `losses` does."""
    known, usually = frozenset(read), defaults or {}
    for name, value in given.items():
        if usual(name) not in known and value is not None and value not in usually.get(usual(name), ()):
            losses.leave_out(f"{where}.{name}" if where else name)


# Schemas: Google's own form, an old one of JSON Schema, as the JSON Schema that the others take.

_MOST_LEVELS = 100
_COUNTS = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})
_ONLY_GOOGLES = frozenset({"propertyOrdering", "nullable"})
_SPELLED = {
    "any_of": "anyOf",
    "max_items": "maxItems",
    "max_length": "maxLength",
    "max_properties": "maxProperties",
    "min_items": "minItems",
    "min_length": "minLength",
    "min_properties": "minProperties",
    "property_ordering": "propertyOrdering",
}


def json_schema(given: Any, where: str) -> Payload:
    """A schema of Google's as JSON Schema. Raises Untranslatable for what is none."""
    return _converted(need_table(given, where), _MOST_LEVELS)


def _converted(schema: Payload, levels: int) -> Payload:
    spelled = {_SPELLED.get(name, name): value for name, value in schema.items()}
    found = {name: _value(name, value, levels) for name, value in spelled.items() if name not in _ONLY_GOOGLES}
    if spelled.get("nullable") is True and isinstance(found.get("type"), str):
        found["type"] = [found["type"], "null"]
        if isinstance(found.get("enum"), list):
            found["enum"] = [*found["enum"], None]
    return found


def _value(name: str, value: Any, levels: int) -> Any:
    if levels <= 0:
        return value
    if name == "type" and isinstance(value, str):
        return value.lower()
    if name in _COUNTS and isinstance(value, str) and value.isdecimal():  # Google writes long whole numbers as text
        return int(value)
    if name == "properties" and isinstance(value, dict):
        return {each: _inner(schema, levels) for each, schema in value.items()}
    if name == "anyOf" and isinstance(value, list):
        return [_inner(schema, levels) for schema in value]
    return _inner(value, levels) if name == "items" else value


def _inner(value: Any, levels: int) -> Any:
    return _converted(value, levels - 1) if isinstance(value, dict) else value


# Settings, its `generationConfig`: lengths, chances, thinking, and the answer's form.

_CONFIG = "generationConfig"
_THINKING = f"{_CONFIG}.thinkingConfig"
_SAMPLING = ("maxOutputTokens", "temperature", "topP", "seed", "stopSequences")
_FORMAT = ("responseMimeType", "responseSchema", "responseJsonSchema")
_READ = (*_SAMPLING, *_FORMAT, "thinkingConfig")
_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "candidateCount": (1,),
    "frequencyPenalty": (0,),
    "presencePenalty": (0,),
    "responseLogprobs": (False,),
    "responseModalities": (["TEXT"],),
}
_JSON = "application/json"
_ONLY_BUDGETS = re.compile(r"(models/)?gemini-[12]\b")
"""Models before the third generation are told how long to think, later ones how hard."""

_BUDGETS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}
_LEVELS = {"none": "MINIMAL", "minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH"}
_HIGHEST = "HIGH"


def read_config(value: Any, losses: Losses) -> Payload:
    """The settings as fields of a neutral Request. Raises Untranslatable."""
    given = need_table({} if value is None else value, _CONFIG)
    leave_out_unread(given, _READ, _CONFIG, losses, _DEFAULTS)
    config = spelled(given)
    stop = config.get("stopSequences")
    effort, thinking = _read_thinking(config.get("thinkingConfig"), losses)
    return {
        "max_tokens": config.get("maxOutputTokens"),
        "temperature": config.get("temperature"),
        "top_p": config.get("topP"),
        "seed": config.get("seed"),
        "stop": None if stop is None else need_list(stop, f"{_CONFIG}.stopSequences"),
        "format": _read_format(config),
        "effort": effort,
        "thinking": thinking,
    }


def _read_format(config: Payload) -> Payload | None:
    """How the answer is to be shaped, in the flat form of the responses API; None for plain text."""
    if config.get("responseMimeType") != _JSON:
        return None
    schema: Payload | None = None
    if (given := config.get("responseJsonSchema")) is not None:
        schema = need_table(given, f"{_CONFIG}.responseJsonSchema")
    elif (given := config.get("responseSchema")) is not None:
        schema = json_schema(given, f"{_CONFIG}.responseSchema")
    return {"type": "json_object"} if schema is None else {"type": "json_schema", "name": "answer", "schema": schema}


def _read_thinking(value: Any, losses: Losses) -> tuple[str | None, Thinking | None]:
    if value is None:
        return None, None
    config = spelled(need_table(value, _THINKING))
    leave_out_unread(value, ("thinkingLevel", "thinkingBudget", "includeThoughts"), _THINKING, losses)
    level, budget, shown = (
        config.get("thinkingLevel"),
        whole_number(config.get("thinkingBudget")),
        config.get("includeThoughts"),
    )
    effort = level.lower() if isinstance(level, str) and level.upper() != "THINKING_LEVEL_UNSPECIFIED" else None
    if budget is None and not isinstance(shown, bool):
        return effort, None
    told = shown if isinstance(shown, bool) else None
    # A budget below zero leaves it to the model.
    return effort, Thinking(budget != 0, budget if budget is not None and budget > 0 else None, told)


def write_config(request: Request, losses: Losses) -> Payload | None:
    """The settings in Google's words; None where there are none."""
    written = without_none(
        maxOutputTokens=request.max_tokens,
        temperature=request.temperature,
        topP=request.top_p,
        seed=request.seed,
        stopSequences=request.stop,
        thinkingConfig=_write_thinking(request),
        **_write_format(request, losses),
    )
    return written or None


def _write_format(request: Request, losses: Losses) -> Payload:
    shape = request.format
    if shape is None:
        return {}
    if shape.get("type") not in ("json_object", "json_schema"):
        losses.no_place("format")
        return {}
    schema = mapping(shape.get("schema"))
    return {"responseMimeType": _JSON, **({"responseJsonSchema": schema} if schema else {})}


def _write_thinking(request: Request) -> Payload | None:
    thinking, effort = request.thinking, request.effort
    if thinking is None and effort is None:
        return None
    shown = without_none(includeThoughts=thinking.shown) if thinking and thinking.on else {}
    return {**shown, **_write_amount(request, thinking, effort)} or None


def _write_amount(request: Request, thinking: Thinking | None, effort: Any) -> Payload:
    by_budget = _ONLY_BUDGETS.match(str(request.model)) is not None
    if thinking is not None and not thinking.on:
        return {"thinkingBudget": 0} if by_budget else {"thinkingLevel": _LEVELS["none"]}
    if effort is None:
        return {} if thinking is None or thinking.budget is None else {"thinkingBudget": thinking.budget}
    if by_budget:
        return {"thinkingBudget": _BUDGETS.get(str(effort).lower(), _BUDGETS["high"])}
    return {"thinkingLevel": _LEVELS.get(str(effort).lower(), _HIGHEST)}


# Tools, and the choice among them.

_TOOL_CONFIG = "toolConfig.functionCallingConfig"
_READ_TOOL_FIELDS = ("name", "description", "parameters", "parametersJsonSchema")
_MODES: dict[str, Literal["auto", "none", "any"]] = {
    "MODE_UNSPECIFIED": "auto",
    "AUTO": "auto",
    "VALIDATED": "auto",
    "ANY": "any",
    "NONE": "none",
}
_WORDS = {"auto": "AUTO", "any": "ANY", "none": "NONE", "one": "ANY"}


def read_tools(value: Any, losses: Losses) -> tuple[Tool, ...] | None:
    """The functions that the model may call. Tools that Google runs itself are left out of the offer."""
    if value is None:
        return None
    found: list[Tool] = []
    for tool, where in tables(value, "tools"):
        for name, inner in tool.items():
            if usual(name) == "functionDeclarations":
                found.extend(_read_tool(*each, losses) for each in tables(inner, f"{where}.{name}"))
            elif inner is not None:
                losses.leave_out(f"{where}.{name}", "only tools that the agent runs itself can be")
    return tuple(found) or None


def _read_tool(declaration: Payload, where: str, losses: Losses) -> Tool:
    fields = spelled(declaration)
    leave_out_unread(declaration, _READ_TOOL_FIELDS, where, losses)
    schema: Payload | None = None
    if (given := fields.get("parametersJsonSchema")) is not None:
        schema = need_table(given, f"{where}.parametersJsonSchema")
    elif (given := fields.get("parameters")) is not None:
        schema = json_schema(given, f"{where}.parameters")
    return Tool(need_text(fields.get("name"), f"{where}.name"), fields.get("description"), schema, strict=False)


def write_tools(tools: tuple[Tool, ...] | None, losses: Losses) -> list[Payload] | None:
    if tools is None:
        return None
    if any(tool.strict for tool in tools):
        losses.leave_out("tools.strict")
    return [{"functionDeclarations": [_write_tool(tool) for tool in tools]}]


def _write_tool(tool: Tool) -> Payload:
    return {"name": tool.name, **without_none(description=tool.description, parametersJsonSchema=tool.schema)}


def read_choice(value: Any, losses: Losses) -> ToolChoice | None:
    if value is None:
        return None
    outer = spelled(need_table(value, "toolConfig"))
    leave_out_unread(value, ("functionCallingConfig",), "toolConfig", losses)
    if (inner := outer.get("functionCallingConfig")) is None:
        return None
    config = spelled(need_table(inner, _TOOL_CONFIG))
    leave_out_unread(inner, ("mode", "allowedFunctionNames"), _TOOL_CONFIG, losses)
    mode = _MODES.get(str(config.get("mode", "AUTO")).upper())
    if mode is None:
        raise Untranslatable(f"{_TOOL_CONFIG}.mode", f"there is no mode {config.get('mode')!r}")
    names = need_list(config.get("allowedFunctionNames") or [], f"{_TOOL_CONFIG}.allowedFunctionNames")
    if mode == "any" and len(names) == 1:
        return ToolChoice("one", need_text(names[0], f"{_TOOL_CONFIG}.allowedFunctionNames[0]"))
    if names:
        losses.leave_out(f"{_TOOL_CONFIG}.allowedFunctionNames", "the others can name one tool or all")
    return ToolChoice(mode)


def write_choice(choice: ToolChoice | None) -> Payload | None:
    if choice is None:
        return None
    named = {"allowedFunctionNames": [choice.name]} if choice.mode == "one" else {}
    return {"functionCallingConfig": {"mode": _WORDS[choice.mode], **named}}


# Parts of contents, and the neutral items that they stand for. Google's calls need not have ids. Those without one are
# numbered in the order in which they come, so that a conversation that goes on keeps them; what a tool gave back
# belongs to the first open call of its id, or of its name.

_BESIDE = frozenset({"thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"})
"""What may stand beside the one thing that a part is."""


class PartsReader:
    """Reads the contents of one conversation, in their order. Raises Untranslatable."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._count = 0
        self._open: dict[int, str] = {}  # the ids of calls without a result, by their numbers
        self._by_id: defaultdict[str, deque[int]] = defaultdict(deque)
        self._by_name: defaultdict[str, deque[int]] = defaultdict(deque)

    def read(self, role: Literal["system", "user", "assistant"], parts: Any, where: str) -> list[Item]:
        items: list[Item] = []
        words: list[str | Picture] = []
        for part, place in tables(parts, where):
            found = self._read_part(spelled(part), place)
            if isinstance(found, str | Picture):
                words.append(found)
            elif found is not None:
                if words:
                    items.append(Message(role, tuple(words)))
                    words = []
                items.append(found)
        if words or not items:
            items.append(Message(role, tuple(words) or ("",)))
        return items

    def _read_part(self, part: Payload, where: str) -> str | Picture | Item | None:
        if part.get("thought") and part.get("text") is not None:
            words = need_text(part["text"], f"{where}.text")
            return Reasoning(words, text(part.get("thoughtSignature")), where)
        if "thoughtSignature" in part:
            self._losses.hint(f"{where}.thoughtSignature")  # only Google knows the thought by it
        if part.get("text") is not None:
            return need_text(part["text"], f"{where}.text")
        if part.get("functionCall") is not None:
            return self._read_call(spelled(need_table(part["functionCall"], f"{where}.functionCall")), where)
        if part.get("functionResponse") is not None:
            return self._read_result(spelled(need_table(part["functionResponse"], f"{where}.functionResponse")), where)
        if part.get("inlineData") is not None or part.get("fileData") is not None:
            return self._read_data(part, where)
        for name in part:
            if name not in _BESIDE:
                self._losses.leave_out(f"{where}.{name}")
        return None

    def _read_call(self, call: Payload, where: str) -> ToolCall:
        call_id = text(call.get("id")) or f"call_{self._count}"
        found = read_call(call, call_id, f"{where}.functionCall")
        self._open[self._count] = call_id
        self._by_id[call_id].append(self._count)
        self._by_name[found.name].append(self._count)
        self._count += 1
        return found

    def _read_result(self, result: Payload, where: str) -> ToolResult:
        place = f"{where}.functionResponse"
        name = need_text(result.get("name"), f"{place}.name")
        response = need_table({} if result.get("response") is None else result["response"], f"{place}.response")
        pictures = [self._read_part(spelled(part), at) for part, at in tables(result.get("parts"), f"{place}.parts")]
        images = tuple(part for part in pictures if isinstance(part, str | Picture))
        return ToolResult(self._answered(text(result.get("id")), name), (*_read_output(response), *images))

    def _answered(self, call_id: str | None, name: str) -> str:
        """The id of the call that a result belongs to."""
        for numbers in (self._by_id.get(call_id or ""), self._by_name.get(name)):
            while numbers:
                if (found := self._open.pop(numbers.popleft(), None)) is not None:
                    return found
        return call_id or f"call_{name}"

    def _read_data(self, part: Payload, where: str) -> Picture | None:
        name = "inlineData" if part.get("inlineData") is not None else "fileData"
        data = spelled(need_table(part[name], f"{where}.{name}"))
        leave_out_unread(part[name], ("mimeType", "data", "fileUri", "displayName"), f"{where}.{name}", self._losses)
        kind = text(data.get("mimeType")) or ""
        if not kind.startswith("image/"):
            self._losses.leave_out(
                f"{where}.{name}", f"the others take images, and this is {kind or 'nobody knows what'}"
            )
            return None
        if name == "inlineData":
            return Picture(f"data:{kind};base64,{need_text(data.get('data'), f'{where}.{name}.data')}", where=where)
        address = need_text(data.get("fileUri"), f"{where}.{name}.fileUri")
        return Picture(address, where=where)


def read_call(call: Payload, call_id: str, where: str) -> ToolCall:
    """A `functionCall` of a request or an answer, with an id of its own or the one that it gets."""
    name = need_text(call.get("name"), f"{where}.name")
    given = need_table({} if call.get("args") is None else call["args"], f"{where}.args")
    return ToolCall(call_id, name, arguments_text(given, f"{where}.args"))


def _read_output(response: Payload) -> Parts:
    """What a tool gave back. Agents put plain text under `output`, and `error` where it failed."""
    if len(response) == 1:
        ((name, value),) = response.items()
        if name == "output" and isinstance(value, list) and value and all(isinstance(each, str) for each in value):
            return tuple(value)
        if name in ("output", "result", "error") and isinstance(value, str):
            return (f"{FAILED}{value}" if name == "error" else value,)
    return (dump(response),)


def write_parts(item: Item, names: dict[str, str], losses: Losses) -> list[Payload]:
    """The parts that say an item; `names` has those of the tools by the ids of calls, and learns more of them."""
    if isinstance(item, Message):
        return [_write_word(part) for part in item.parts]
    if isinstance(item, ToolCall):
        names[item.id] = item.name
        return [write_call(item.id, item.name, arguments_said(item.arguments, f"arguments of {item.name}", losses))]
    if isinstance(item, ToolResult):
        return [_write_result(item, names.get(item.id, item.id))]
    if isinstance(item, Reasoning):
        return [write_thought(item.text, item.signature)]
    return [{"text": item.text}]


def write_thought(words: str, signature: str | None) -> Payload:
    return {"text": words, "thought": True, **({"thoughtSignature": signature} if signature else {})}


def write_call(call_id: str, name: str, arguments: Payload) -> Payload:
    return {"functionCall": {**({"id": call_id} if call_id else {}), "name": name, "args": arguments}}


def _write_result(item: ToolResult, name: str) -> Payload:
    texts = [part for part in item.parts if isinstance(part, str)]
    pictures = [_write_word(part) for part in item.parts if isinstance(part, Picture)]
    output = texts[0] if len(texts) == 1 else texts
    result: Payload = {"id": item.id, "name": name, "response": {"output": output or ""}}
    return {"functionResponse": {**result, "parts": pictures} if pictures else result}


def _write_word(part: str | Picture) -> Payload:
    if isinstance(part, str):
        return {"text": part}
    held = inline_data(part)
    if held is None:
        return {"fileData": {"fileUri": part.url}}
    return {"inlineData": {"mimeType": held[0], "data": held[1]}}


# Whole requests.

NAMES = {
    "max_tokens": "generationConfig.maxOutputTokens",
    "temperature": "generationConfig.temperature",
    "top_p": "generationConfig.topP",
    "seed": "generationConfig.seed",
    "stop": "generationConfig.stopSequences",
    "format": "generationConfig.responseMimeType",
    "effort": "generationConfig.thinkingConfig.thinkingLevel",
    "thinking": "generationConfig.thinkingConfig",
    "choice": "toolConfig",
}
"""How this dialect calls the fields of a neutral Request, where it calls them otherwise."""

_READ_FIELDS = ("model", "stream", "contents", "systemInstruction", "tools", "toolConfig", "generationConfig")
_HINTS = frozenset({"safetySettings", "labels", "serviceTier", "store"})
_ROLES: dict[Any, Literal["user", "assistant"]] = {
    "user": "user",
    "function": "user",
    "model": "assistant",
    None: "user",
}
_SIGNED = re.compile(r"(models/)?gemini-(?![12]\b)")
_NOBODYS_SIGNATURE = "skip_thought_signature_validator"
"""Later Gemini models refuse calls of theirs without a signature, and take this one for calls that are not theirs."""


def read_request(payload: Payload, losses: Losses) -> Request:
    fields = spelled(payload)
    for name in fields:
        if name in _HINTS:
            losses.hint(name)
    leave_out_unread(payload, (*_READ_FIELDS, *_HINTS), "", losses)
    tools = read_tools(fields.get("tools"), losses)
    return Request(
        model=fields.get("model"),
        stream=fields.get("stream"),
        items=tuple(_read_items(fields, losses)),
        tools=tools,
        choice=read_choice(fields.get("toolConfig"), losses) if tools else None,
        **read_config(fields.get("generationConfig"), losses),
    )


def _read_items(fields: Payload, losses: Losses) -> list[Item]:
    reader = PartsReader(losses)
    items: list[Item] = []
    if (system := fields.get("systemInstruction")) is not None:
        parts = system if isinstance(system, list) else need_table(system, "systemInstruction").get("parts")
        items.extend(reader.read("system", parts, "systemInstruction.parts"))
    contents = fields.get("contents")
    for content, where in tables([contents] if isinstance(contents, dict) else contents, "contents"):
        leave_out_unread(content, ("role", "parts"), where, losses)
        role = content.get("role")
        if not isinstance(role, str | None) or role not in _ROLES:
            raise Untranslatable(f"{where}.role", f"there is no role {role!r}")
        items.extend(reader.read(_ROLES[role], content.get("parts"), f"{where}.parts"))
    return items


def write_request(request: Request, losses: Losses) -> Payload:
    """The request in this dialect. Raises Untranslatable.

    What the model said and called without a break is one content, and so are the results of tools. System messages that
    come later than the first words of others are written as the user's, for there is no other place.
    """
    if not is_model_name(request.model):
        raise Untranslatable("model", "Google has it in a path: it has to be a name of letters, digits and . _ : @ -")
    for name, usual in (("parallel", True), ("verbosity", "medium")):
        if getattr(request, name) not in (None, usual):
            losses.no_place(name)
    system, items = split_system(request.items)
    instruction = [part for item in system for part in write_parts(item, {}, losses)]
    contents = _write_contents(items, losses)
    if _SIGNED.match(str(request.model)):
        _sign_calls(contents)
    return {
        "model": request.model,
        **({"systemInstruction": {"parts": instruction}} if instruction else {}),
        "contents": contents,
        **without_none(
            tools=write_tools(request.tools, losses),
            toolConfig=write_choice(request.choice),
            generationConfig=write_config(request, losses),
            stream=request.stream,
        ),
    }


def _write_contents(items: Sequence[Item], losses: Losses) -> list[Payload]:
    contents: list[Payload] = []
    names: dict[str, str] = {}
    last = ""
    for item in items:
        kind = _kind(item)
        if kind != last or kind == "said":
            contents.append({"role": "model" if kind == "model" else "user", "parts": []})
        contents[-1]["parts"].extend(write_parts(item, names, losses))
        last = kind
    return contents


def _kind(item: Item) -> Literal["said", "returned", "model"]:
    if isinstance(item, ToolResult):
        return "returned"
    return "said" if isinstance(item, Message) and item.role != "assistant" else "model"


def _sign_calls(contents: list[Payload]) -> None:
    for content in contents:
        call = next((part for part in content["parts"] if "functionCall" in part), None)
        if call is not None:
            call["thoughtSignature"] = _NOBODYS_SIGNATURE
