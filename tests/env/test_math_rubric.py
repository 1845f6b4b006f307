"""Mathematical answers; the package that compares them may be missing."""

import asyncio
import pickle
import sys

import pytest

from seatrial.env import math_rubric
from seatrial.env.math_rubric import MathRubric, MathWorkers
from seatrial.env.rollout import new_state
from seatrial.errors import InfraError, UsageError


class Textual:
    """Workers that compare texts, and keep what they were asked."""

    def __init__(self):
        self.asked = []

    def ask(self, question):
        self.asked.append(question)
        return question["answer"] == question["response"]

    def close(self):
        self.asked.append("closed")


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setattr(math_rubric, "find_spec", lambda name: object())
    workers = Textual()
    monkeypatch.setattr(math_rubric, "MathWorkers", lambda *_: workers)
    return workers


def scored(rubric, said):
    state = new_state({"prompt": "q", "answer": "42"}, "m", None)
    state["completion"] = [{"role": "assistant", "content": said}]
    asyncio.run(rubric.score_rollout(state))
    return state["reward"]


@pytest.mark.parametrize(
    ("said", "reward"),
    [
        (r"<think>\boxed{1}</think> so \boxed{42}", 1.0),
        (r"\boxed{41}", 0.0),
        ("42", 0.0),
        (r"\boxed{" + "4" * 99 + "}", 0.0),
    ],
)
def test_the_answer_in_the_last_box_after_the_thinking_counts(installed, said, reward):
    assert scored(MathRubric(max_verify_chars=50), said) == reward


def test_only_answers_that_could_be_right_are_compared(installed):
    rubric = MathRubric([lambda: 1.0], [0.5], max_verify_chars=2, timeout_seconds=0.5)
    assert [scored(rubric, said) for said in ("42", r"\boxed{421}", r"\boxed{42}")] == [0.5, 0.5, 1.5]
    assert installed.asked == [{"answer": "42", "response": "42", "seconds": 1}]
    asyncio.run(rubric.teardown())
    assert installed.asked[-1] == "closed"


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(math_rubric, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install math-verify"):
        MathRubric()


def test_it_can_be_sent_to_another_process(installed):
    rubric = MathRubric()
    scored(rubric, r"\boxed{42}")
    assert pickle.loads(pickle.dumps(rubric)).timeout_seconds == 5  # noqa: S301 - our own


SCRIPT = """
import json, os, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    if "die" in asked:
        sys.exit(1)
    if "hang" in asked:
        time.sleep(60)
    print(int(os.getpid() == asked.get("pid", os.getpid())), flush=True)
"""


@pytest.fixture
def workers():
    workers = MathWorkers(1, 20.0, (sys.executable, "-c", SCRIPT))
    yield workers
    workers.close()


def test_a_process_is_kept_for_the_next_question(workers):
    assert workers.ask({})
    worker = workers._free.get()
    workers._free.put(worker)
    assert workers.ask({"pid": worker.pid})
    assert not workers.ask({"pid": 0})
    workers.close()
    assert worker.poll() is not None


def test_one_that_ends_is_an_error_and_replaced(workers):
    with pytest.raises(InfraError, match=r"ended without saying anything of .*die"):
        workers.ask({"die": 1})
    assert workers.ask({})


def test_one_that_hangs_is_ended():
    workers = MathWorkers(1, 0.2, (sys.executable, "-c", SCRIPT))
    with pytest.raises(InfraError, match="hang"):
        workers.ask({"hang": 1})
    workers.close()
