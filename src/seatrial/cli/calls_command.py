"""`seatrial calls JOB TRIAL`: what the agent of a trial and its model said to each other."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from pydantic import ValidationError

from seatrial.cli.job_view import find_trial
from seatrial.errors import JobError, StoreError
from seatrial.gateway.calls import CALLS_FILE, conversation, read_calls, whole_request
from seatrial.model.record import TrialRecord
from seatrial.model.trace import ModelCall
from seatrial.report.conversation import Utterance, answer, block, headline, told
from seatrial.report.text import harmless
from seatrial.report.trial import model_usage
from seatrial.store.job_store import JobStore


@dataclass(frozen=True, slots=True)
class _Talk:
    """The calls of a trial, or of one of its steps."""

    step: str | None
    path: Path
    calls: Sequence[ModelCall]


@click.command("calls")
@click.argument("job", type=click.Path(path_type=Path))
@click.argument("trial")
@click.option("--call", "index", type=click.IntRange(min=0), metavar="N", help="Only this call, with all it was told.")
@click.option("--step", metavar="NAME", help="Only this step of a task that has several.")
@click.option("--full", is_flag=True, help="Cut no long text.")
@click.option("--json", "as_json", is_flag=True, help="Print the calls as they are stored, one JSON object per line.")
def command(job: Path, trial: str, index: int | None, step: str | None, full: bool, as_json: bool) -> None:
    """Print the model calls of TRIAL in the job folder JOB: each with its facts and the messages that are new in it."""
    store = JobStore.open(job)
    record = store.record(find_trial(store, trial).trial_id)
    talks = _chosen(_talks(record, store.trial_folder(record.trial_id)), record, step, index)
    for talk in talks:
        if as_json:
            _show_stored(talk, index)
            continue
        if talk.step is not None:
            click.echo(click.style(f"=== step {harmless(talk.step)}", bold=True))
        for call in talk.calls if index is None else ():
            _show(call, [*told(call.messages), *answer(call.response)], cut=not full)
        if index is not None:
            _show_whole(talk.calls, index)
    if index is None and step is None and not as_json and record.model_usage:
        click.echo(harmless(f"total: {model_usage(record.model_usage)}"))


def _talks(record: TrialRecord, folder: Path) -> list[_Talk]:
    # A step in which the machinery failed may be missing from the record; its calls are there all the same.
    found = sorted(path.parent.name for path in folder.glob(f"steps/*/{CALLS_FILE}"))
    steps = dict.fromkeys([*(step.name for step in record.steps), *found])
    places: dict[str | None, Path] = {
        None: folder / CALLS_FILE,
        **{name: folder / "steps" / name / CALLS_FILE for name in steps},
    }
    return [_Talk(step, path, _read(path)) for step, path in places.items() if path.is_file()]


def _read(path: Path) -> list[ModelCall]:
    try:
        return sorted(read_calls(path), key=lambda call: call.index)
    except ValidationError as error:
        raise StoreError(f"{path} is damaged: {error.errors()[0]['msg']}") from error


def _chosen(talks: list[_Talk], record: TrialRecord, step: str | None, index: int | None) -> list[_Talk]:
    if not talks:
        raise JobError(f"the agent of {record.trial_id!r} made no model calls")
    of_step = [talk for talk in talks if step is None or talk.step == step]
    if not of_step:
        named = ", ".join(talk.step for talk in talks if talk.step) or "none"
        raise JobError(f"{record.trial_id!r} has no calls in a step {step!r}; there are: {named}")
    found = [talk for talk in of_step if index is None or any(call.index == index for call in talk.calls)]
    if not found:
        last = max(call.index for talk in of_step for call in talk.calls)
        raise JobError(f"{record.trial_id!r} has no call {index}; its calls are 0 to {last}")
    return found


def _show(call: ModelCall, said: Sequence[Utterance], *, cut: bool) -> None:
    click.echo(click.style(f"--- {headline(call)}", bold=True))
    for line in _lines(said, cut=cut):
        click.echo(line)


def _lines(said: Sequence[Utterance], *, cut: bool) -> Iterator[str]:
    for each in said:
        yield from block(each, cut=cut)


def _show_whole(calls: Sequence[ModelCall], index: int) -> None:
    """One call with everything it was told, and everything else that it asked for."""
    call = next(call for call in calls if call.index == index)
    request = whole_request(calls, index)
    asked = [Utterance("request", json.dumps(request, ensure_ascii=False))] if request else []
    _show(call, [*asked, *told(conversation(calls, index)), *answer(call.response)], cut=False)


def _show_stored(talk: _Talk, index: int | None) -> None:
    # Parsed and written again for the sake of ASCII: a stranger's text may have characters that steer a terminal.
    for line in talk.path.read_bytes().splitlines():
        value = json.loads(line) if line else {}
        if value and index in (None, value["index"]):
            click.echo(json.dumps(value))
