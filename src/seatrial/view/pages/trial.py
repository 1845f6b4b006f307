"""The page of a trial: what happened and why, then everything it rests on."""

import asyncio
from typing import Any
from urllib.parse import quote

from aiohttp import web
from markupsafe import Markup

from seatrial.errors import JobError, SeatrialError, UsageError
from seatrial.model.record import TrialRecord
from seatrial.report import trial as told
from seatrial.view.app import VIEW, Viewer, html
from seatrial.view.conversation import (
    MOST_BYTES,
    Conversation,
    FirstFailure,
    Talk,
    failure_anchor,
    failures_first,
    talk_of,
)
from seatrial.view.opened import OpenedTrial, open_trial, tree_of
from seatrial.view.templating import render
from seatrial.view.trial_files import change_of, changes_of, instructions_of, logs_of
from seatrial.view.trial_parts import (
    REVIEW_WORDS,
    commands_for,
    evaluations_of,
    neighbours_of,
    opinions_of,
    review_state,
    revisions_of,
    timeline,
    tries_of,
    verdict_of,
)

_SECTIONS = (
    ("task", "Task"),
    ("evaluation", "Evaluation"),
    ("changes", "Changes"),
    ("artifacts", "Artifacts"),
    ("verifier", "Verifier"),
    ("agent", "Agent"),
    ("conversation", "Conversation"),
    ("time", "Time and cost"),
    ("revisions", "Revisions and tries"),
    ("files", "Files"),
    ("commands", "Do it again"),
)
_NEED_RECORD = frozenset({"task", "evaluation", "time"})


def trial_page(view: Viewer, key: str, trial_id: str) -> str:
    """Everything about one trial. Raises JobError where there is no such job or trial."""
    trial = open_trial(key, view.library.job(key), trial_id)
    values = {
        "trial": trial,
        "record": trial.record,
        "around": neighbours_of(trial),
        "changes": changes_of(trial),
        "artifacts": logs_of(trial, "artifacts"),
        "verifier_logs": logs_of(trial, "verifier"),
        "agent_logs": logs_of(trial, "agent"),
        "revised": revisions_of(trial),
        "tries": tries_of(trial),
        "files": tree_of(trial.folder),
        "commands": commands_for(trial),
        **_talks(view, trial),
    }
    if trial.record:
        values |= _judged(trial, trial.record)
    sections = [each for each in _SECTIONS if _has_section(each[0], values)]
    return render("trial.html.jinja", view.links, title=trial_id, sections=sections, **values)


def conversation_page(view: Viewer, key: str, trial_id: str, step: str | None = None, page: int = 1) -> str:
    """Some turns of a trial's conversation. Raises JobError where there are none."""
    values = _turns(view, key, trial_id, step, page)
    return render("trial_conversation.html.jinja", view.links, title=f"{trial_id}: conversation", **values)


def turns_part(view: Viewer, key: str, trial_id: str, step: str | None = None, page: int = 1) -> str:
    return render("trial_turns.html.jinja", view.links, **_turns(view, key, trial_id, step, page))


def change_page(view: Viewer, key: str, trial_id: str, path: str) -> str:
    """What an agent did to one file. Raises JobError where it did nothing to it."""
    trial = open_trial(key, view.library.job(key), trial_id)
    return render("trial_change.html.jinja", view.links, title=path, trial=trial, change=change_of(trial, path))


def _has_section(name: str, values: dict[str, Any]) -> bool:
    if name in ("artifacts", "revisions"):
        return bool(values["artifacts"] if name == "artifacts" else values["revised"] or values["tries"])
    return name not in _NEED_RECORD or values["record"] is not None


def _judged(trial: OpenedTrial, record: TrialRecord) -> dict[str, Any]:
    """What only a trial with a record has."""
    return {
        "verdict": verdict_of(trial, record),
        "instructions": instructions_of(trial),
        "evaluations": evaluations_of(record),
        "steps": told.steps_table(record),
        "evidence": told.evidence(record, None),
        "review": review_state(trial),
        "review_words": REVIEW_WORDS,
        "opinion_columns": told.annotations_table(()).columns,
        "opinions": opinions_of(trial),
        "timeline": Markup(timeline(record.times)),  # noqa: S704 - our own SVG, of escaped parts
        "phases": told.phases_table(record),
        "machine": told.machine(record),
    }


