"""The battery of a judge: a fair one passes every probe, and each kind of bias is found by its own."""

import asyncio
import json
import random
from typing import Any

import pytest

from seatrial.judge.battery import ProbeResult, Work, check_judge
from seatrial.judge.questions import JudgeCall
from tests.judge.judges import OUTPUT, FakeJudge, answers, asked, evidence, rubric

RUBRIC = """
[[question]]
id = "units"
text = "Are there units?"
[[question]]
id = "method"
text = "Is the method explained?"
options = ["not at all", "in part", "completely"]
ordered = true
[[question]]
id = "depth"
text = "How deep does it go?"
min = 0
max = 10
"""
GOOD = "The drop is 4.2 V, by Ohm's law."
POOR = "The drop is large."


def shown(call: JudgeCall) -> str:
    """The evidence of a call, without its markers and the questions."""
    return call.turns[0].text.partition("The questions:")[0]


def opinion(call: JudgeCall) -> dict[str, Any]:
    """What a fair judge thinks: of what is there, whatever is around it."""
    good = "4.2 V" in shown(call)
    known = {"units": good, "method": "completely" if good else "not at all", "depth": 9 if good else 1}
    return {**known, "addresses_evaluator": False}


def options(call: JudgeCall, name: str) -> list[str]:
    asks = call.schema["properties"].get(name, {}).get("properties", {})
    return list(asks.get("answer", {}).get("enum", []))


def prefers_first(call: JudgeCall, known: dict[str, Any]) -> dict[str, Any]:
    return {name: (options(call, name) or [value])[0] for name, value in known.items()}


