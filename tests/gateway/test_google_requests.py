"""What Google's requests say in neutral words, and how others' requests are said to Google."""

from typing import Any

import pytest

from seatrial.gateway.neutral.google_requests import NAMES, read_request, write_request
from seatrial.gateway.neutral.types import Losses, Request, Thinking, Tool, ToolChoice, Untranslatable
from seatrial.messages import Message, Picture, Reasoning, ToolCall, ToolResult

HELLO = {"role": "user", "parts": [{"text": "hello"}]}
ASKED = (Message("user", ("hello",)),)


def read(**fields: Any) -> tuple[Request, tuple[str, ...]]:
    """A request in neutral words, and what was left out of it."""
    losses = Losses("lenient", NAMES)
    return read_request({"model": "m", "contents": [HELLO], **fields}, losses), losses.omitted


def written(**fields: Any) -> dict[str, Any]:
    """How a neutral request is said to Google."""
    return write_request(Request(**{"model": "gemini-2.5-flash", "items": ASKED, **fields}), Losses("strict"))


def test_a_conversation():
    found, _ = read(
        system_instruction={"parts": [{"text": "Be kind."}]},
        contents=[
            {"parts": [{"text": "look"}, {"inline_data": {"mime_type": "image/png", "data": "aGk="}}]},
            {
                "role": "model",
                "parts": [
                    {"text": "Hm.", "thought": True},
                    {"text": "I look."},
                    {"functionCall": {"name": "ls", "args": {"path": "."}}, "thoughtSignature": "c2ln"},
                    {"functionCall": {"name": "ls", "args": {"path": "/"}}},
                    {"functionCall": {"id": "own", "name": "pwd"}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"name": "pwd", "id": "own", "response": {"cwd": "/", "code": 0}}},
                    {"functionResponse": {"name": "ls", "response": {"error": "no such folder"}}},
                    {"functionResponse": {"name": "ls", "response": {"output": "b"}}},
                ],
            },
        ],
    )
    assert found.items == (
        Message("system", ("Be kind.",)),
        Message("user", ("look", Picture("data:image/png;base64,aGk="))),
        Reasoning("Hm."),
        Message("assistant", ("I look.",)),
        ToolCall("call_0", "ls", '{"path":"."}'),
        ToolCall("call_1", "ls", '{"path":"/"}'),
        ToolCall("own", "pwd", "{}"),
        ToolResult("own", ('{"cwd":"/","code":0}',)),
        ToolResult("call_0", ("Error: no such folder",)),
        ToolResult("call_1", ("b",)),
    )


def test_results_belong_to_the_first_open_call_of_their_id_or_name_among_thousands():
    count = 10_000
    called = [{"functionCall": {"name": f"f{number % 2}", "id": f"c{number}"}} for number in range(count)]
    given = [{"functionResponse": {"name": "f1", "id": "c1"}}, {"functionResponse": {"name": "f0", "id": "x"}}]
    given += [{"functionResponse": {"name": "f1"}}] * (count // 2)
    found, _ = read(contents=[{"role": "model", "parts": called}, {"role": "user", "parts": given}])
    answered = [item.id for item in found.items if isinstance(item, ToolResult)]
    assert answered == ["c1", "c0", *(f"c{number}" for number in range(3, count, 2)), "call_f1"]


def test_ids_stay_when_a_conversation_goes_on():
    turns = [
        {"role": "model", "parts": [{"functionCall": {"name": "ls"}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {}}}]},
    ]
    short, _ = read(contents=[HELLO, *turns])
    long, _ = read(contents=[HELLO, *turns, *turns])
    assert long.items[: len(short.items)] == short.items
    assert [item.id for item in long.items if isinstance(item, ToolCall)] == ["call_0", "call_1"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "STRING", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        (
            {"type": "OBJECT", "properties": {"type": {"type": "ARRAY", "items": {"type": "NUMBER"}, "maxItems": "3"}}},
            {"type": "object", "properties": {"type": {"type": "array", "items": {"type": "number"}, "maxItems": 3}}},
        ),
        ({"any_of": [{"type": "INTEGER"}], "property_ordering": ["x"]}, {"anyOf": [{"type": "integer"}]}),
        ({"type": "OBJECT", "required": ["TYPE"]}, {"type": "object", "required": ["TYPE"]}),
    ],
)
def test_googles_schemas_are_json_schemas_afterwards(given, expected):
    found, _ = read(tools=[{"functionDeclarations": [{"name": "f", "parameters": given}]}])
    assert found.tools == (Tool("f", None, expected, strict=False),)


def test_tools_that_google_runs_are_left_out_of_the_offer():
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    offer = [{"googleSearch": {}}, {"functionDeclarations": [{"name": "f", "parametersJsonSchema": schema}]}]
    found, omitted = read(tools=offer)
    assert found.tools == (Tool("f", None, schema, strict=False),)
    assert omitted == ("tools[0].googleSearch",)
    assert read(tools=offer[:1])[0].tools is None
    with pytest.raises(Untranslatable, match=r"tools\[0\].googleSearch"):
        read_request({"model": "m", "contents": [HELLO], "tools": offer}, Losses("strict"))


