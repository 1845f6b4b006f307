"""Trajectories of whole trials: what Harbor expects of them, and that nothing is lost or told twice."""

import json
import os
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.messages import Picture
from seatrial.model.atif import AtifImage, AtifPart, AtifTrajectory, atif_json
from seatrial.model.record import AgentRef
from seatrial.model.trace import CallError, ModelCall
from seatrial.trajectories.atif import Gallery, make_trajectory, write_trajectory
from seatrial.trajectories.threads import find_threads
from tests.trajectories.samples import ALSO, BEGUN, DIALECTS, LAST_WORDS, LOOK, PNG, Anthropic, Chat, Trial, whole_trial
from tests.trajectories.test_reading import strange

every_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: type(each).__name__)
AGENT = AgentRef(name="claude-code", version="2.1", model="asked")


def made(calls: list[ModelCall]) -> dict[str, Any]:
    whole = make_trajectory(find_threads(calls), AGENT, "task.agent.1").trajectory
    assert AtifTrajectory.model_validate_json(atif_json(whole)) == whole
    document: dict[str, Any] = json.loads(atif_json(whole))
    return document


@every_dialect
def test_a_whole_trial(dialect):
    whole = made(whole_trial(dialect).calls)
    agent = whole["agent"]
    assert (whole["schema_version"], whole["session_id"]) == ("ATIF-v1.8", "task.agent.1")
    assert (agent["name"], agent["version"], agent["model_name"]) == ("claude-code", "2.1", "m")
    assert [tool["function"]["name"] for tool in agent["tool_definitions"]] == ["shell", "task"]
    told = [(step["source"], step["message"]) for step in whole["steps"]]
    assert told == [
        ("system", "You work."),
        ("user", "Do the task."),
        ("agent", "I look."),
        ("agent", "I ask."),
        *told[4:5],
        ("agent", "Done."),
    ]
    assert [part["type"] for part in told[4][1]] == ["text", "image"]
    beside = whole["subagent_trajectories"]
    assert [(each["trajectory_id"], each["extra"]["kind"]) for each in beside] == [
        ("title", "side"),
        ("sub-agent 1", "sub-agent"),
    ]
    assert [step["message"] for step in beside[1]["steps"]][-2:] == ["Counting.", LAST_WORDS]


@every_dialect
def test_results_stand_at_the_calls_that_they_answer(dialect):
    steps = made(whole_trial(dialect).calls)["steps"]
    looked, asked = steps[2], steps[3]
    called = [call["tool_call_id"] for call in looked["tool_calls"]]
    results = looked["observation"]["results"]
    assert [result["source_call_id"] for result in results] == called
    assert ["a.txt" in results[0]["content"], "/work" in results[1]["content"]] == [True, True]
    (answered,) = asked["observation"]["results"]
    assert LAST_WORDS in answered["content"]
    if called[0] == "c1":  # where calls have ids
        assert answered["subagent_trajectory_ref"] == [{"trajectory_id": "sub-agent 1"}]


def test_metrics_and_failed_calls():
    whole = made(whole_trial(Anthropic()).calls)
    step = whole["steps"][3]
    assert step["metrics"] == {"prompt_tokens": 10, "completion_tokens": 2, "cached_tokens": 4, "cost_usd": 0.25}
    assert step["extra"] == {"call": 3, "failed_calls": [{"call": 2, "status": 503}]}
    assert (step["timestamp"], step["reasoning_content"]) == ("2026-05-01T12:00:03.500Z", "hm")
    assert whole["final_metrics"] == {
        "total_prompt_tokens": 30,
        "total_completion_tokens": 6,
        "total_cached_tokens": 12,
        "total_cost_usd": 1.5,
        "total_steps": 6,
    }


def test_tokens_and_effort_of_a_chat_upstream():
    trial = Trial(Chat())
    answer = Chat().answer("ok")
    answer["prompt_token_ids"] = [1, 2]
    answer["choices"][0] |= {"token_ids": [3], "logprobs": {"content": [{"token": "ok", "logprob": -0.5}]}}
    trial.agent("x").hears("go").call(answer, request={"reasoning_effort": "high"})
    step = made(trial.calls)["steps"][-1]
    assert step["reasoning_effort"] == "high"
    told = {name: step["metrics"][name] for name in ("prompt_token_ids", "completion_token_ids", "logprobs")}
    assert told == {"prompt_token_ids": [1, 2], "completion_token_ids": [3], "logprobs": [-0.5]}


