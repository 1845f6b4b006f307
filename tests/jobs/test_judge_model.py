"""Plain calls of a judge: in any dialect, with a schema where it is taken, and never with a key in what is stored."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import InvalidModelResponseError, ProviderError, UsageError
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.budget import Budget
from seatrial.gateway.prices import load_prices
from seatrial.gateway.upstreams.replies import Reply, error_reply, json_reply, render_response
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.jobs.judge_model import BudgetSpentError, JudgeModel, as_stored, is_same_model, judge_refs, open_judges
from seatrial.judge.assess import JudgeReply
from seatrial.judge.questions import make_call
from seatrial.model.assessment import JudgeRef
from seatrial.model.trace import DialectName, TokenUsage
from tests.judge.judges import evidence, rubric

RUBRIC = rubric('temperature = 0.0\n[[question]]\nid = "q"\ntext = "W"')
CALL = make_call(RUBRIC, RUBRIC.questions, evidence().view(("output",)), "code")


class Provider:
    """An upstream of one dialect that answers as a test says, and remembers what it was asked."""

    def __init__(self, dialect: DialectName, *said: Any) -> None:
        self.dialects = frozenset({dialect})
        self._dialect = dialect
        self._said = list(said)
        self.requests: list[ModelRequest] = []

    @asynccontextmanager
    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        self.requests.append(request)
        said = self._said.pop(0)
        if isinstance(said, int):
            yield error_reply(request, said, "response_format is not supported")
        elif isinstance(said, Reply):
            yield json_reply(200, render_response(self._dialect, said))
        elif said is None:
            await asyncio.Event().wait()
        else:
            yield json_reply(200, said)


def ask(upstream: Any, times: int = 1, model: str = "gpt-5") -> list[JudgeReply]:
    judge = JudgeModel(JudgeRef(model=model), upstream, load_prices(), Budget(None, None)).for_trial()

    async def every() -> list[JudgeReply]:
        return [await judge.ask(CALL) for _ in range(times)]

    return asyncio.run(every())


SAID = Reply("yes", usage=TokenUsage(input_tokens=1_000_000, output_tokens=10))


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic", "google"])
def test_every_dialect_is_spoken(dialect):
    upstream = Provider(dialect, SAID)
    (reply,) = ask(upstream)
    assert (reply.text, reply.input_tokens, reply.output_tokens, reply.stopped) == ("yes", 1_000_000, 10, None)
    assert reply.cost_usd is not None
    assert reply.cost_usd > 1
    sent = json.dumps(upstream.requests[0].payload)
    for part in ("4.2 V", "the code code", '"temperature": 0.0', "additionalProperties"):
        assert part in sent or part == "additionalProperties"


def test_a_schema_that_is_refused_is_left_out_from_then_on():
    upstream = Provider("openai_chat", 400, SAID, SAID)
    assert [reply.text for reply in ask(upstream, 2)] == ["yes", "yes"]
    assert ["response_format" in (request.payload or {}) for request in upstream.requests] == [True, False, False]


def test_what_is_refused_without_a_schema_too_is_the_provider_s_failure():
    with pytest.raises(ProviderError, match="the provider answered 400") as caught:
        ask(Provider("openai_chat", 400, 400))
    assert not caught.value.retryable


def test_an_answer_that_is_none_is_the_provider_s_failure():
    with pytest.raises(InvalidModelResponseError):
        ask(Provider("openai_chat", {"detail": "hello"}))


def chat(message: dict[str, Any], finish: str = "stop") -> dict[str, Any]:
    return {"id": "1", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": finish}]}


def test_refused_cut_and_empty_answers_are_told_apart():
    refusal = chat({"role": "assistant", "content": None, "refusal": "I cannot"})
    cut = chat({"role": "assistant", "content": '{"q"'}, "length")
    empty = chat({"role": "assistant", "content": ""})
    found = ask(Provider("openai_chat", refusal, cut, empty), 3, "unknown")
    assert [(reply.text, reply.stopped, reply.cost_usd) for reply in found] == [
        ("", "refused", None),
        ('{"q"', "cut", None),
        ("", None, None),
    ]


def test_scripts_begin_anew_for_each_trial():
    model = JudgeModel(JudgeRef(model="m"), ScriptedModel(["one", "two"]), load_prices(), Budget(None, None))

    async def both() -> list[str]:
        judge = model.for_trial()
        return [(await judge.ask(CALL)).text for _ in range(2)]

    assert [asyncio.run(both()) for _ in range(2)] == [["one", "two"], ["one", "two"]]


def test_a_call_that_is_left_counts_for_the_limit():
    budget = Budget(None, 0.001)
    judge = JudgeModel(JudgeRef(model="gpt-5"), Provider("openai_chat", None), load_prices(), budget).for_trial()

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await judge.ask(CALL)
        with pytest.raises(BudgetSpentError):
            await judge.ask(CALL)

    asyncio.run(leave())


def test_judges_are_at_the_provider_that_their_names_say():
    refs = judge_refs(["claude-x", "openai/gpt-y", "claude-x"], None)
    assert [(ref.model, ref.upstream) for ref in refs] == [("claude-x", "anthropic"), ("gpt-y", "openai")]
    assert judge_refs(["org/model"], "https://host/v1")[0].model == "org/model"
    with pytest.raises(UsageError, match="does not say where the model is"):
        judge_refs(["org/model"], None)


@pytest.mark.parametrize(
    ("named", "stored"),
    [
        ("openai", "openai"),
        ("cache:/some/folder,openai", "openai"),
        ("cache:a,cache:b,https://user:secret@host/v1,key=VARIABLE", "https://host/v1,key=VARIABLE"),
    ],
)
def test_no_key_and_no_cache_is_stored(named, stored):
    assert as_stored(JudgeRef(model="m", upstream=named)).upstream == stored


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("gpt-5", "openai/gpt-5-2025-08-07", True),
        ("Claude-Sonnet-5", "anthropic/claude-sonnet-5@20260101", True),
        ("openrouter/anthropic/claude-sonnet-5", "claude-sonnet-5", True),
        ("gpt-5", "gpt-5-mini", False),
    ],
)
def test_one_model_has_many_names(one, other, same):
    assert is_same_model(one, other) is same


def test_a_cache_is_asked_each_sample_once(tmp_path: Path):
    script = tmp_path / "judge.json"
    script.write_text('["first", "second"]')

    async def twice() -> list[str]:
        refs = [JudgeRef(model="m", upstream=f"cache:{tmp_path / 'kept'},scripted:{script}")]
        said = []
        async with open_judges(refs, load_prices()) as (model,):
            for _ in range(2):
                judge = model.for_trial()
                for sample in (1, 2):
                    view = evidence().view(("output",))
                    said.append((await judge.ask(make_call(RUBRIC, RUBRIC.questions, view, "c", sample))).text)
        return said

    assert asyncio.run(twice()) == ["first", "second", "first", "second"]
