"""`seatrial calls`: the conversation of a trial in words, one call as a whole, and no power over the terminal."""

import datetime as dt
import json
import tracemalloc
from typing import Any

import pytest

from seatrial.gateway.calls import CallLog, read_calls
from seatrial.model.record import StepRecord
from seatrial.model.trace import CallError, ModelCall, TokenUsage
from seatrial.report.export import find_talks
from seatrial.store.job_store import JobStore
from tests.cli.conftest import SEATRIAL, Seatrial, on_terminal
from tests.cli.job_folders import BEGUN, make_job, record
from tests.trajectories.samples import Anthropic, whole_trial

SYSTEM = {"role": "system", "content": "You are brief."}
ASKED = {"role": "user", "content": "List the files.\nThen stop."}
TOOL_CALL = {"id": "c1", "type": "function", "function": {"name": "shell", "arguments": '{"run": "ls"}'}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "a.txt\x1b]0;owned\x07\nb.txt\n" + "x" * 5000}


def call(index: int, messages: list[Any], answer: dict[str, Any] | None, **more: Any) -> ModelCall:
    """A call of chat completions, with all its messages as the log takes it."""
    response = {"choices": [{"message": answer, "finish_reason": "stop"}]} if answer else None
    values: dict[str, Any] = {
        "index": index,
        "dialect": "openai_chat",
        "path": "/v1/chat/completions",
        "started_at": BEGUN + dt.timedelta(seconds=index),
        "duration_sec": 1.5,
        "model": "gpt-5",
        "upstream_model": "gpt-5",
        "messages": messages,
        "request": {"model": "gpt-5", "temperature": 0.5},
        "response": response,
        "status": 200,
    }
    return ModelCall(**{**values, **more})


CALLS = (
    call(
        0,
        [SYSTEM, ASKED],
        CALLED,
        usage=TokenUsage(input_tokens=1200, cached_tokens=1000, output_tokens=7),
        cost_usd=0.5,
        first_token_sec=0.25,
        finish_reason="tool_calls",
    ),
    call(1, [SYSTEM, ASKED, CALLED, RESULT], {"role": "assistant", "content": "Two files."}),
    call(
        2,
        [SYSTEM, ASKED],
        None,
        status=None,
        retry_of=0,
        error=CallError(kind="budget", status=429, message="the limit of 2\x1b[2J is reached"),
    ),
)


def write_calls(folder, *calls):
    folder.mkdir(parents=True, exist_ok=True)
    with CallLog(folder) as log:
        for each in calls:
            log.write(each)


@pytest.fixture
def job(tmp_path):
    """A job with a trial that made three calls, and one that made none."""
    store = make_job(tmp_path / "job", record("volts", 1.0), record("crc", 1.0))
    write_calls(store.trial_folder("volts.oracle.1"), *CALLS)
    return tmp_path / "job"


def test_the_conversation_is_told_call_by_call_with_what_is_new_in_each(seatrial: Seatrial, job):
    shown = seatrial("calls", job, "volts")
    assert (shown.code, shown.err) == (0, "")
    first, second, third = shown.out.split("--- call ")[1:]
    assert first.splitlines() == [
        "0 · gpt-5 · 200 · tool_calls · 1,200 in (1,000 cached), 7 out · 0.5000 USD · first token 0.2 s, 1.5 s",
        "system      You are brief.",
        "user        List the files.",
        "            Then stop.",
        'tool call   shell {"run": "ls"}',
    ]
    assert "You are brief." not in second
    assert "tool        a.txt ]0;owned\n            b.txt\n            xxx" in second
    assert second.endswith("assistant   Two files.\n")
    assert third == "2 · gpt-5 · no answer · 1.5 s · repeats call 0 · budget error: the limit of 2 [2J is reached\n"


@pytest.fixture
def threaded(tmp_path):
    """A job whose trial has a title and a sub-agent beside its main thread."""
    store = make_job(tmp_path / "job", record("volts", 1.0))
    write_calls(store.trial_folder("volts.oracle.1"), *whole_trial(Anthropic()).calls)
    return tmp_path / "job"


def test_threads_are_told_apart_and_each_thing_once(seatrial: Seatrial, threaded):
    shown = seatrial("calls", threaded, "volts").out
    assert shown.splitlines()[:4] == [
        "=== main: 4 calls",
        "=== title: 1 call",
        "=== sub-agent 1: 2 calls, started by c3 of call 3",
        "--- call 0 · title · m · 200 · 10 in (4 cached), 2 out · 0.2500 USD · 0.5 s",
    ]
    for text in ("You work.", "You help.", "I look.", "I ask.", "Counting."):
        assert shown.count(text) == 1, text
    assert "tools       shell, task\n" in shown
    assert "input_schema" not in shown


