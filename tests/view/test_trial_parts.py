"""Revisions side by side, and the tries before the one that counts."""

import datetime as dt
import shlex
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from seatrial.cli.job_spec import new_job
from seatrial.model.job import AgentFiles, AgentOptions, JobSpec, ModelOptions, TrialOptions
from seatrial.model.options import declared_options
from seatrial.model.record import FirstVerdict, KeptState, ModelUsage, PhaseTime, Regrade, VerifierRun
from seatrial.model.review import ReviewContext
from seatrial.view.trial_files import logs_of
from seatrial.view.trial_parts import (
    MOST_ATTEMPTS,
    MOST_ROWS,
    commands_for,
    neighbours_of,
    opinions_of,
    revisions_of,
    timeline,
    tries_of,
)
from tests.cli_words import odd_value, taken_apart
from tests.jobs.samples import DIGEST, NOON, broken_machine, evaluation, record
from tests.review.journals import said
from tests.view.trial.trials import keep_trial, opened, page_of, write_files
from tests.view.viewers import stored_job


def regraded(store, reward):
    run = VerifierRun(exit_code=0, duration_sec=1.0, isolation="guarded")
    how = Regrade(
        id="r1",
        seatrial_version="0.2",
        started_at=NOON,
        finished_at=NOON,
        first=FirstVerdict(outcome="pass", reward=1.0),
        task_digest=DIGEST,
    )
    made = record("add", revision=1, parent="add.noop.1", evaluation=evaluation(reward), verifier_run=run, regrade=how)
    with store.draft("add.noop.1", 1) as draft:
        write_files(draft.path, {"verifier/stdout.txt": "judged again"})
        draft.commit(made.model_copy(update={"job": store.file.spec.name}))


def test_revisions_stand_side_by_side_and_what_differs_is_marked(tmp_path):
    store = keep_trial(tmp_path / "job", record("add"), {"verifier/stdout.txt": "judged"})
    assert revisions_of(opened(store)) is None
    regraded(store, 0.5)
    found = revisions_of(opened(store))
    assert found is not None
    assert found.heads == ("revision 0", "revision 1")
    assert {side.label: (side.values, side.differs) for side in found.sides} == {
        "outcome": (("pass", "partial"), True),
        "reward": (("1", "0.5"), True),
        "tags": (("-", "-"), False),
        "verifier": (("-", "exited with 0"), True),
        "isolation": (("-", "guarded"), True),
    }
    (log,) = logs_of(opened(store), "verifier")
    assert (log.files[0].path, log.files[0].size) == ("@revision.1/verifier/stdout.txt", 12)
    assert "another verdict, by Seatrial 0.2 and not 0.1" in page_of(store).words


def test_a_verdict_from_before_a_trial_was_judged_again_is_told_from_one_after_it(tmp_path):
    store = keep_trial(tmp_path / "job", record("add"))
    store.add_reviews(said("add.noop.1", "ada", "pass", context=ReviewContext(revision=0)))
    assert "judged again" not in page_of(store).words
    regraded(store, 0.5)
    store.add_reviews(said("add.noop.1", "eve", "pass", context=ReviewContext(revision=1)))
    assert [each.is_earlier for each in opinions_of(opened(store))] == [True, False]
    assert page_of(store).words.count("before it was judged again") == 1


def test_what_reviewers_say_is_no_difference_between_revisions(tmp_path):
    store = keep_trial(tmp_path / "job", record("add"))
    regraded(store, 1.0)
    store.add_reviews(said("add.noop.1", "ada", "fail", categories=["wrong-method"]))
    trial = opened(store)
    assert trial.record is not None
    assert trial.record.evaluation is not None
    assert trial.record.evaluation.error_taxonomy, "the category is a tag of the trial"
    found = revisions_of(trial)
    assert found is not None
    assert {side.label: side.differs for side in found.sides}["tags"] is False


