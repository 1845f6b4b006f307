"""Trials as a JUnit report, which build servers read: a suite for each agent of a job, a case for each trial.

A reward below the threshold is a failure, a machine that failed is an error, and a trial without a verdict is skipped.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import BinaryIO
from xml.etree import ElementTree as ET
from xml.sax.saxutils import quoteattr

from seatrial.analysis.arms import Arm, in_order, open_trials
from seatrial.junit import CaseStatus, case_counts, xml_text
from seatrial.model.outcome import Outcome, format_reward
from seatrial.report.text import harmless
from seatrial.store.index import TrialEntry

_STATUS: Mapping[Outcome, CaseStatus] = {
    "pass": "passed",
    "partial": "failure",
    "fail": "failure",
    "no_output": "failure",
    "invalid_output": "failure",
    "infrastructure_error": "error",
    "verifier_error": "skipped",
    "cancelled": "skipped",
}


def write_junit(arms: Sequence[Arm], out: BinaryIO) -> None:
    """Write a suite for each arm, one case after the other."""
    suites = [(arm, [*in_order(arm.trials), *in_order(open_trials(arm))]) for arm in arms]
    everything = [trial for _, trials in suites for trial in trials]
    out.write(b'<?xml version="1.0" encoding="utf-8"?>\n')
    totals = {name: count for name, count in _counts(everything).items() if name != "skipped"}
    out.write(_opening("testsuites", {"name": "seatrial", **totals}))  # Jenkins' schema knows no `skipped` here
    for arm, trials in suites:
        started = min((trial.started_at for trial in trials if trial.started_at), default=None)
        begun = {"timestamp": started[:19]} if started else {}
        out.write(_opening("testsuite", {"name": arm.label, **_counts(trials), **begun}))
        out.writelines(ET.tostring(_case(arm, trial), encoding="utf-8") + b"\n" for trial in trials)
        out.write(b"</testsuite>\n")
    out.write(b"</testsuites>\n")


def _opening(tag: str, attributes: Mapping[str, str]) -> bytes:
    written = "".join(f" {name}={quoteattr(xml_text(value))}" for name, value in attributes.items())
    return f"<{tag}{written}>\n".encode()


def _counts(trials: Iterable[TrialEntry]) -> Mapping[str, str]:
    trials = [*trials]
    seconds = sum(trial.duration_sec or 0.0 for trial in trials)
    return {**case_counts(_STATUS[trial.outcome] for trial in trials), "time": f"{seconds:.3f}"}


def _case(arm: Arm, trial: TrialEntry) -> ET.Element:
    case = ET.Element(
        "testcase",
        classname=xml_text(f"{arm.label}.{trial.task_id}"),
        name=xml_text(trial.trial_id),
        time=f"{trial.duration_sec or 0.0:.3f}",
    )
    status, message = _STATUS[trial.outcome], xml_text(case_message(trial, arm.job.threshold_of(trial)))
    if status == "passed":
        if message:
            ET.SubElement(case, "system-out").text = message
    elif status == "skipped":
        ET.SubElement(case, "skipped", message=message)
    else:
        told = ET.SubElement(case, status, type=trial.outcome, message=message)
        told.text = xml_text(f"{message}\n{arm.job.path}/trials/{trial.trial_id}")
    return case


_LONGEST = 500


def case_message(trial: TrialEntry, threshold: float) -> str:
    """Why a trial has no full reward, and what to know of one that has; empty when there is nothing to say."""
    return harmless("; ".join(_parts(trial, threshold)))[:_LONGEST]


def _parts(trial: TrialEntry, threshold: float) -> list[str]:
    if trial.outcome == "cancelled":
        return ["cancelled" if trial.tries else "not run yet"]
    if trial.outcome == "infrastructure_error":
        return [trial.failure or "the trial could not be run"]
    parts = []
    if trial.outcome == "verifier_error":
        parts.append("the verifier could not judge")
    elif trial.outcome != "pass":
        parts.append(f"{trial.outcome}: reward {format_reward(trial.reward)}, {format_reward(threshold)} to pass")
    if trial.disputed_reward is not None:
        parts.append(f"disputed: {format_reward(trial.disputed_reward)} on the system as the agent left it")
    if trial.failed_step is not None:
        parts.append(f"first failed step: {trial.failed_step}")
    if trial.tags:
        parts.append(f"tags: {', '.join(trial.tags)}")
    return [*parts, *trial.warnings]
