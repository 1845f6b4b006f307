"""Streams of chat completions: events that differ in a text alone are told from the others exactly."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.gateway.base import SseEvent, parse_events
from seatrial.gateway.dialects import openai_chat
from seatrial.gateway.dialects.openai_chat import Alike, ChatAssembler, News

TEXTS = st.text(max_size=6) | st.sampled_from(["x", '"', "\\", "\n", "m", "assistant", "é", " and", "\x00", "}"])


def part(text, *, name="content", index=0, **more):
    """A part of an answer, as servers write it."""
    head = {"id": "1", "object": "chat.completion.chunk", "model": "m", "usage": None}
    return {**head, "choices": [{"index": index, "delta": {name: text}, "finish_reason": None}], **more}


def read(data):
    (delta,) = (choice["delta"] for choice in orjson.loads(data)["choices"])
    ((name, text),) = delta.items()
    return News(name, text)


def written(chunk):
    return orjson.dumps(chunk).decode()


def stream(chunks):
    """The text of events, without the blank line after the last one."""
    return "\n\n".join(f"data: {written(chunk)}" for chunk in chunks)


@pytest.fixture
def alike():
    known = Alike()
    assert known.learn(written(part("one")), News("content", "one"), read)
    return known


@pytest.mark.parametrize("text", ["two", "", "Ümläut", "}]}", " ", 'say "two"', "a\\b", "a\nb", '","role":"x'])
def test_another_text_is_found(alike, text):
    assert alike.text(written(part(text))) == text


@pytest.mark.parametrize(
    "chunk",
    [
        part("two", index=1),
        part("two", model="n"),
        part("two", obfuscation="x"),
        part("two", name="refusal"),
        part(None),
        part(["two"]),
    ],
)
def test_any_other_difference_is_noticed(alike, chunk):
    assert alike.text(written(chunk)) is None


@pytest.mark.parametrize("text", ['x","role":"y', 'x"', '"', "\\", "\\ud800", "a\tb", "x\n"])
def test_what_would_not_be_one_text_is_none(alike, text):
    before, _, after = written(part("one")).partition("one")
    assert alike.text(before + text + after) is None


@pytest.mark.parametrize("texts", [["two"], ["two", "", " three"], ['say "two"', "a\\b", "a\nb"], ["\n\ndata: ", "x"]])
def test_the_texts_of_several_events_are_found_at_once(alike, texts):
    assert alike.texts(stream(part(text) for text in texts)) == texts


@pytest.mark.parametrize(
    "others",
    [
        [part("two", model="n")],
        [part("two"), part("two", index=1), part("two")],
        [part("two"), part(None)],
        [part(["two"]), part("two")],
    ],
)
def test_one_that_differs_is_noticed_among_several(alike, others):
    assert alike.texts(stream(others)) is None


@pytest.mark.parametrize("text", ['x","role":"y', '"', "\\", "\\ud800", "a\tb", "x\n", '"}}]}\n\ndata: {"a":"'])
def test_what_would_not_be_one_text_is_none_among_several(alike, text):
    before, _, after = written(part("one")).partition("one")
    assert alike.texts(f"data: {before}two{after}\n\ndata: {before}{text}{after}") is None


@pytest.mark.parametrize("whole", ["", "data: ", ": comment", "event: x\ndata: {}", "data: [DONE]"])
def test_what_is_no_such_event_is_none(alike, whole):
    assert alike.texts(whole) is None
    assert alike.texts(f"{stream([part('two')])}\n\n{whole}") is None
    assert Alike().texts(whole) is None


def test_nothing_is_known_once_it_is_forgotten(alike):
    alike.forget()
    assert alike.text(written(part("one"))) is None


def test_an_event_in_which_both_ends_overlap_is_none(alike):
    first, _, rest = written(part("one")).partition('one"')
    assert alike.text(first + rest) is None
    assert alike.text(first[:-1] + '"' + rest) is None


def test_a_text_that_stands_elsewhere_too_is_not_mistaken_for_it():
    known = Alike()
    # The first "m" is the name of the model, and the text is written with an escape.
    data = written(part("m")).replace('{"content":"m"}', '{"content":"\\u006d"}')
    assert not known.learn(data, News("content", "m"), read)
    assert known.text(data) is None


def test_it_is_given_up_with_a_server_that_writes_something_new_into_each_event():
    known, learnt = Alike(), 0
    for number in range(100):
        data = written(part("text", obfuscation=str(number)))
        assert known.text(data) is None
        learnt += known.may_learn() and known.learn(data, News("content", "text"), read)
    assert 0 < learnt < 20


class Never(Alike):
    """Knows no event."""

    def may_learn(self) -> bool:
        return False


choices = st.fixed_dictionaries(
    {"delta": st.dictionaries(st.sampled_from(["content", "reasoning", "role", "id"]), TEXTS | st.none(), max_size=3)},
    optional={
        "index": st.sampled_from([0, 1, None]),
        "finish_reason": st.sampled_from([None, "stop"]),
        "logprobs": st.sampled_from([None, {"content": [1]}, {"text": "x"}]),
    },
)
chunks = st.fixed_dictionaries(
    {"choices": st.lists(choices, max_size=2)},
    optional={"id": st.sampled_from(["1", "m"]), "model": st.just("m"), "usage": st.none() | st.just({"n": 1})},
)
likely = st.builds(part, TEXTS, name=st.sampled_from(["content", "reasoning"]), index=st.sampled_from([0, 0, 0, 1]))


def repeated(chunk, texts):
    """A part, and then the same with other texts, which are in its first choice if it has any."""
    first, *others = chunk["choices"] or [{"delta": {}}]
    parts = [{**chunk, "choices": [{**first, "delta": {**first["delta"], "content": text}}, *others]} for text in texts]
    return [chunk, *parts]


@given(st.lists(st.builds(repeated, likely | chunks, st.lists(TEXTS, max_size=4)), max_size=8))
def test_what_is_put_together_is_the_same_as_if_every_event_were_parsed(runs):
    assembled = []
    for kind in (Alike, Never):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(openai_chat, "Alike", kind)
            assembler = ChatAssembler()
        for each in (each for run in runs for each in run):
            assembler.feed(SseEvent(None, written(each)))
        assembled.append((assembler.response(), assembler.first_token, assembler.finished, assembler.error))
    skimming = ChatAssembler()
    for run in runs:
        if not skimming.skim(stream(run)):
            for event in parse_events(stream(run)):
                skimming.feed(event)
    assembled.append((skimming.response(), skimming.first_token, skimming.finished, skimming.error))
    assert assembled[0] == assembled[1] == assembled[2]


def test_what_grows_beside_the_text_grows_with_every_event():
    chunk = part("x")
    chunk["choices"][0]["logprobs"] = {"content": [1]}
    assembler = ChatAssembler()
    for _ in range(3):
        assembler.feed(SseEvent(None, written(chunk)))
    (choice,) = (assembler.response() or {})["choices"]
    assert (choice["message"]["content"], choice["logprobs"]) == ("xxx", {"content": [1, 1, 1]})


def test_what_an_event_says_beside_its_text_counts_again_after_another_one():
    assembler = ChatAssembler()
    for chunk in (part("a"), part("b"), part("\n", model="other"), part("d")):
        assembler.feed(SseEvent(None, written(chunk)))
    answer = assembler.response() or {}
    assert (answer["model"], answer["choices"][0]["message"]["content"]) == ("m", "ab\nd")
