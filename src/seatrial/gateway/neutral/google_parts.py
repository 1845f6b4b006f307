"""The parts that Google's contents are made of, and the neutral items that they stand for.

Google's calls of tools need not have ids. Those without one are numbered in the order in which they come, so that a
conversation that goes on keeps them; what a tool gave back belongs to the first open call of its id, or of its name.
"""

import re
from collections import defaultdict, deque
from typing import Any, Literal

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import dump, text
from seatrial.gateway.neutral.checks import arguments_said, arguments_text, need_table, need_text, tables
from seatrial.gateway.neutral.google_fields import leave_out_unread, spelled
from seatrial.gateway.neutral.losses import Losses
from seatrial.gateway.neutral.types import (
    Called,
    ImagePart,
    Item,
    Parts,
    Reasoned,
    Returned,
    Said,
    Text,
    Untranslatable,
)

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", re.DOTALL)
_FAILED = "Error: "
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
        """The items of one content."""
        items: list[Item] = []
        words: list[Text | ImagePart] = []
        for part, place in tables(parts, where):
            found = self._read_part(spelled(part), place)
            if isinstance(found, Text | ImagePart):
                words.append(found)
            elif found is not None:
                if words:
                    items.append(Said(role, tuple(words)))
                    words = []
                items.append(found)
        if words or not items:
            items.append(Said(role, tuple(words) or (Text(""),)))
        return items

    def _read_part(self, part: Payload, where: str) -> Text | ImagePart | Item | None:
        if part.get("thought") and part.get("text") is not None:
            words = need_text(part["text"], f"{where}.text")
            return Reasoned(words, text(part.get("thoughtSignature")), where)
        if "thoughtSignature" in part:
            self._losses.hint(f"{where}.thoughtSignature")  # only Google knows the thought by it
        if part.get("text") is not None:
            return Text(need_text(part["text"], f"{where}.text"))
        if part.get("functionCall") is not None:
            return self._read_call(spelled(need_table(part["functionCall"], f"{where}.functionCall")), where)
        if part.get("functionResponse") is not None:
            return self._read_result(spelled(need_table(part["functionResponse"], f"{where}.functionResponse")), where)
        if part.get("inlineData") is not None or part.get("fileData") is not None:
            return self._read_data(part, where)
        for name in part.keys() - _BESIDE:
            self._losses.leave_out(f"{where}.{name}")
        return None

    def _read_call(self, call: Payload, where: str) -> Called:
        name = need_text(call.get("name"), f"{where}.functionCall.name")
        given = need_table({} if call.get("args") is None else call["args"], f"{where}.functionCall.args")
        call_id = text(call.get("id")) or f"call_{self._count}"
        self._open[self._count] = call_id
        self._by_id[call_id].append(self._count)
        self._by_name[name].append(self._count)
        self._count += 1
        return Called(call_id, name, arguments_text(given, f"{where}.functionCall.args"))

    def _read_result(self, result: Payload, where: str) -> Returned:
        place = f"{where}.functionResponse"
        name = need_text(result.get("name"), f"{place}.name")
        response = need_table({} if result.get("response") is None else result["response"], f"{place}.response")
        pictures = [self._read_part(spelled(part), at) for part, at in tables(result.get("parts"), f"{place}.parts")]
        images = tuple(part for part in pictures if isinstance(part, Text | ImagePart))
        return Returned(self._answered(text(result.get("id")), name), (*_read_output(response), *images))

    def _answered(self, call_id: str | None, name: str) -> str:
        """The id of the call that a result belongs to."""
        for numbers in (self._by_id.get(call_id or ""), self._by_name.get(name)):
            while numbers:
                if (found := self._open.pop(numbers.popleft(), None)) is not None:
                    return found
        return call_id or f"call_{name}"

    def _read_data(self, part: Payload, where: str) -> ImagePart | None:
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
            return ImagePart(f"data:{kind};base64,{need_text(data.get('data'), f'{where}.{name}.data')}", where=where)
        address = need_text(data.get("fileUri"), f"{where}.{name}.fileUri")
        return ImagePart(address, where=where)


def _read_output(response: Payload) -> Parts:
    """What a tool gave back. Agents put plain text under `output`, and `error` where it failed."""
    if len(response) == 1:
        ((name, value),) = response.items()
        if name == "output" and isinstance(value, list) and value and all(isinstance(each, str) for each in value):
            return tuple(Text(each) for each in value)
        if name in ("output", "result", "error") and isinstance(value, str):
            return (Text(f"{_FAILED}{value}" if name == "error" else value),)
    return (Text(dump(response)),)


def write_parts(item: Item, names: dict[str, str], losses: Losses) -> list[Payload]:
    """The parts that say an item; `names` has those of the tools by the ids of calls, and learns more of them."""
    if isinstance(item, Said):
        return [_write_word(part) for part in item.parts]
    if isinstance(item, Called):
        names[item.id] = item.name
        return [write_call(item.id, item.name, arguments_said(item.arguments, f"arguments of {item.name}", losses))]
    if isinstance(item, Returned):
        return [_write_result(item, names.get(item.id, item.id))]
    if isinstance(item, Reasoned):
        return [write_thought(item.text, item.signature)]
    return [{"text": item.text}]


def write_thought(words: str, signature: str | None) -> Payload:
    """A thought."""
    return {"text": words, "thought": True, **({"thoughtSignature": signature} if signature else {})}


def write_call(call_id: str, name: str, arguments: Payload) -> Payload:
    """A call of a tool."""
    return {"functionCall": {**({"id": call_id} if call_id else {}), "name": name, "args": arguments}}


def _write_result(item: Returned, name: str) -> Payload:
    texts = [part.text for part in item.parts if isinstance(part, Text)]
    pictures = [_write_word(part) for part in item.parts if isinstance(part, ImagePart)]
    output = texts[0] if len(texts) == 1 else texts
    result: Payload = {"id": item.id, "name": name, "response": {"output": output or ""}}
    return {"functionResponse": {**result, "parts": pictures} if pictures else result}


def _write_word(part: Text | ImagePart) -> Payload:
    if isinstance(part, Text):
        return {"text": part.text}
    if not part.url.startswith("data:"):
        return {"fileData": {"fileUri": part.url}}
    found = _DATA_URL.fullmatch(part.url)
    if not found:
        raise Untranslatable(part.where or "image.url", "a data URL has to be base64")
    return {"inlineData": {"mimeType": found[1], "data": found[2]}}
