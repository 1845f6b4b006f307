"""The requests of the review pages, and their answers. The journal decides what may be seen, whatever a page believes.

A request names a desk, an item, who asks, and the queue; what is answered is made in `payloads`.
"""

import asyncio
import base64
import binascii
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from aiohttp import web
from pydantic import ValidationError

from seatrial.analysis.loaded import parse_filter
from seatrial.errors import JobError, StoreError, StoreFullError, UsageError
from seatrial.model.base import NonNegativeInt, StrictModel
from seatrial.model.review import ReviewContext, ReviewEntry, Sampling
from seatrial.review.blind import is_revealed
from seatrial.review.queue import RANDOM_ITEMS, QueueOptions, make_queue
from seatrial.review.verdicts import (
    Given,
    GivenUndo,
    GivenVerdict,
    adjudication_entry,
    context_of,
    undo_entry,
    verdict_entry,
)
from seatrial.store.index import TrialEntry
from seatrial.untrusted.json import first_fault
from seatrial.view.app import VIEW, Viewer
from seatrial.view.content import raw_headers
from seatrial.view.review.desk import Desk, Desks, NotOnDeskError, material_of
from seatrial.view.review.payloads import (
    Payload,
    adjudication_payload,
    categories_payload,
    file_bytes,
    file_payload,
    golden_payload,
    item_payload,
    other_attempt_payload,
    queue_payload,
    reveal_payload,
    settlement_payload,
    verdicts_payload,
)

_MOST_BYTES = 2**18


