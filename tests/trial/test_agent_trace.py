"""Agents that never really ran: their trials keep the verifier's reward and say how little it tells."""

import pytest

from seatrial.gateway.access import ModelAccess
from seatrial.gateway.pricing import PriceTable
from seatrial.gateway.session import SessionOptions
from seatrial.gateway.tally import CallTally
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.model.agent import AgentResult
from seatrial.trial.agent_trace import AgentTrace, find_warnings, trace_agent
from tests.trial.support import Desk, python_command, trial_spec, write_task


def trace(tmp_path, stderr: str, code: int | None = 1, seconds: float = 0.1, tally: CallTally | None = None):
    (tmp_path / "stderr.txt").write_text(stderr)
    result = AgentResult(status="timed_out" if code is None else "exited", exit_code=code, duration_sec=seconds)
    return trace_agent(result, tmp_path, tally)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (127, "/bin/sh: 1: my-agent: not found"),
        (126, "/bin/sh: 1: ./agent.py: Permission denied"),
        (127, ""),
        (2, "python3: can't open file '/app/agent.py': [Errno 2] No such file or directory"),
        (2, "sh: 0: cannot open agent.sh: No such file"),
        (2, "/bin/sh: 0: Can't open agent.sh"),
        (1, "node:internal\nError: Cannot find module '/app/agent.js'\n  code: 'MODULE_NOT_FOUND',\n\nNode.js v20"),
        (1, "/usr/bin/python3: No module named my_agent"),
        (1, "Traceback (most recent call last):\nModuleNotFoundError: No module named 'openai'"),
        (1, "Error: Unable to access jarfile agent.jar"),
    ],
)
def test_a_command_that_could_not_be_started(tmp_path, code, said):
    (warning,) = find_warnings([trace(tmp_path, said, code)])
    assert warning.code == "agent_not_started"
    assert f"ended with {code} after 0.1 s" in warning.message


@pytest.mark.parametrize(
    ("code", "said", "seconds"),
    [
        (0, "my-agent: not found", 0.1),
        (1, "I give up", 0.1),
        (127, "sh: 9: jq: not found", 30.0),
        (None, "python3: can't open file 'x'", 1.0),
        (-9, "", 0.1),
    ],
    ids=["it succeeded", "it gave up by itself", "it worked for a while", "its time ran out", "it was killed"],
)
def test_an_agent_that_ran_is_not_warned_of_however_it_ended(tmp_path, code, said, seconds):
    assert find_warnings([trace(tmp_path, said, code, seconds)]) == ()


def test_an_agent_whose_model_answered_has_started(tmp_path):
    assert find_warnings([trace(tmp_path, "jq: not found", 127, tally=CallTally(1, 1))]) == ()


def test_what_is_said_on_the_other_stream_counts_when_there_is_nothing_else(tmp_path):
    (tmp_path / "stdout.txt").write_text("python3: can't open file 'agent.py'\n")
    assert trace(tmp_path, "", 2).not_started


@pytest.mark.parametrize(
    ("tallies", "code"),
    [
        ([CallTally()], "no_model_call"),
        ([CallTally(3, 0, 3, "no such key")], "calls_refused"),
        ([CallTally(3, 0, 1, "no such key")], "calls_unanswered"),
        ([CallTally(3, 1, 2)], None),
        ([CallTally(), CallTally(2, 2)], None),
        ([CallTally(), CallTally(2, 0, 2)], "calls_refused"),
        ([], None),
    ],
)
def test_what_came_of_the_calls_of_all_rounds(tallies, code):
    assert [each.code for each in find_warnings([AgentTrace(tally=tally) for tally in tallies])] == [code] * bool(code)


def test_only_the_first_cause_is_named(tmp_path):
    (warning,) = find_warnings([trace(tmp_path, "x: not found", 127, tally=CallTally())])
    assert warning.code == "agent_not_started"


def warned(desk: Desk, command: str) -> tuple[float, list[str], str]:
    spec = trial_spec(write_task(desk.new_folder() / "task"), command)
    model = ModelAccess(ScriptedModel([{"text": "right"}]), SessionOptions(), PriceTable(models={}))
    ran = desk.run_spec(spec, model=model)
    return ran.reward, [each.code for each in ran.record.warnings], "".join(w.message for w in ran.record.warnings)


def test_a_real_command_that_is_not_there(desk):
    reward, codes, message = warned(desk, "no-such-agent --now")
    assert (reward, codes) == (0.0, ["agent_not_started"])
    assert "no-such-agent" in message


def test_a_real_agent_that_never_asks_its_model_keeps_its_reward(desk):
    assert warned(desk, "echo right > /app/answer.txt")[:2] == (1.0, ["no_model_call"])


def test_a_real_agent_whose_calls_make_no_sense_is_refused_and_the_reason_is_told(desk):
    reward, codes, message = warned(
        desk,
        python_command("""
            import os, urllib.request
            headers = {"authorization": "Bearer sk-dummy", "content-type": "application/json"}
            url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
            urllib.request.urlopen(urllib.request.Request(url, b"{}", headers))
        """),
    )
    assert (reward, codes) == (0.0, ["calls_refused"])
    assert "`messages` is missing" in message


def test_the_oracle_needs_no_model(desk):
    files = {"solution/solve.sh": "#!/bin/sh\necho right > /app/answer.txt\nno-such-tool\n"}
    spec = trial_spec(write_task(desk.new_folder() / "task", files=files), "oracle")
    model = ModelAccess(ScriptedModel([]), SessionOptions(), PriceTable(models={}))
    assert desk.run_spec(spec, model=model).record.warnings == ()
