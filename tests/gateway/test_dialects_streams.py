"""A streamed answer amounts to the one that the call would have had without streaming; the SDKs are the judges."""

from typing import Any

import anthropic.types
import openai.types.chat
import openai.types.responses
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.gateway import dialects
from seatrial.gateway.base import SseEvent
from seatrial.gateway.fields import ToldError
from tests.gateway import dialect_streams as streams
from tests.gateway.google_answers import GoogleAnswer

DIALECTS: dict[Any, Any] = dict(dialects.DIALECTS)
JUDGES: dict[str, Any] = {
    "openai_chat": openai.types.chat.ChatCompletion,
    "openai_responses": openai.types.responses.Response,
    "anthropic": anthropic.types.Message,
    "google": GoogleAnswer,
}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def assemble(dialect, events):
    assembler = DIALECTS[dialect].assembler()
    for event in events:
        assembler.feed(event)
    return assembler


@pytest.mark.parametrize(
    ("dialect", "events"),
    [
        ("openai_chat", streams.CHAT_TEXT),
        ("openai_chat", streams.CHAT_TOOLS),
        ("openai_chat", streams.CHAT_REASONING),
        ("openai_responses", streams.RESPONSES_TEXT),
        ("openai_responses", streams.RESPONSES_TOOLS),
        ("openai_responses", streams.RESPONSES_REASONING),
        ("anthropic", streams.ANTHROPIC_TEXT),
        ("anthropic", streams.ANTHROPIC_TOOLS),
        ("anthropic", streams.ANTHROPIC_THINKING),
        ("google", streams.GOOGLE_TEXT),
        ("google", streams.GOOGLE_TOOLS),
        ("google", streams.GOOGLE_THINKING),
    ],
)
def test_whole_streams_are_whole_answers(dialect, events):
    assembler = assemble(dialect, events)
    answer = assembler.response()
    JUDGES[dialect].model_validate(answer, strict=False)
    usage = dialects.usage_of(dialect, answer)
    assert usage is not None
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (20, 8, 9)
    assert assembler.finished
    assert assembler.first_token
    assert assembler.error is None


def test_chat_text_and_finish():
    answer = assemble("openai_chat", streams.CHAT_TEXT).response()
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "Hello, wörld"}
    assert answer["object"] == "chat.completion"
    assert answer["system_fingerprint"] == "fp_1"
    assert DIALECTS["openai_chat"].finish_reason(answer) == "stop"


def test_chat_parallel_tool_calls():
    answer = assemble("openai_chat", streams.CHAT_TOOLS).response()
    assert answer["choices"][0]["message"]["tool_calls"] == [
        {"id": "call_a", "type": "function", "function": {"name": "ls", "arguments": '{"path":"."}'}},
        {"id": "call_b", "type": "function", "function": {"name": "cat", "arguments": '{"file":"a.txt"}'}},
    ]
    assert DIALECTS["openai_chat"].finish_reason(answer) == "tool_calls"