def _talks(view: Viewer, trial: OpenedTrial) -> dict[str, Any]:
    """The conversations of all rounds, and the first failing step in them."""
    talks, trouble = list[Talk](), ""
    for step in dict.fromkeys([None, *trial.rounds]):
        try:
            talk = talk_of(trial.folder, step)
        except SeatrialError as error:
            talk, trouble = None, str(error)
        talks += [talk] if talk else []
    usage = trial.record.model_usage if trial.record else None
    if not talks and usage and usage.calls:
        trouble = trouble or f"{told.model_usage(usage)}, but the file with its calls is missing"
    found = failures_first(talks)
    return {
        "talks": talks,
        "talks_trouble": trouble,
        "usage": told.model_usage(usage) if usage else "",
        "failure": found[1] if found else None,
        "failure_link": _failure_link(view, trial, *found) if found else "",
    }


def _failure_link(view: Viewer, trial: OpenedTrial, talk: Talk, failure: FirstFailure) -> str:
    place = "" if failure.page == 1 else view.links.conversation(trial.key, trial.trial_id, talk.step, failure.page)
    return f"{place}#{quote(failure_anchor(talk.step))}"


def _turns(view: Viewer, key: str, trial_id: str, step: str | None, page: int) -> dict[str, Any]:
    trial = open_trial(key, view.library.job(key), trial_id)
    conversation = _conversation(trial, step)
    if not 1 <= page <= conversation.pages:
        raise JobError(f"{trial_id}: its conversation has {conversation.pages} pages, and this is page {page}")
    turns = conversation.turns(page)
    return {"trial": trial, "conversation": conversation, "step": step, "page": page, "turns": turns}


def _conversation(trial: OpenedTrial, step: str | None) -> Conversation:
    if step is not None and step not in trial.rounds:
        raise JobError(f"{trial.trial_id}: it has no step {step!r}")
    talk = talk_of(trial.folder, step, MOST_BYTES)
    if talk is None:
        raise JobError(f"{trial.trial_id}: no call of a model was recorded")
    if talk.conversation is None:
        raise JobError(
            f"{trial.trial_id}: its calls have {talk.size:,} bytes, and up to {MOST_BYTES:,} are shown here; "
            "the raw file has all of them"
        )
    return talk.conversation


async def _trial(request: web.Request) -> web.Response:
    return html(await asyncio.to_thread(trial_page, request.app[VIEW], *_named(request)))


async def _conversation_page(request: web.Request) -> web.Response:
    return html(await asyncio.to_thread(conversation_page, request.app[VIEW], *_named(request), *_asked(request)))


async def _change(request: web.Request) -> web.Response:
    path = request.query.get("path", "")
    return html(await asyncio.to_thread(change_page, request.app[VIEW], *_named(request), path))


async def _turns_part(request: web.Request) -> web.Response:
    return html(await asyncio.to_thread(turns_part, request.app[VIEW], *_named(request), *_asked(request)))


def _named(request: web.Request) -> tuple[str, str]:
    return request.match_info["job"], request.match_info["trial"]


def _asked(request: web.Request) -> tuple[str | None, int]:
    """Which step and page. Raises UsageError for what is no number."""
    page = request.query.get("page", "1")
    if not page.isascii() or not page.isdecimal() or len(page) > 9:
        raise UsageError(f"page={page!r}: expected the number of a page")
    return request.query.get("step"), int(page)


def routes() -> list[web.RouteDef]:
    trial = "/jobs/{job}/trials/{trial}"
    return [
        web.get(f"{trial}/", _trial),
        web.get(f"{trial}/conversation", _conversation_page),
        web.get(f"{trial}/change", _change),
        web.get(f"/api{trial}/turns", _turns_part),
    ]
