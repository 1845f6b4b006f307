"""Threads: the conversations of an agent are told apart in every dialect, from what was said alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.gateway.calls import CallLog, read_calls
from seatrial.trajectories.paths import Starter, leading_answer
from seatrial.trajectories.threads import find_threads
from tests.trajectories.samples import ALSO, DIALECTS, HELP, LAST_WORDS, LOOK, Anthropic, Chat, Trial, whole_trial

every_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: type(each).__name__)


def shape(threads):
    return {thread.name: [each.call.index for each in thread.calls] for thread in threads}


@every_dialect
def test_main_title_and_sub_agent_are_told_apart(dialect):
    threads = find_threads(whole_trial(dialect).calls)
    assert shape(threads) == {"main": [1, 2, 3, 6], "title": [0], "sub-agent 1": [4, 5]}
    assert [thread.kind for thread in threads] == ["main", "side", "sub-agent"]
    assert threads[2].starter is not None
    assert threads[2].starter.call == 3


@every_dialect
def test_they_are_the_same_from_the_stored_form(dialect, tmp_path):
    calls = whole_trial(dialect).calls
    with CallLog(tmp_path) as log:
        for call in sorted(calls, key=lambda call: call.index == 0):  # the first ends last
            log.write(call)
    stored = read_calls(tmp_path / "calls.jsonl")
    assert any(call.known for call in stored)
    found, expected = find_threads(stored), find_threads(calls)
    assert shape(found) == shape(expected)
    assert [each.new for thread in found for each in thread.calls] == [
        each.new for thread in expected for each in thread.calls
    ]


@every_dialect
def test_each_message_is_new_once_and_answers_are_not_repeated(dialect):
    trial = whole_trial(dialect)
    main = find_threads(trial.calls)[0]
    new = [message for each in main.calls for message in each.new]
    whole = trial.calls[6].messages
    answers = [
        said for text, tools in (("I look.", (LOOK, ALSO)), ("I ask.", (HELP,))) for said in dialect.said(text, *tools)
    ]
    assert new == [message for message in whole if message not in answers]


@every_dialect
def test_a_sub_agent_is_known_by_its_last_words_where_its_first_ones_are_not_those_of_the_call(dialect):
    trial = Trial(dialect)
    main, helper = trial.agent("You work.", "task"), trial.agent("You help.", "shell")
    main.hears("Go.").asks("I ask.", ("c9", "task", {"kind": "x"}))
    helper.hears("Something quite different from the call.").asks("Counting.", LOOK)
    helper.gets(LOOK, "146").asks(LAST_WORDS)
    main.gets(("c9", "task", {}), f"<result>{LAST_WORDS}</result>").asks("Done.")
    threads = find_threads(trial.calls)
    assert shape(threads) == {"main": [0, 3], "sub-agent 1": [1, 2]}
    assert threads[1].kind == "sub-agent"


@every_dialect
def test_a_conversation_goes_on_after_a_compaction(dialect):
    trial = Trial(dialect)
    main = trial.agent("You work.", "shell")
    main.hears("Do it.").asks("I look.", LOOK)
    summary = "The user wants it done, and there is a file a.txt in the folder."
    main.gets(LOOK, "a.txt").hears("Summarise.").asks(summary)
    main.messages = [*dialect.begin("You work."), dialect.user(f"This session goes on from before:\n{summary}")]
    main.asks("I go on.", ALSO)
    main.gets(ALSO, "/work").asks("Done.")
    threads = find_threads(trial.calls)
    assert shape(threads) == {"main": [0, 1, 2, 3]}
    assert [each.how for each in threads[0].calls] == ["continues", "continues", "compacted", "continues"]


@every_dialect
def test_what_is_asked_again_stays_in_its_place(dialect):
    trial = Trial(dialect)
    main = trial.agent("You work.", "shell").hears("Do it.")
    main.call(dialect.answer("Thrown away.", ALSO))
    main.call()
    main.asks("I look.", LOOK)
    main.gets(LOOK, "a.txt").asks("Done.")
    (thread,) = find_threads(trial.calls)
    assert [(each.call.index, each.taken, len(each.new) > 0) for each in thread.calls] == [
        (0, False, True),
        (1, False, False),
        (2, True, False),
        (3, True, True),
    ]


@every_dialect
def test_a_question_beside_the_conversation_branches_off(dialect):
    trial = Trial(dialect)
    main = trial.agent("You work.", "shell")
    main.hears("Do it.").asks("I look.", LOOK)
    before = main.messages
    main.hears("What should the user ask next?").asks("Nothing.")
    main.messages = before
    main.gets(LOOK, "a.txt").asks("More.", ALSO)
    main.gets(ALSO, "/work").asks("Done.")
    threads = find_threads(trial.calls)
    assert shape(threads) == {"main": [0, 2, 3], "branch 1": [1]}
    assert threads[1].branches_from == 0


def test_a_message_that_is_rewritten_does_not_end_a_thread():
    trial, dialect = Trial(Anthropic()), Anthropic()
    main = trial.agent("You work.", "shell").hears("Do it.")
    main.asks("I look.", LOOK)
    main.gets(LOOK, "a long list").asks("More.", ALSO)
    main.messages[2] = dialect.result(LOOK, "[old output removed]")
    main.gets(ALSO, "/work").asks("Done.")
    (thread,) = find_threads(trial.calls)
    assert [each.how for each in thread.calls] == ["continues", "continues", "rewritten"]
    assert thread.calls[2].new == (dialect.result(LOOK, "[old output removed]"), dialect.result(ALSO, "/work"))


def test_a_cache_mark_makes_no_message_new():
    trial, dialect = Trial(Anthropic()), Anthropic()
    main = trial.agent("You work.", "shell")
    mark = {"cache_control": {"type": "ephemeral"}}
    main.hears({"role": "user", "content": [{"type": "text", "text": "Do it.", **mark}]}).asks("I look.", LOOK)
    main.messages[0] = dialect.user("Do it.")
    main.gets(LOOK, "a.txt").asks("Done.")
    (thread,) = find_threads(trial.calls)
    assert thread.calls[1].new == (dialect.result(LOOK, "a.txt"),)


def test_an_answer_that_the_provider_keeps_is_gone_on_from_by_its_id():
    trial = Trial(Chat())
    main = trial.agent("You work.", "shell").hears("Do it.")
    first = main.call({**Chat().answer("I look.", LOOK), "id": "resp_1"})
    main.messages = [Chat().result(LOOK, "a.txt")]
    main.call(Chat().answer("Done."), request={**(first.request or {}), "previous_response_id": "resp_1"})
    assert shape(find_threads(trial.calls)) == {"main": [0, 1]}


def test_calls_without_a_conversation_are_in_no_thread():
    trial = Trial(Chat())
    trial.agent("x").hears("Embed.").call(dialect=None)
    assert find_threads(trial.calls) == []


def test_the_starter_names_the_tool_call():
    threads = find_threads(whole_trial(Chat()).calls)
    assert threads[2].starter == Starter(3, "c3")


turns = st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.sampled_from(["a", "b", ""])), max_size=12)


@settings(max_examples=40)
@given(turns, st.sampled_from(DIALECTS))
def test_every_call_is_in_one_thread_and_no_message_gets_lost(taken, dialect):
    """Three agents that talk in any order, with answers that are repeated, empty, or missing."""
    trial = Trial(dialect)
    agents = [trial.agent(f"You are {number}.", "shell").hears(f"Task {number}.") for number in range(3)]
    for number, answered, text in taken:
        agent = agents[number]
        if answered:
            agent.asks(text, LOOK)
            agent.gets(LOOK, text)
        else:
            agent.call()
    threads = find_threads(trial.calls)
    placed = [each.call.index for thread in threads for each in thread.calls]
    assert sorted(placed) == [call.index for call in trial.calls]
    for thread in threads:
        told = [message for each in thread.calls for message in each.new]
        heard = [message for message in thread.calls[-1].call.messages if not leading_answer([message])]
        assert told == heard
