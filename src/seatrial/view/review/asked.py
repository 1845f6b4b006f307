"""What a request about a review asks for: which desk, which item, who asks, and which part of the queue."""

import base64
import binascii
import json
from dataclasses import dataclass

from aiohttp import web
from pydantic import ValidationError

from seatrial.analysis.filters import parse_filter
from seatrial.errors import UsageError
from seatrial.model.base import NonNegativeInt, StrictModel
from seatrial.review.given import Given
from seatrial.review.queue import RANDOM_ITEMS, QueueOptions

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
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"])) or "what was sent"
        raise UsageError(f"{where}: {problem['msg']}") from None


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
        problem = error.errors()[0]
        raise UsageError(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}") from None


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{name}: found {text!r}, expected a whole number") from None