def test_an_answer_that_was_cut_says_why_and_arguments_that_are_no_json_are_kept():
    trial = Trial(Chat())
    broken = Chat().answer("I", LOOK)
    broken["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = '{"command": "l'
    trial.agent("x", "shell").hears("go").call(broken, error=CallError(kind="disconnected", message="gone"))
    step = made(trial.calls)["steps"][-1]
    assert step["extra"]["error"] == {"call": 0, "status": 200, "kind": "disconnected", "message": "gone"}
    assert step["tool_calls"][0]["arguments"] == {}
    assert step["tool_calls"][0]["extra"] == {"arguments_as_written": '{"command": "l'}


def test_examples_that_the_agent_brings_are_copied_context():
    trial = Trial(Chat())
    trial.agent("x").hears("example?", *Chat().said("so", LOOK), Chat().result(LOOK, "a"), "go").asks("ok")
    steps = made(trial.calls)["steps"]
    copied = [(step["message"], step.get("is_copied_context")) for step in steps if step["source"] == "agent"]
    assert copied == [("so", True), ("ok", None)]
    assert steps[2]["observation"]["results"][0]["source_call_id"] == "c1"


def test_a_trial_without_an_answer_has_a_trajectory_too():
    trial = Trial(Chat())
    trial.agent("x").hears("go").call(error=CallError(kind="budget", status=429, message="used up"))
    whole = made(trial.calls)
    assert [step["source"] for step in whole["steps"]] == ["system", "user"]
    assert whole["extra"]["failed_calls"] == [{"call": 0, "status": 503, "kind": "budget", "message": "used up"}]


def test_images_are_files_each_once(tmp_path):
    trial, dialect = Trial(Anthropic()), Anthropic()
    trial.agent("x").hears(dialect.image(), dialect.image()).asks("ok")
    files = make_trajectory(find_threads(trial.calls), AGENT, "t")
    paths = write_trajectory(files, tmp_path / "agent" / "trajectory.json")
    image, document = paths
    assert (image.parent.name, image.suffix, len(files.images)) == ("images", ".png", 1)
    assert image.read_bytes().startswith(b"\x89PNG")
    assert PNG[:20] not in document.read_text()


@settings(max_examples=60)
@given(st.lists(st.tuples(st.lists(strange, max_size=3), strange, strange, st.booleans()), min_size=1, max_size=5))
def test_whatever_was_said_becomes_a_trajectory(talks):
    """Our model of the format accepts it: steps are numbered, and results refer to calls of their own step."""
    calls = []
    for index, (messages, response, request, stored) in enumerate(talks):
        values: dict[str, Any] = {"response": response if isinstance(response, dict) else None, "messages": messages}
        values["request"] = request if isinstance(request, dict) and stored else {"tools": request}
        calls.append(
            ModelCall(index=index, dialect="anthropic", path="/", started_at=BEGUN, duration_sec=1.0, **values)
        )
    if threads := find_threads(calls):
        atif_json(make_trajectory(threads, AGENT, "t").trajectory)


HARBOR = os.environ.get("SEATRIAL_HARBOR_PYTHON")
VALIDATE = """
import sys
from pathlib import Path
from harbor.utils.trajectory_validator import TrajectoryValidator
for path in sys.argv[1:]:
    validator = TrajectoryValidator()
    if not validator.validate(Path(path)):
        sys.exit(f"{path}: {validator.errors}")
"""


@pytest.mark.skipif(HARBOR is None, reason="SEATRIAL_HARBOR_PYTHON names no Python that has harbor")
def test_harbors_own_validator_accepts_them(tmp_path):
    trials = [whole_trial(dialect) for dialect in DIALECTS]
    repeated = Trial(Chat())
    main = repeated.agent("x", "shell").hears("go")
    main.call(Chat().answer("Thrown away.", ALSO))
    main.asks("I look.", LOOK, ALSO)
    main.gets(ALSO, "b").gets(("unknown", "shell", {}), "c").asks("ok")
    paths = []
    for number, trial in enumerate([*trials, repeated]):
        paths.append(tmp_path / str(number) / "trajectory.json")
        write_trajectory(make_trajectory(find_threads(trial.calls), AGENT, "t"), paths[-1])
    assert HARBOR is not None
    run = subprocess.run([HARBOR, "-c", VALIDATE, *paths], capture_output=True, text=True, timeout=100, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_text_alone_stays_text():
    assert Gallery().content(("a", "b")) == "a\nb"


def test_a_link_of_a_known_type_stays_one():
    url = "https://example.com/a.jpg?size=1"
    assert Gallery().content((Picture(url),)) == [
        AtifPart(type="image", source=AtifImage(media_type="image/jpeg", path=url))
    ]


@pytest.mark.parametrize(
    "url",
    [
        "data:image/svg+xml;base64,PHN2Zz4=",
        "data:image/png;base64,not base64 at all",
        "data:,plain",
        "https://example.com/no-type",
        "https://[example.com/no-type",
        "../../etc/shadow.png",
    ],
)
def test_what_the_format_has_no_place_for_is_told(url):
    gallery = Gallery()
    told = AtifPart(type="text", text=f"[an image that is not kept here: {url}]")
    assert gallery.content((Picture(url),)) == [told]
    assert gallery.files == {}


def test_the_same_picture_is_one_file_with_a_name_of_ours():
    gallery = Gallery()
    gallery.content((Picture(f"data:image/png;base64,{PNG}"), "again", Picture(f"data:IMAGE/PNG;base64,{PNG}")))
    (name,) = gallery.files
    assert name.startswith("images/")
    assert name.endswith(".png")


def test_of_very_many_pictures_the_first_are_kept(monkeypatch):
    monkeypatch.setattr("seatrial.trajectories.atif.MOST_FILES", 2)
    gallery = Gallery()
    told = gallery.content(tuple(Picture(f"data:image/png;base64,{name}AAA") for name in "ABCA"))
    assert [part.type for part in told if isinstance(part, AtifPart)] == ["image", "image", "text", "image"]
    assert len(gallery.files) == 2