def test_tries_say_why_they_did_not_count(tmp_path):
    store = keep_trial(tmp_path / "job", record("add", tries=3))
    failed = record("add", failure=broken_machine())
    for number, content in ((1, failed.model_dump_json()), (2, "{"), (10, failed.model_dump_json())):
        write_files(store.path / "tries" / f"add.noop.1.{number}", {"record.json": content})
    write_files(store.path / "tries" / "add.noop.12.1", {"record.json": "of another trial"})
    found = tries_of(opened(store))
    assert [each.number for each in found] == [1, 2, 10]
    assert found[0].told == "no space left (SandboxError, while the sandbox was set up), after 2.5 s"
    assert found[1].told == "its record.json cannot be read"
    assert found[0].files.files[0].path == "@try.1/record.json"
    assert "/raw/%40try.1/record.json" in "".join(page_of(store).values("href"))


SVG = "{http://www.w3.org/2000/svg}"


def phase(name, start, end, step=None):
    begun, ended = (NOON + dt.timedelta(seconds=each) for each in (start, end))
    return PhaseTime(phase=name, step=step, started_at=begun, finished_at=ended)


def drawn_of(times):
    return ET.fromstring(timeline(times))  # noqa: S314 - our own


def test_bars_begin_and_end_where_phases_do():
    drawn = drawn_of([phase("setup", 0, 1), phase("agent", 1, 9), phase("verify", 9, 10)])
    bars = list(drawn.iter(f"{SVG}rect"))
    starts, widths = ([float(bar.attrib[name]) for bar in bars] for name in ("x", "width"))
    assert [bar.attrib["class"] for bar in bars] == ["phase setup", "phase agent", "phase verify"]
    assert starts[1] == starts[0] + widths[0]
    assert widths[1] == 8 * widths[0]
    assert not any("style" in each.attrib for each in drawn.iter())
    assert "agent 8.0 s" in (drawn.findtext(f"{SVG}desc") or "")


def test_phases_of_no_length_can_be_seen_and_hostile_steps_are_only_text():
    drawn = drawn_of([phase("agent", 5, 5, "<script>\x1b[31m")])
    (bar,) = drawn.iter(f"{SVG}rect")
    assert float(bar.attrib["width"]) > 0
    assert any("<script> [31m" in (each.text or "") for each in drawn.iter(f"{SVG}text"))


def test_none_and_very_many():
    assert timeline([]) == ""
    drawn = drawn_of([phase("agent", 0, each) for each in range(200)])
    assert len(list(drawn.iter(f"{SVG}rect"))) == MOST_ROWS


def test_before_and_after_in_the_order_of_ids(tmp_path):
    store = stored_job(tmp_path / "job", {"add": [1.0, 0.0], "sort": [0.5]})
    around = [neighbours_of(opened(store, each)) for each in ("add.noop.1", "add.noop.2", "sort.noop.1")]
    assert [(each.before, each.after, each.place, each.count) for each in around] == [
        (None, "add.noop.2", 1, 3),
        ("add.noop.1", "sort.noop.1", 2, 3),
        ("add.noop.2", None, 3, 3),
    ]


def test_other_agents_and_attempts_at_the_same_task(tmp_path):
    store = stored_job(tmp_path / "job", {"add": [1.0, 0.0], "sort": [0.5]}, agents=("noop", "oracle"))
    rows = neighbours_of(opened(store, "add.oracle.2")).same_task
    found = [(row.agent, [(each.attempt, each.outcome, each.is_shown) for each in row.attempts]) for row in rows]
    assert found == [
        ("noop", [(1, "pass", False), (2, "fail", False)]),
        ("oracle", [(1, "pass", False), (2, "fail", True)]),
    ]
    assert rows[0].attempts[1].told == "add.noop.2: fail, reward 0, 2.5 s"


def test_too_many_attempts_are_counted_and_the_one_that_is_shown_is_among_them(tmp_path):
    store = stored_job(tmp_path / "job", {"add": [0.0] * (MOST_ATTEMPTS + 5)})
    (row,) = neighbours_of(opened(store, f"add.noop.{MOST_ATTEMPTS + 5}")).same_task
    assert (len(row.attempts), row.left_out) == (MOST_ATTEMPTS + 1, 4)
    assert row.attempts[-1].is_shown