def test_one_thread_with_its_tools_in_full(seatrial: Seatrial, threaded):
    shown = seatrial("calls", threaded, "volts", "--thread", "sub-agent 1", "--full").out
    assert next(line for line in shown.splitlines() if line.startswith("--- ")).startswith("--- call 4 · sub-agent 1")
    assert shown.count('tool offer  {"type": "function", "function": {"name": "shell"') == 1
    assert "I look." not in shown
    wrong = seatrial("calls", threaded, "volts", "--thread", "x")
    assert wrong.code == 2
    assert "has no thread 'x'; there are: main: 4 calls; title: 1 call; sub-agent 1" in wrong.err


def test_long_texts_are_cut_unless_all_is_wanted(seatrial: Seatrial, job):
    short, full = (seatrial("calls", job, "volts", *more).out for more in ((), ("--full",)))
    assert "x" * 5000 not in short
    assert "more characters" in short
    assert "x" * 5000 in full
    assert "more characters" not in full


def test_many_lines_are_cut_in_the_middle(seatrial: Seatrial, tmp_path):
    store = make_job(tmp_path / "job", record("volts", 1.0))
    text = "\n".join(f"line {number}" for number in range(100))
    write_calls(store.trial_folder("volts.oracle.1"), call(0, [{"role": "user", "content": text}], None))
    shown = seatrial("calls", tmp_path / "job", "volts").out
    assert "line 0\n" in shown
    assert "line 50\n" not in shown
    assert "… 76 more lines; --full shows them …" in shown
    assert shown.endswith("line 99\n")


def test_one_call_is_told_with_everything_it_was_told(seatrial: Seatrial, job):
    shown = seatrial("calls", job, "volts", "--call", 1).out
    assert shown.count("--- call ") == 1
    assert 'request     {"model": "gpt-5", "temperature": 0.5}\nsystem      You are brief.\n' in shown
    assert "x" * 5000 in shown
    assert shown.endswith("assistant   Two files.\n")


def test_as_json_the_calls_are_those_that_are_stored(seatrial: Seatrial, job):
    stored = read_calls(job / "trials" / "volts.oracle.1" / "calls.jsonl")
    shown = seatrial("calls", job, "volts", "--json").out
    assert [ModelCall.model_validate_json(line) for line in shown.splitlines()] == stored
    assert shown.isascii()
    one = seatrial("calls", job, "volts", "--json", "--call", 2).out
    assert json.loads(one)["retry_of"] == 0


@pytest.mark.whole
def test_a_terminal_is_not_steered(job):
    for more in ((), ("--full",), ("--call", "1"), ("--json",)):
        shown = on_terminal((*SEATRIAL, "calls", str(job), "volts", *more))
        assert "a.txt" in shown
        for sequence in ("\x1b]0;", "\x1b[2J", "\x07"):
            assert sequence not in shown


@pytest.fixture
def stepped(tmp_path):
    """A job whose only trial has two steps with calls, the second of which is not in the record."""
    store = make_job(tmp_path / "job", record("volts", 1.0, steps=(StepRecord(name="zero"),)))
    folder = store.trial_folder("volts.oracle.1")
    write_calls(folder / "steps" / "zero", CALLS[0])
    write_calls(folder / "steps" / "more", call(0, [ASKED], {"role": "assistant", "content": "Again."}))
    return tmp_path / "job"


def test_the_calls_of_every_step_are_told_in_the_order_of_the_record(seatrial: Seatrial, stepped):
    shown = seatrial("calls", stepped, "volts").out
    assert shown.index("=== step zero") < shown.index("shell") < shown.index("=== step more") < shown.index("Again.")
    one = seatrial("calls", stepped, "volts", "--step", "more", "--call", 0).out
    assert ("Again." in one, "shell" in one) == (True, False)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("crc",), "the agent of 'crc.oracle.1' made no model calls"),
        (("volts", "--call", 7), "'volts.oracle.1' has no call 7; its calls are 0 to 2"),
        (("volts", "--step", "x"), "'volts.oracle.1' has no calls in a step 'x'; there are: none"),
        (("nothing",), "no finished trial 'nothing'"),
    ],
)
def test_what_there_is_not_is_said(seatrial: Seatrial, job, arguments, complaint):
    shown = seatrial("calls", job, *arguments)
    assert (shown.code, shown.out) == (2, "")
    assert complaint in shown.err


def test_a_damaged_file_is_named(seatrial: Seatrial, job):
    path = job / "trials" / "volts.oracle.1" / "calls.jsonl"
    path.write_bytes(path.read_bytes() + b'{"index":')
    shown = seatrial("calls", job, "volts")
    assert (shown.code, shown.out) == (1, "")
    assert f"{path} is damaged: " in shown.err


def test_calls_are_read_line_by_line_however_many_there_are(job):
    store = JobStore.open(job)
    path = store.trial_folder("volts.oracle.1") / "calls.jsonl"
    lines = path.read_bytes()
    path.write_bytes(lines * (2**25 // len(lines)))
    (talk,) = find_talks(store.record("volts.oracle.1"), path.parent)
    tracemalloc.start()
    try:
        assert sum(map(len, talk.stored())) == path.stat().st_size > 2**24
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()
