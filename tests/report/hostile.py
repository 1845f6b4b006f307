"""Jobs with everything that strangers may call their tasks, agents and failures."""

from io import BytesIO
from typing import Any

from hypothesis import strategies as st

from seatrial.analysis.arms import arms_of
from seatrial.model.base import trial_id
from seatrial.model.job import AgentOptions, TaskLabels
from seatrial.report.text import utf8_text
from tests.analysis.memory_jobs import memory_job, trial

NASTY = "=cmd|' /C calc'!A0]]><script>alert(1)</script>`|\\@team #12\n\x00\x1b[31m\ud800&\"'"
names = st.text(min_size=1, max_size=12)
LABELS = TaskLabels(category="-1+1", difficulty="hard", family="@f", tags=("=x", "y"))


def written(write, arms, *more):
    """The bytes that a format writes."""
    out = BytesIO()
    write(arms, out, *more)
    return out.getvalue()


def arms_named(name):
    """An arm with one trial, everything in which is called so; stored names of tasks and models are always UTF-8."""
    told = {"tags": (f"mechanical:{name}",), "warnings": (name,), "dimensions": {name: 0.5}, "failed_step": name}
    task = utf8_text(name)
    told["trial_id"] = trial_id(task, "agent", 1)
    agents = (AgentOptions(name="agent", model=task),)
    return arms_of([memory_job([trial(task, "agent", 0.0, **told)], agents=agents)])


def mixed_arms():
    """Two arms: each outcome once, one trial that was not run, everything known of one of them."""
    started = "2026-05-01T12:00:00+00:00"
    full: dict[str, Any] = {
        "started_at": started,
        "tags": ("judge:misread", "mechanical:=units"),
        "dimensions": {"b": 0.5, "a": 1.0},
    }
    used: dict[str, Any] = {
        "model_calls": 3,
        "input_tokens": 100,
        "output_tokens": 7,
        "cost_usd": 0.25,
        "agent_sec": 1.5,
    }
    trials = [
        trial("t1", "a", 1.0),
        trial("t2", "a", 0.5, **full, **used, disputed_reward=1.0, failed_step="build", repeats=(0.5, 1.0)),
        trial("t3", "a", 0.0, outcome="no_output", tries=2),
        trial("t1", "b", None, started_at="2026-05-01T11:59:58+00:00"),
        trial("t2", "b", 0.0, outcome="verifier_error"),
        trial("t3", "b", 0.25, outcome="cancelled"),
    ]
    return arms_of([memory_job(trials, untried=["t4"], labels={"t2": LABELS})])