def test_chat_reasoning_is_kept():
    message = assemble("openai_chat", streams.CHAT_REASONING).response()["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("Hmm.", "42")


def test_chat_token_ids_and_logprobs_are_kept():
    parts = [
        {"index": 0, "delta": {"content": text}, "token_ids": [number], "logprobs": {"content": [{"token": text}]}}
        for text, number in [("a", 7), ("b", 8)]
    ]
    chunks = [{"prompt_token_ids": [1, 2], "choices": [parts[0]]}, {"choices": [parts[1]]}]
    answer = assemble("openai_chat", [SseEvent(None, orjson.dumps(chunk).decode()) for chunk in chunks]).response()
    assert answer["prompt_token_ids"] == [1, 2]
    assert answer["choices"][0]["token_ids"] == [7, 8]
    assert answer["choices"][0]["logprobs"] == {"content": [{"token": "a"}, {"token": "b"}]}


@pytest.mark.parametrize(
    "fragments",
    [
        [(None, "a", "f", "{}"), (None, "b", "g", '{"x":'), (None, None, None, "1}")],  # no index at all
        [(0, "a", "f", "{}"), (0, "b", "g", '{"x":1}')],  # all parallel calls numbered 0
        [(0, "a", "f", "{"), (0, "zz", None, "}"), (1, "b", "g", '{"x":1}')],  # a new id for every fragment
        [(0, "a", "f", "{"), (0, "a", "f", "}"), (1, "b", "g", '{"x":1}')],  # the name in every fragment
    ],
)
def test_chat_habits_of_other_servers(fragments):
    deltas = []
    for index, call_id, name, arguments in fragments:
        call = {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}
        function = {key: value for key, value in call["function"].items() if value is not None}
        deltas.append({"tool_calls": [{key: v for key, v in {**call, "function": function}.items() if v is not None}]})
    calls = assemble("openai_chat", streams.chat(*deltas)).response()["choices"][0]["message"]["tool_calls"]
    assert [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls] == [
        ("a", "f", "{}"),
        ("b", "g", '{"x":1}'),
    ]


def test_several_choices_stay_apart():
    chunks = [{"choices": [{"index": i, "delta": {"content": text}}]} for i, text in [(1, "b"), (0, "a"), (1, "B")]]
    answer = assemble("openai_chat", [SseEvent(None, orjson.dumps(chunk).decode()) for chunk in chunks]).response()
    assert [choice["message"]["content"] for choice in answer["choices"]] == ["a", "bB"]


def test_anthropic_content():
    answer = assemble("anthropic", streams.ANTHROPIC_TOOLS).response()
    assert answer["content"] == [
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "call_a", "name": "ls", "input": {"path": "."}},
        {"type": "tool_use", "id": "call_b", "name": "cat", "input": {"file": "a.txt"}},
    ]
    assert DIALECTS["anthropic"].finish_reason(answer) == "tool_use"
    thinking = assemble("anthropic", streams.ANTHROPIC_THINKING).response()["content"][0]
    assert thinking == {"type": "thinking", "thinking": "Hmm.", "signature": "c2ln"}


def test_google_content():
    answer = assemble("google", streams.GOOGLE_TOOLS).response()
    assert answer["candidates"][0]["content"]["parts"] == [
        {"text": "Let me look."},
        {"functionCall": {"id": "call_a", "name": "ls", "args": {"path": "."}}},
        {"functionCall": {"id": "call_b", "name": "cat", "args": {"file": "a.txt"}}},
    ]
    assert DIALECTS["google"].finish_reason(answer) == "STOP"
    thinking = assemble("google", streams.GOOGLE_THINKING).response()["candidates"][0]["content"]["parts"]
    assert thinking == [{"text": "Hmm.", "thought": True}, {"text": "42", "thoughtSignature": "c2ln"}]


def test_a_prompt_that_google_turns_away_is_an_answer():
    assembler = assemble("google", [SseEvent(None, '{"promptFeedback":{"blockReason":"SAFETY"}}')])
    assert (assembler.finished, DIALECTS["google"].holds_answer(assembler.response())) == (True, True)
    assert DIALECTS["google"].finish_reason(assembler.response()) == "SAFETY"


def test_responses_before_and_after_the_last_event_agree():
    early = assemble("openai_responses", streams.RESPONSES_TOOLS[:-1])
    late = assemble("openai_responses", streams.RESPONSES_TOOLS)
    assert early.response()["output"] == late.response()["output"]
    assert not early.finished
    assert DIALECTS["openai_responses"].finish_reason(late.response()) == "completed"


def test_a_last_event_without_output_is_filled_in():
    *events, last = streams.RESPONSES_TEXT
    empty = orjson.loads(last.data)
    empty["response"]["output"] = []
    answer = assemble("openai_responses", [*events, SseEvent(last.event, orjson.dumps(empty).decode())]).response()
    assert answer == orjson.loads(last.data)["response"]