def odd_values(table: str) -> dict[str, Any]:
    """A value for each option of a table, also for one that nobody thought of here."""
    declared = [each for each in declared_options(JobSpec) if each.key.startswith(f"{table}.")]
    return {each.key.removeprefix(f"{table}."): odd_value(each) for each in declared}


ODD_TRIAL: dict[str, Any] = {
    **odd_values("trial"),
    "backend": "podman",
    "image": "host",
    "image_map": {"python:3.11": "host"},
    "image_fallback": "refuse",
    "build": "always",
    "isolation": "kill",
    "enforcement": "partial",
    "network": "none",
    "private_hosts": "allow",
    "cpus": 1.5,
    "memory_mb": 512,
    "storage_mb": 3000,
    "agent_timeout_sec": 90.5,
    "agent_timeout_multiplier": 1.0000001,
    "verifier_timeout_multiplier": 3.0,
    "pass_threshold": 0.123456789,
    "keep": "snapshot",
    "trust": "as_left",
    "verdict": "exit_status",
    "verify_repeats": 3,
    "max_busy": 0.25,
    "allow_env": ("HOME", "LANG"),
    "unfit": "run",
    "ca_file": "/etc/ca.pem",
    "proxy": "host",
}
ODD_MODEL: dict[str, Any] = {
    **odd_values("model"),
    "upstream": "openai",
    "translate": "strict",
    "temperature": 0.25,
    "max_output_tokens": 7,
    "max_turns": 8,
    "max_tokens": 9,
    "max_cost_usd": 0.5,
    "prices": "/prices.toml",
}


def lines(folder: Path, agent: AgentOptions, **more: Any) -> list[str]:
    spec = {name: more.pop(name) for name in ("trial", "model") if name in more}
    store = keep_trial(folder, record("add", agent=agent.title, **more), agents=(agent,), **spec)
    return [each.line for each in commands_for(opened(store, f"add.{agent.title}.1"))]


def parsed(line: str) -> JobSpec:
    """What `seatrial run` takes a command line for."""
    program, name, *words = shlex.split(line)
    assert (program, name) == ("seatrial", "run")
    return new_job(taken_apart("run", [*words, "-o", "/tmp/job"]))[0]


def test_every_odd_option_comes_back(tmp_path):
    trial, model = TrialOptions(**ODD_TRIAL), ModelOptions(**ODD_MODEL)
    agent = AgentOptions(name="command", command="it's 'an agent'\n--model x", model="m/1", env={"KEY": "a b=c"})
    read = parsed(lines(tmp_path / "job", agent, trial=trial, model=model)[-1])
    assert read.trial == trial
    assert read.model == model
    assert read.agents == (agent,)
    assert read.tasks == ("/tasks/gone",)


@pytest.mark.parametrize(
    "agent",
    [
        AgentOptions(name="oracle"),
        AgentOptions(name="some-agent", version="2.1", model="m", options={"max_turns": "50"}),
        AgentOptions(name="command", command="-x", setup="pip install 'x'", files=(AgentFiles(source="/a"),)),
    ],
)
def test_agents_come_back(tmp_path, agent):
    assert parsed(lines(tmp_path / "job", agent)[-1]).agents == (agent,)


def test_what_has_no_option_is_named(tmp_path):
    trial = TrialOptions(solution="staged")
    store = keep_trial(tmp_path / "job", record("add"), trial=trial, model=ModelOptions(seed=3))
    assert commands_for(opened(store))[-1].note == "no option for: solution, seed; a job file can say it"


def test_judging_again_takes_a_kept_end_state(tmp_path):
    noop = AgentOptions(name="noop")
    shown, ran = lines(tmp_path / "without", noop, end_state=KeptState(kept=False, reason="large"))
    assert shown == f"seatrial show {tmp_path}/without add.noop.1"
    assert ran == "seatrial run -p /tasks/gone -a noop"
    usage = ModelUsage(calls=1)
    kept = lines(tmp_path / "with", noop, end_state=KeptState(kept=True), model_usage=usage)
    assert [line.split()[1] for line in kept] == ["show", "calls", "regrade", "run"]
    assert kept[2] == f"seatrial regrade {tmp_path}/with --trial add.noop.1"