@pytest.mark.parametrize(
    ("config", "choice"),
    [
        ({"mode": "AUTO"}, ToolChoice("auto")),
        ({"mode": "VALIDATED"}, ToolChoice("auto")),
        ({"mode": "NONE"}, ToolChoice("none")),
        ({"mode": "ANY"}, ToolChoice("any")),
        ({"mode": "ANY", "allowed_function_names": ["f"]}, ToolChoice("one", "f")),
        ({"mode": "ANY", "allowedFunctionNames": ["f", "g"]}, ToolChoice("any")),
    ],
)
def test_the_choice_among_tools(config, choice):
    tools = [{"functionDeclarations": [{"name": "f"}]}]
    assert read(tools=tools, toolConfig={"functionCallingConfig": config})[0].choice == choice
    assert read(toolConfig={"functionCallingConfig": config})[0].choice is None  # there is nothing to choose from
    if len(config) == 1 and config["mode"] != "VALIDATED":
        assert written(choice=choice)["toolConfig"] == {"functionCallingConfig": config}


@pytest.mark.parametrize(
    ("config", "effort", "thinking"),
    [
        ({"thinkingLevel": "HIGH", "includeThoughts": True}, "high", Thinking(on=True, shown=True)),
        ({"thinkingBudget": 0}, None, Thinking(on=False)),
        ({"thinkingBudget": -1}, None, Thinking(on=True)),
        ({"thinkingBudget": 2048, "includeThoughts": False}, None, Thinking(on=True, budget=2048, shown=False)),
        ({"thinking_level": "low"}, "low", None),
    ],
)
def test_thinking(config, effort, thinking):
    found, _ = read(generationConfig={"thinkingConfig": config})
    assert (found.effort, found.thinking) == (effort, thinking)


@pytest.mark.parametrize(
    ("model", "fields", "config"),
    [
        ("gemini-3-pro", {"effort": "xhigh"}, {"thinkingLevel": "HIGH"}),
        ("gemini-2.5-pro", {"effort": "low"}, {"thinkingBudget": 1024}),
        ("gemini-2.5-pro", {"thinking": Thinking(on=False)}, {"thinkingBudget": 0}),
        ("gemini-3-pro", {"thinking": Thinking(on=False)}, {"thinkingLevel": "MINIMAL"}),
        ("gemini-3-pro", {"thinking": Thinking(True, 5000, True)}, {"includeThoughts": True, "thinkingBudget": 5000}),
    ],
)
def test_thinking_is_asked_for_as_the_model_knows_it(model, fields, config):
    assert written(model=model, **fields)["generationConfig"] == {"thinkingConfig": config}


def test_the_form_of_an_answer():
    schema = {"type": "object", "properties": {}}
    shape = {"type": "json_schema", "name": "answer", "schema": schema}
    config = {"responseMimeType": "application/json", "responseJsonSchema": schema}
    assert read(generationConfig=config)[0].format == shape
    assert written(format=shape)["generationConfig"] == config
    plain = {"responseMimeType": "application/json"}
    assert read(generationConfig=plain)[0].format == {"type": "json_object"}
    assert read(generationConfig={"responseMimeType": "text/plain"})[0].format is None


def test_what_has_no_place_is_named_as_the_agent_sent_it():
    _, omitted = read(
        safetySettings=[],
        generationConfig={"topK": 64, "candidate_count": 1, "media_resolution": "LOW"},
        contents=[{"parts": [{"inlineData": {"mimeType": "application/pdf", "data": "x"}}, {"text": "hi"}]}],
    )
    settings = {"safetySettings", "generationConfig.topK", "generationConfig.media_resolution"}
    assert set(omitted) == {*settings, "contents[0].parts[0].inlineData"}


def test_what_others_say_has_a_place_with_google():
    items = (
        Message("system", ("Be kind.",)),
        Message("developer", ("Be brief.",)),
        Message("user", ("look", Picture("https://h/a.png"))),
        Reasoning("Hm."),
        ToolCall("c1", "ls", "{}"),
        ToolCall("c2", "cat", '{"file":"a"}'),
        ToolResult("c1", ("a",)),
        ToolResult("c2", ("x", Picture("data:image/png;base64,aGk="))),
        Message("user", ("go on",)),
        Message("system", ("Now hurry.",)),
    )
    request = written(model="gemini-3-pro", items=items, max_tokens=9, stop=["END"])
    signed = {"thoughtSignature": "skip_thought_signature_validator"}
    assert request == {
        "model": "gemini-3-pro",
        "systemInstruction": {"parts": [{"text": "Be kind."}, {"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "look"}, {"fileData": {"fileUri": "https://h/a.png"}}]},
            {
                "role": "model",
                "parts": [
                    {"text": "Hm.", "thought": True},
                    {"functionCall": {"id": "c1", "name": "ls", "args": {}}, **signed},
                    {"functionCall": {"id": "c2", "name": "cat", "args": {"file": "a"}}},
                ],
            },
            {
                "role": "user",
                "parts": [
                    {"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "a"}}},
                    {
                        "functionResponse": {
                            "id": "c2",
                            "name": "cat",
                            "response": {"output": "x"},
                            "parts": [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}],
                        }
                    },
                ],
            },
            {"role": "user", "parts": [{"text": "go on"}]},
            {"role": "user", "parts": [{"text": "Now hurry."}]},
        ],
        "generationConfig": {"maxOutputTokens": 9, "stopSequences": ["END"]},
    }
    assert "thoughtSignature" not in str(written(model="gemini-2.5-pro", items=items))
