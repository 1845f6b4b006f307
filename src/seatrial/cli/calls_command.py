"""`seatrial calls JOB TRIAL`: what the agent of a trial and its model said to each other."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import ValidationError

from seatrial.cli.job_view import find_trial
from seatrial.errors import JobError, StoreError
from seatrial.gateway.calls import conversation, whole_request
from seatrial.model.record import TrialRecord
from seatrial.model.trace import ModelCall
from seatrial.report.conversation import ShownPart, block, describe_threads, headline, part_calls, shown_parts
from seatrial.report.export import TrialTalk, find_talks
from seatrial.report.text import harmless
from seatrial.report.trial import model_usage
from seatrial.store.job_store import JobStore
from seatrial.trajectories.reading import read_answer, read_messages
from seatrial.trajectories.threads import Thread, find_threads

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Talk:
    """The calls of a trial, or of one of its steps."""

    talk: TrialTalk
    calls: Sequence[ModelCall]

    @property
    def step(self) -> str | None:
        return self.talk.step

    @property
    def path(self) -> Path:
        return self.talk.path


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What of them somebody wants to see."""

    index: int | None
    thread: str | None
    step: str | None
    full: bool
    as_json: bool


@click.command("calls")
@click.argument("job", type=click.Path(path_type=Path))
@click.argument("trial")
@click.option("--call", "index", type=click.IntRange(min=0), metavar="N", help="Only this call, with all it was told.")
@click.option("--thread", metavar="NAME", help="Only this thread: main, title, 'sub-agent 1' and the like.")
@click.option("--step", metavar="NAME", help="Only this step of a task that has several.")
@click.option("--full", is_flag=True, help="Cut no long text, and show tool definitions.")
@click.option("--json", "as_json", is_flag=True, help="Print the calls as they are stored, one JSON object per line.")
def command(job: Path, trial: str, **asked: Any) -> None:
    """Print the model calls of TRIAL in the job folder JOB: each with its facts and what is new in it.

    An agent may have several conversations: the main one, titles and summaries, sub-agents. Each call says whose it is.
    """
    wanted = _Wanted(**asked)
    store = JobStore.open(job)
    record = store.record(find_trial(store, trial).trial_id)
    for talk in _chosen(_talks(record, store.trial_folder(record.trial_id)), record, wanted):
        if wanted.as_json:
            _show_stored(talk, wanted.index)
            continue
        if talk.step is not None:
            click.echo(click.style(f"=== step {harmless(talk.step)}", bold=True))
        if wanted.index is not None:
            _show_whole(talk, wanted.index)
        else:
            _show_threads(talk, wanted)
    if (
        wanted.index is None
        and wanted.thread is None
        and wanted.step is None
        and not wanted.as_json
        and record.model_usage
    ):
        click.echo(harmless(f"total: {model_usage(record.model_usage)}"))


def _talks(record: TrialRecord, folder: Path) -> list[_Talk]:
    return [_Talk(each, _read(each)) for each in find_talks(record, folder)]


def _read(talk: TrialTalk) -> list[ModelCall]:
    return _unless_damaged(talk.path, lambda: sorted(talk.calls(), key=lambda call: call.index))


def _unless_damaged(path: Path, read: Callable[[], T]) -> T:
    try:
        return read()
    except ValueError as error:  # also pydantic's
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise StoreError(f"{path} is damaged: {reason}") from error


def _chosen(talks: list[_Talk], record: TrialRecord, wanted: _Wanted) -> list[_Talk]:
    step, index = wanted.step, wanted.index
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


def _show_threads(talk: _Talk, wanted: _Wanted) -> None:
    threads = _unless_damaged(talk.path, lambda: find_threads(talk.calls))
    chosen = [each for each in threads if wanted.thread in (None, each.name)]
    if wanted.thread and not chosen:
        named = "; ".join(describe_threads(threads)) or "none"
        raise JobError(f"{talk.path} has no thread {wanted.thread!r}; there are: {named}")
    if len(threads) > 1:
        for line in describe_threads(chosen):
            click.echo(click.style(f"=== {harmless(line)}", bold=True))
    for each in part_calls(talk.calls, threads, full=wanted.full):
        if wanted.thread is None or _is_in(chosen[0], each.call):
            _show(headline(each.call, each.thread), each.shown, cut=not wanted.full)


def _is_in(thread: Thread, call: ModelCall) -> bool:
    return any(each.call is call for each in thread.calls)


def _show(facts: str, parts: Iterable[ShownPart], *, cut: bool) -> None:
    click.echo(click.style(f"--- {facts}", bold=True))
    for part in parts:
        for line in block(part, cut=cut):
            click.echo(line)


def _show_whole(talk: _Talk, index: int) -> None:
    """One call with everything it was told, and everything else that it asked for."""
    calls = talk.calls
    call = next(call for call in calls if call.index == index)
    request = _unless_damaged(talk.path, lambda: whole_request(calls, index))
    messages = _unless_damaged(talk.path, lambda: conversation(calls, index))
    asked = [ShownPart("request", json.dumps(request, ensure_ascii=False))] if request else []
    said = shown_parts([*read_messages(messages), *read_answer(call.response)])
    _show(headline(call), [*asked, *said], cut=False)


def _show_stored(talk: _Talk, index: int | None) -> None:
    # Parsed and written again for the sake of ASCII: a stranger's text may have characters that steer a terminal.
    for line in talk.talk.stored():
        value = json.loads(line) if line.strip() else {}
        if value and index in (None, value["index"]):
            click.echo(json.dumps(value))