class AskedQueue(StrictModel):
    """Which trials are to be reviewed: those that fit a filter, and how many of the ordinary ones among them."""

    where: str = ""
    random: NonNegativeInt = RANDOM_ITEMS
    seed: int = 0

    @property
    def options(self) -> QueueOptions:
        """How the queue is drawn."""
        return QueueOptions(self.random, self.seed, self.where)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request. `item` is empty in one about the whole desk, `reviewer` where nobody has said who they are yet."""

    desk: str
    item: str
    reviewer: str
    queue: AskedQueue


def asked_in(request: web.Request) -> Asked:
    """What a request asks for. Raises UsageError for a queue that cannot be."""
    found = request.match_info
    queue = unpack_queue(request.query.get("queue", ""))
    return Asked(found["desk"], found.get("item", ""), request.query.get("reviewer", "").strip(), queue)


def queue_in(request: web.Request) -> AskedQueue:
    """The queue that somebody asks for in words of a filter. Raises UsageError."""
    words = request.query
    parse_filter(*filter(None, (words.get("where", ""),)))
    numbers = {name: _number(name, words[name]) for name in ("random", "seed") if name in words}
    return _checked({"where": words.get("where", ""), **numbers})


def pack_queue(queue: AskedQueue) -> str:
    """A queue as part of an address: a filter may name an agent, which nobody should read there at a glance."""
    return base64.urlsafe_b64encode(queue.model_dump_json().encode()).decode() if queue != AskedQueue() else ""


def unpack_queue(text: str) -> AskedQueue:
    """The queue of an address. Raises UsageError for one that was tampered with."""
    if not text:
        return AskedQueue()
    try:
        return _checked(json.loads(base64.urlsafe_b64decode(text.encode())))
    except (binascii.Error, ValueError):
        raise UsageError("the address of this review is damaged; open it again from the page of the job") from None


async def given_in(request: web.Request, kind: type[Given]) -> Given:
    """What a reviewer says. Raises UsageError that names what is wrong with it."""
    content = await _body(request)
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        raise UsageError(first_fault(error, "what was sent")) from None


async def _body(request: web.Request) -> bytes:
    """All that was sent, in however many pieces it comes. Raises UsageError for too much."""
    content = bytearray()
    if (request.content_length or 0) <= _MOST_BYTES:
        async for piece in request.content.iter_any():
            content += piece
            if len(content) > _MOST_BYTES:
                break
        else:
            return bytes(content)
    found = max(request.content_length or 0, len(content))
    raise UsageError(f"{found:,} bytes are too much for a review, expected up to {_MOST_BYTES:,}")


def _checked(values: object) -> AskedQueue:
    try:
        return AskedQueue.model_validate(values)
    except ValidationError as error:
        raise UsageError(first_fault(error)) from None


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{name}: found {text!r}, expected a whole number") from None


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T")
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Question:
    """A request with what it is about. `mode` is `open` or `settle` where somebody asks to see more than they may."""

    view: Viewer
    desk: Desk
    asked: Asked
    mode: str
    number: int


@dataclass(eq=False, slots=True)
class ReviewApi:
    """All reviews of one viewer. `peeked` are those who asked to see what became of an item before their verdict."""

    desks: Desks = field(default_factory=Desks)
    peeked: set[tuple[str, str]] = field(default_factory=set)
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def routes(self) -> list[web.RouteDef]:
        """Where all of this is."""
        desk = "/api/desk/{desk}/"
        item = f"{desk}items/{{item}}"
        return [
            web.get(f"{desk}queue", self._answering(_queue)),
            web.get(f"{desk}categories", self._answering(lambda it: categories_payload(it.desk))),
            web.get(f"{desk}adjudication", self._answering(lambda it: adjudication_payload(it.desk))),
            web.get(f"{desk}settlement", self._answering(self._settlement)),
            web.get(item, self._answering(self._item)),
            web.get(f"{item}/files/{{number:[0-9]{{1,6}}}}", self._answering(_file)),
            web.get(f"{item}/raw/{{number:[0-9]{{1,6}}}}", self._raw),
            web.get(f"{item}/difference", self._answering(self._difference)),
            web.post(f"{item}/verdict", self._adding(GivenVerdict, self._verdict)),
            web.post(f"{item}/adjudication", self._adding(GivenVerdict, _adjudication)),
            web.post(f"{item}/undo", self._adding(GivenUndo, _undo)),
        ]

    def _answering(self, answer: Callable[[Question], Payload]) -> Handler:
        """A handler that answers with a payload, made in a thread: it reads files."""

        async def handle(request: web.Request) -> web.Response:
            return web.json_response(await without_names(lambda: answer(self._question(request))))

        return handle

    def _adding(self, kind: type[Given], make: Callable[[Question, Given], ReviewEntry]) -> Handler:
        """A handler that adds an entry to the journal, once, however often it is asked to."""

        async def handle(request: web.Request) -> web.Response:
            given = await given_in(request, kind)
            # One at a time: what an entry is depends on those before it, and the same one may be on its way twice.
            async with self.writing:
                added = await without_names(lambda: _add(self._question(request), given, make))
            return web.json_response({"entry": added.key, "role": added.role, "blind": added.blind})

        return handle

    async def _raw(self, request: web.Request) -> web.Response:
        """The bytes of a file, for what a page shows as a picture or in a frame."""
        name, content = await without_names(lambda: _bytes(self._question(request)))
        return web.Response(body=content, headers=raw_headers(name, content))

    def _question(self, request: web.Request) -> Question:
        view, asked = request.app[VIEW], asked_in(request)
        desk = self.desks.open(view.library, asked.desk)
        number = int(request.match_info.get("number", 0))
        return Question(view, desk, asked, request.query.get("mode", ""), number)

    def _item(self, it: Question) -> Payload:
        """An item: as it is shown to everybody, and more for those who know, or say that they want to."""
        asked, links = it.asked, it.view.links
        shown = item_payload(material_of(it.desk, asked.item), links, asked.desk)
        if it.mode == "settle":
            self.peeked.add((asked.item, asked.reviewer))
            return {**shown, **verdicts_payload(it.desk, asked.item, links)}
        if it.mode == "open":
            self.peeked.add((asked.item, asked.reviewer))
        if not self._knows(it):
            return shown
        return {**shown, **reveal_payload(it.desk, asked.item, asked.reviewer, links)}

    def _settlement(self, it: Question) -> Payload:
        """All disagreements. Who has read what others said of an item judges it no more without knowing."""
        found = settlement_payload(it.desk, it.asked.desk, it.asked.reviewer, it.view.links)
        self.peeked.update((each["key"], it.asked.reviewer) for each in found["items"])
        return found

    def _difference(self, it: Question) -> Payload:
        material = material_of(it.desk, it.asked.item)
        if material.golden() is None and self._knows(it):
            return other_attempt_payload(it.desk, it.asked.item)
        return golden_payload(material)

    def _knows(self, it: Question) -> bool:
        asked = it.asked
        return (asked.item, asked.reviewer) in self.peeked or is_revealed(asked.reviewer, it.desk.entries(asked.item))

    def _verdict(self, it: Question, given: GivenVerdict) -> ReviewEntry:
        peeked = (it.asked.item, given.reviewer.strip()) in self.peeked
        honest = given.model_copy(update={"blind": given.blind and not peeked})
        trial_id = it.desk.trial(it.asked.item).trial_id
        return verdict_entry(honest, trial_id, it.desk.entries(it.asked.item), _context(it), _sampling(it, given))


async def without_names(does: Callable[[], T]) -> T:
    """What comes of something, done in a thread. Why a job cannot be read names trials: nothing for reviewers."""
    try:
        return await asyncio.to_thread(does)
    except NotOnDeskError:
        raise
    except (StoreError, JobError) as error:
        _LOG.error("review: %s", error)
        what = "the disk is full" if isinstance(error, StoreFullError) else "it cannot be read or stored"
        raise StoreError(f"{what}; why is in the terminal in which the viewer runs") from None


def _add(it: Question, given: Given, make: Callable[[Question, Given], ReviewEntry]) -> ReviewEntry:
    """The entry of something that was said, which is on the disk on return, from now on or since before."""
    known = next((each for each in it.desk.entries(it.asked.item) if each.id == given.id), None)
    if known:
        return known
    if any(each.id == given.id for entries in it.desk.reviews.values() for each in entries):
        raise UsageError(f"{given.id}: another item has an entry of this id already; reload the page")
    entry = make(it, given)
    it.desk.job.store.add_reviews(entry)
    return entry


def _adjudication(it: Question, given: GivenVerdict) -> ReviewEntry:
    trial_id = it.desk.trial(it.asked.item).trial_id
    return adjudication_entry(given, trial_id, it.desk.entries(it.asked.item), _context(it))


def _undo(it: Question, given: GivenUndo) -> ReviewEntry:
    return undo_entry(given, it.desk.trial(it.asked.item).trial_id, it.desk.entries(it.asked.item))


def _queue(it: Question) -> Payload:
    asked = it.asked
    return queue_payload(it.desk, _chosen(it.desk, asked.queue), asked.reviewer, asked.queue.options)


def _file(it: Question) -> Payload:
    return file_payload(material_of(it.desk, it.asked.item), it.number, it.view.links, it.asked.desk)


def _bytes(it: Question) -> tuple[str, bytes]:
    return file_bytes(material_of(it.desk, it.asked.item), it.number)


def _chosen(desk: Desk, queue: AskedQueue) -> tuple[TrialEntry, ...]:
    return desk.job.where(queue.where).trials if queue.where else desk.job.trials


def _sampling(it: Question, given: GivenVerdict) -> Sampling | None:
    """How the item came into the reviewer's queue; None where it never was in it."""
    trial, asked = it.desk.trial(it.asked.item), it.asked.queue
    chosen = _chosen(it.desk, asked)
    job, reviewer = it.desk.job, given.reviewer.strip()
    queue = make_queue(chosen, it.desk.reviews, job.threshold, reviewer, asked.options, job.doubted_by_judges)
    return next((each.sampling for each in queue if each.trial.trial_id == trial.trial_id), None)


def _context(it: Question) -> ReviewContext:
    return context_of(it.desk.job.store.revisions(it.desk.trial(it.asked.item).trial_id)[-1].record)
