"""What is sent to a reviewer's page before the verdict, and to anybody.

Each payload is put together from named fields, never by taking fields away; `review/blind.py` says which there are.
"""

from collections.abc import Iterable
from typing import Any

from seatrial.errors import UsageError
from seatrial.report.text import harmless
from seatrial.review.calibration import calibration_of
from seatrial.review.categories import used_categories
from seatrial.review.queue import QueueOptions, make_queue, state_for
from seatrial.store.index import TrialEntry
from seatrial.view.links import Links
from seatrial.view.rendering.addresses import RawAddress
from seatrial.view.rendering.bounded import BoundedContent, bounded
from seatrial.view.rendering.differences import show_difference
from seatrial.view.rendering.show import show_file
from seatrial.view.review.desk import Desk
from seatrial.view.review.material import Material
from seatrial.view.templating import render

Payload = dict[str, Any]
_MOST_SHOWN, _MOST_BYTES = 2**18, 2**24
_MOST_SECONDS = 1e9


def queue_payload(desk: Desk, trials: Iterable[TrialEntry], reviewer: str, options: QueueOptions) -> Payload:
    """The queue of a reviewer and how far they are: keys, tasks and their own states, and nothing about why."""
    keys = {trial.trial_id: key for key, trial in desk.trials.items()}
    queue = make_queue(trials, desk.reviews, desk.job.threshold, reviewer, options)
    items = [
        {
            "key": keys[each.trial.trial_id],
            "task": harmless(each.trial.task_id),
            "state": state_for(reviewer, desk.reviews.get(each.trial.trial_id, ())),
        }
        for each in queue
    ]
    return {"items": items, "seconds": _seconds(desk, reviewer), "calibration": _calibration(desk, reviewer)}


def item_payload(material: Material, links: Links, desk_key: str) -> Payload:
    """What is shown of an item."""
    item = material.item
    instruction = None
    if item.instruction is not None:
        instruction = show_file("instruction.md", bounded(item.instruction.encode("utf-8", "replace")))
    base = f"{links.review_api(desk_key)}items/{item.key}/files/"
    html = render("review_item.html.jinja", links, item=item, instruction=instruction, base=base)
    return {"key": item.key, "html": html, "has_golden": material.golden() is not None}


def file_payload(material: Material, number: int, links: Links, desk_key: str) -> Payload:
    """A file that the agent left, shown by its format; one that is not there is said to be so.

    Raises UsageError when the item has none of that number.
    """
    content = _content(material, number, _MOST_SHOWN)
    raw = RawAddress(f"{links.review_api(desk_key)}items/{material.item.key}/raw/{number}")
    shown = show_file(_name(material, number), content, raw) if content else None
    return {"html": render("review_file.html.jinja", links, shown=shown)}


def file_bytes(material: Material, number: int) -> tuple[str, bytes]:
    """The name and all bytes of a file that the agent left. Raises UsageError for none, or for too many."""
    content = _content(material, number, _MOST_BYTES)
    if content is None:
        raise UsageError("it is not there: the agent left no such file, or what it left was not kept")
    if not content.whole:
        raise UsageError(f"it has {content.size:,} bytes, of which no more than {_MOST_BYTES:,} are handed out here")
    return _name(material, number), content.head


def golden_payload(material: Material) -> Payload:
    """How the output differs from the golden answer. Raises UsageError where the task has none."""
    golden = material.golden()
    if golden is None:
        raise UsageError(
            "this task has no golden answer to compare with, or its folder has changed since; after your verdict, the "
            "output of another attempt takes its place"
        )
    return difference_payload(material, *golden)


def difference_payload(material: Material, against: str, before: bytes) -> Payload:
    """How the output of an item differs from something else."""
    after = material.content(0) if material.files else None
    name = _name(material, 0) if material.files else "output"
    return {"html": show_difference(before, after.head if after else None, name), "against": harmless(against)}


def categories_payload(desk: Desk) -> Payload:
    """The categories that reviewers of this job have used so far, to be completed from."""
    return {"categories": used_categories(each for every in desk.reviews.values() for each in every)}


def _content(material: Material, number: int, limit: int) -> BoundedContent | None:
    if not 0 <= number < len(material.files):
        raise UsageError(f"there is no file {number} of this item, expected a number below {len(material.files)}")
    return material.content(number, limit)


def _name(material: Material, number: int) -> str:
    return material.item.files[number].name


def _calibration(desk: Desk, reviewer: str) -> Payload | None:
    found = calibration_of(reviewer, desk.reviews)
    return {"judged": found.judged, "right": found.right} if found.judged else None


def _seconds(desk: Desk, reviewer: str) -> float:
    entries = (each for every in desk.reviews.values() for each in every if each.annotation)
    # A journal may hold any numbers; JSON has none for what they amount to when that is endless.
    return min(_MOST_SECONDS, sum(each.seconds or 0.0 for each in entries if each.reviewer_id == reviewer))