def test_cut_streams_keep_what_came():
    chat = assemble("openai_chat", streams.CHAT_CUT)
    call = chat.response()["choices"][0]["message"]["tool_calls"][0]
    assert (call["function"]["arguments"], chat.finished) == ('{"path":"."}', False)
    message = assemble("anthropic", streams.ANTHROPIC_CUT).response()
    assert message["content"][1]["partial_json"] == '{"pa'
    output = assemble("openai_responses", streams.RESPONSES_CUT).response()["output"]
    assert output[1]["arguments"] == '{"pa'
    google = assemble("google", streams.GOOGLE_CUT)
    assert google.response()["candidates"][0]["content"]["parts"][0] == {"text": "Let me look."}
    assert not google.finished


@pytest.mark.parametrize(
    ("dialect", "events", "kind"),
    [
        ("openai_chat", streams.CHAT_ERROR, "server_error"),
        ("openai_responses", streams.RESPONSES_ERROR, "server_error"),
        ("anthropic", streams.ANTHROPIC_ERROR, "overloaded_error"),
        ("google", streams.GOOGLE_ERROR, "UNAVAILABLE"),
    ],
)
def test_errors_inside_streams(dialect, events, kind):
    assembler = assemble(dialect, events)
    assert assembler.error == ToldError(kind, "overloaded")
    assert not assembler.finished
    assert "Hel" in str(assembler.response())


@pytest.mark.parametrize(
    ("dialect", "events", "first"),
    [
        ("openai_chat", streams.CHAT_TEXT, 1),
        ("openai_chat", streams.CHAT_REASONING, 1),
        ("openai_responses", streams.RESPONSES_TEXT, 3),
        ("openai_responses", streams.RESPONSES_REASONING, 3),
        ("anthropic", streams.ANTHROPIC_TEXT, 3),
        ("google", streams.GOOGLE_TEXT, 0),
    ],
)
def test_the_first_token_is_the_first_content(dialect, events, first):
    assert not assemble(dialect, events[:first]).first_token
    assert assemble(dialect, events[: first + 1]).first_token


def test_a_failed_response_is_an_error():
    failed = streams.response("failed", error={"code": "server_error", "message": "broken"})
    assembler = assemble("openai_responses", streams.responses({"type": "response.failed", "response": failed}))
    assert assembler.error == ToldError("server_error", "broken")


@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_nothing_came(dialect):
    assembler = assemble(dialect, [SseEvent(None, "{"), SseEvent("x", "[]"), SseEvent(None, "null")])
    assert assembler.response() is None
    assert not assembler.first_token


ALL_EVENTS = [
    orjson.loads(event.data)
    for events in (
        *(streams.CHAT_TOOLS, streams.RESPONSES_TOOLS, streams.RESPONSES_REASONING, streams.ANTHROPIC_TOOLS),
        streams.GOOGLE_TOOLS,
    )
    for event in events
    if event.data.startswith("{")
]


@st.composite
def damaged(draw):
    """A real event in which one place holds something else."""
    event = orjson.loads(orjson.dumps(draw(st.sampled_from(ALL_EVENTS))))
    place = event
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and place[key] and draw(st.booleans()):
            place = place[key]
            continue
        place[key] = draw(JSON)
        return SseEvent(draw(st.none() | st.just("error")), orjson.dumps(event).decode())


@given(st.sampled_from(list(DIALECTS)), st.lists(damaged(), max_size=6))
def test_damaged_events_never_raise(dialect, events):
    answer = assemble(dialect, events).response()
    orjson.dumps(answer)
    dialects.usage_of(dialect, answer)
    DIALECTS[dialect].finish_reason(answer)


def test_tool_calls_that_are_text_are_no_text_of_the_answer():
    said = SseEvent(None, '{"choices":[{"index":0,"delta":{"tool_calls":"x"}}]}')
    answer = assemble("openai_chat", [said, said]).response()
    assert answer is not None
    assert "tool_calls" not in answer["choices"][0]["message"]


def test_deep_nesting_never_raises():
    deep = '{"delta":' * 900 + "1" + "}" * 900
    data = '{"choices":[{"index":0,"delta":{"x":' + deep + '}}],"type":"content_block_delta","delta":' + deep + "}"
    for dialect in DIALECTS:
        assemble(dialect, [SseEvent(None, data)] * 2).response()
