"""Server-sent events: pages are told of jobs while they run, and keep up with them without being loaded again."""

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

import orjson
from aiohttp import web

from seatrial.errors import SeatrialError
from seatrial.report.text import OUTCOME_WORDS, harmless, trial_row
from seatrial.store.index import TrialEntry
from seatrial.view.app import CLOSING, VIEW
from seatrial.view.links import Links
from seatrial.view.live import LOOK_SEC, LiveState
from seatrial.view.outcome_bar import outcome_words

_MOST_JOBS = 50
_SIGN_OF_LIFE = 15
"""After so many looks without news something is sent all the same, to learn whether anybody still listens."""


def state_json(links: Links, key: str, state: LiveState) -> dict[str, Any]:
    """What a page is told of a job, in the words that it shows."""
    return {
        "state": state.state,
        "planned": state.planned,
        "finished": state.finished,
        "outcomes": outcome_words(state.outcomes, state.planned),
        "underway": [harmless(name) for name in state.underway],
        "recent": [_trial_json(links, key, trial) for trial in state.recent],
    }


def _trial_json(links: Links, key: str, trial: TrialEntry) -> dict[str, Any]:
    name, _, reward, time = trial_row(trial)
    cells = [harmless(trial.agent), OUTCOME_WORDS[trial.outcome], reward, time]
    return {"trial": name, "link": links.trial(key, trial.trial_id), "outcome": trial.outcome, "cells": cells}


async def _tell(request: web.Request, keys: Sequence[str]) -> web.StreamResponse:
    """Tell a page of jobs until it goes away or the viewer ends: everything at first, then each job that changed."""
    view, live, closing = request.app[VIEW], request.app[VIEW].live, request.app[CLOSING]
    await asyncio.to_thread(lambda: [view.library.folder(key) for key in keys])  # raises for one that is not there
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    told: dict[str, LiveState] = {}
    quiet = 0
    with ExitStack() as stack, suppress(ConnectionError):
        for key in keys:
            stack.enter_context(live.watching(key))
        while not closing.is_set() and request.transport is not None:
            news = {key: state for key in keys if (state := await _state(request, key)) and state != told.get(key)}
            told.update(news)
            quiet = 0 if news else quiet + 1
            if news:
                jobs = {key: state_json(view.links, key, state) for key, state in news.items()}
                # Waits until the page has taken enough of what it was told before.
                await response.write(b"data: " + orjson.dumps({"jobs": jobs}) + b"\n\n")
            elif quiet % _SIGN_OF_LIFE == 0:
                await response.write(b":\n\n")
            with suppress(TimeoutError):
                await asyncio.wait_for(closing.wait(), LOOK_SEC)
    return response


async def _state(request: web.Request, key: str) -> LiveState | None:
    """A job as it is; nothing while it cannot be read, such as one that is just being moved."""
    try:
        return await request.app[VIEW].live.state(key)
    except SeatrialError:
        return None


async def _of_one(request: web.Request) -> web.StreamResponse:
    return await _tell(request, [request.match_info["job"]])


async def _of_several(request: web.Request) -> web.StreamResponse:
    keys = [*dict.fromkeys(request.query.getall("job", []))]
    if not 0 < len(keys) <= _MOST_JOBS:
        raise web.HTTPBadRequest(text=f"{len(keys)} jobs are named, expected 1 to {_MOST_JOBS}: ?job=KEY&job=KEY")
    return await _tell(request, keys)


def routes() -> list[web.RouteDef]:
    """Where pages listen."""
    return [web.get("/api/jobs/{job}/events", _of_one), web.get("/api/events", _of_several)]