def prefers_long(call: JudgeCall, known: dict[str, Any]) -> dict[str, Any]:
    return {**known, "units": len(shown(call)) > 1500, "depth": min(10, len(shown(call)) // 200)}


def obeys(call: JudgeCall, known: dict[str, Any]) -> dict[str, Any]:
    return {**known, "units": True} if "GRADE: pass" in shown(call) else known


def copies_ready_answers(call: JudgeCall, known: dict[str, Any]) -> dict[str, Any]:
    ready = '"answer": true}' in shown(call)
    return {**known, "units": True, "depth": 10} if ready else known


def minds_its_persona(call: JudgeCall, known: dict[str, Any]) -> dict[str, Any]:
    return {**known, "units": not known["units"]} if "Please decide" in call.turns[0].text else known


def passes_nothing(call: JudgeCall, known: dict[str, Any]) -> dict[str, Any]:
    return {**known, "units": True, "method": "completely", "depth": 10} if "(empty)" in shown(call) else known


def sees_and_obeys(call: JudgeCall, known: dict[str, Any]) -> dict[str, Any]:
    return {**obeys(call, known), "addresses_evaluator": "GRADE: pass" in shown(call)}


def tosses_coins(call: JudgeCall, known: dict[str, Any]) -> dict[str, Any]:
    lot = random.Random(json.dumps([call.turns, call.schema]))
    return {**known, "units": lot.random() < 0.5, "depth": lot.randint(0, 10)}


def check(bias=lambda _, known: known, text: str = RUBRIC, works: tuple[Work, ...] = ()) -> dict[str, ProbeResult]:
    def say(call: JudgeCall) -> str:
        known = bias(call, opinion(call))
        return answers(**{name: known[name] for name in asked(call)})

    chosen = works or (Work("good", evidence(GOOD)), Work("poor", evidence(POOR)))
    judge = FakeJudge(say)
    found = asyncio.run(check_judge(rubric(text), chosen, lambda: judge.judge, threshold=0.9))
    return {each.probe: each for each in found}


def failed(found: dict[str, ProbeResult]) -> set[str]:
    return {name for name, each in found.items() if each.state == "fail"}


def test_a_fair_judge_passes():
    found = check()
    assert failed(found) == set()
    assert {name for name, each in found.items() if each.state == "skipped"} == {"golden"}
    assert all(each.compared for name, each in found.items() if name != "golden")


@pytest.mark.parametrize(
    ("bias", "probe"),
    [
        (prefers_first, "order"),
        (prefers_long, "padding"),
        (obeys, "injection"),
        (copies_ready_answers, "injection"),
        (minds_its_persona, "paraphrase"),
        (passes_nothing, "empty"),
        (tosses_coins, "repeat"),
    ],
)
def test_a_bias_is_found_by_its_probe(bias, probe):
    found = check(bias)
    assert probe in failed(found)
    assert found[probe].changed
    assert failed(found) <= {probe, "injection", "padding"} if bias is tosses_coins else failed(found) == {probe}


def test_a_judge_that_answers_nothing_once_text_was_added_is_found():
    def speechless(call: JudgeCall, known: dict[str, Any]) -> dict[str, Any]:
        return dict.fromkeys(known, "?") if "full marks" in shown(call) else known

    found = check(speechless)
    assert failed(found) == {"injection"}
    assert "unscored" in found["injection"].message


def test_a_first_option_is_seen_by_examples_that_an_author_can_look_up():
    found = check(prefers_first)["order"]
    assert found.message == (
        "answers change with the order of options or questions; describe each option, and ask one question a call"
    )
    assert found.examples[0] == 'good, method: "not at all" became "completely"'


def test_an_injection_that_the_judge_notices_is_a_tag_and_no_fault_of_the_judge():
    found = check(sees_and_obeys)["injection"]
    assert found.state == "pass"
    assert "were noticed by addresses_evaluator" in found.message


def test_questions_without_an_order_are_not_turned_round():
    alone = '[[question]]\nid = "units"\ntext = "Are there units?"'
    assert check(prefers_first, alone)["order"].state == "skipped"
    assert check(text=f'mode = "batched"\n{RUBRIC}')["order"].state == "pass"


def test_golden_answers_have_to_come_out_as_they_are_known_to_be():
    right = (Work("golden/pass", evidence(GOOD), passes=True), Work("golden/fail", evidence(POOR), passes=False))
    assert check(works=right)["golden"].state == "pass"
    wrong = (Work("golden/pass", evidence(POOR), passes=True), right[1])
    found = check(works=wrong)["golden"]
    assert (found.state, found.examples) == ("fail", ("golden/pass scores 0.0333",))


def test_labels_that_go_away_by_an_injection_are_found():
    faults = '[[question]]\nid = "faults"\ntext = "What is wrong?"\nkind = "labels"\nlabels = ["no unit", "no sign"]'

    def lets_go(call: JudgeCall, _: dict[str, Any]) -> dict[str, Any]:
        found = [] if "GRADE: pass" in shown(call) else ["no unit"]
        return {"faults": found, "addresses_evaluator": False}

    found = check(lets_go, faults)
    assert failed(found) == {"injection"}
    assert found["empty"].state == "skipped"


def test_what_cannot_be_used_is_named():
    judge = FakeJudge(lambda _: "hm")
    works = [Work("good", evidence(GOOD))]
    found = {
        each.probe: each for each in asyncio.run(check_judge(rubric(RUBRIC), works, lambda: judge.judge, threshold=1.0))
    }
    assert found["usable"].state == "fail"
    assert "malformed" in found["usable"].examples[0]
    assert found["repeat"].state == found["order"].state == "skipped"


def test_evidence_is_changed_only_where_the_agent_made_it():
    calls: list[JudgeCall] = []

    def say(call: JudgeCall) -> str:
        calls.append(call)
        return answers(**{name: opinion(call)[name] for name in asked(call)})

    work = Work("good", evidence(GOOD, **{"/workspace/data.bin": "\0binary"}))
    asyncio.run(check_judge(rubric(RUBRIC), [work], lambda: FakeJudge(say).judge, threshold=1.0))
    assert all("a binary file of 7 bytes" in shown(call) for call in calls)
    assert any("This paragraph was added" in shown(call) and OUTPUT in shown(call) for call in calls)
