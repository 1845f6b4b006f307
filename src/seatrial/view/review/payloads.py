"""What is sent to the pages of reviewers: before a verdict, after it, and where disagreements are settled.

Each payload is put together from named fields, never by taking fields away; `review/blind.py` says which a reviewer may
see before a verdict.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from seatrial.errors import StoreError, UsageError
from seatrial.model.record import TrialRecord
from seatrial.model.review import ReviewEntry, last_words, not_taken_back
from seatrial.report.text import harmless
from seatrial.report.trial import breakdown_table, evidence, headline, tags_table, validity_lines
from seatrial.review.queue import QueueOptions, make_queue, state_for
from seatrial.review.verdicts import ReviewState, TrialReview, calibration_of, review_of, unsettled, used_categories
from seatrial.store.index import TrialEntry
from seatrial.untrusted.files import BoundedContent, bounded, read_bounded
from seatrial.view.content import RawAddress
from seatrial.view.differences import show_difference
from seatrial.view.links import Links
from seatrial.view.review.desk import Desk, Material, material_of
from seatrial.view.show import show_file
from seatrial.view.templating import render

Payload = dict[str, Any]
_MOST_SHOWN, _MOST_BYTES = 2**18, 2**24
_MOST_SECONDS = 1e9


def queue_payload(desk: Desk, trials: Iterable[TrialEntry], reviewer: str, options: QueueOptions) -> Payload:
    """The queue of a reviewer and how far they are: keys, tasks and their own states, and nothing about why."""
    keys = {trial.trial_id: key for key, trial in desk.trials.items()}
    queue = make_queue(trials, desk.reviews, desk.job.threshold, reviewer, options, desk.job.doubted_by_judges)
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


# After the verdict, and for those who settle disagreements.

_MOST_OUTPUT = 2**16
_MOST_OTHERS = 5


def reveal_payload(desk: Desk, key: str, reviewer: str, links: Links) -> Payload:
    """What became of an item, and what others said of it."""
    stored = desk.job.store.revisions(desk.trial(key).trial_id)[-1]
    record, judged = stored.record, stored.record.evaluation
    entries = not_taken_back(desk.entries(key))
    html = render(
        "review_reveal.html.jinja",
        links,
        facts=headline(record),
        dimensions=breakdown_table(judged).rows if judged else [],
        tags=tags_table(judged).rows if judged else [],
        validity=validity_lines(judged) if judged else [],
        evidence=evidence(record, None),
        output=_verifier_output(record, stored.folder),
        verdicts=[each for each in entries if each.reviewer_id != reviewer],
        trial=links.trial(desk.job_key, record.trial_id),
    )
    return {"reveal": html, "mine": _mine(entries, reviewer)}


def other_attempt_payload(desk: Desk, key: str) -> Payload:
    """How the output differs from that of another attempt at the same task, of one that passed if there is any.

    Raises UsageError where there is none.
    """
    own = desk.trial(key)
    others = [other for other, trial in desk.trials.items() if trial.task_id == own.task_id and other != key]
    for other in sorted(others, key=lambda each: (desk.trials[each].outcome != "pass", each))[:_MOST_OTHERS]:
        material = material_of(desk, other)
        content = material.content(0) if material.files else None
        if content is not None:
            return difference_payload(material_of(desk, key), desk.trials[other].trial_id, content.head)
    raise UsageError("there is no other attempt at this task whose output was kept, so nothing to compare with")


def adjudication_payload(desk: Desk) -> Payload:
    """The items on which people disagree, or whose settlement somebody doubts."""
    keys = {trial.trial_id: key for key, trial in desk.trials.items()}
    items = [
        {"key": keys[trial_id], "task": harmless(desk.trials[keys[trial_id]].task_id), "state": "open"}
        for trial_id in unsettled(desk.reviews)
        if trial_id in keys
    ]
    return {"items": items}


def verdicts_payload(desk: Desk, key: str, links: Links) -> Payload:
    """What everybody said of an item, side by side."""
    verdicts = not_taken_back(desk.entries(key))
    return {"verdicts": render("review_verdicts.html.jinja", links, verdicts=verdicts)}


def _mine(entries: Iterable[ReviewEntry], reviewer: str) -> Payload | None:
    """What a reviewer thinks of an item now, None if nothing stands."""
    said = last_words(entries).get(reviewer)
    if said is None or said.annotation is None:
        return None
    return {
        "entry": said.key,
        "judgment": said.annotation.judgment.value,
        "categories": said.annotation.categories,
        "notes": said.annotation.notes or "",
        "role": said.role,
        "blind": said.blind,
    }


def _verifier_output(record: TrialRecord, folder: Path) -> list[tuple[str, Markup]]:
    """What the verifier printed, as far as it printed anything and it was kept."""
    paths = [path for run in record.verifier_runs for path in (run.stdout_path, run.stderr_path) if path]
    found = []
    for path in paths:
        try:
            content = read_bounded(folder / path, folder, _MOST_OUTPUT)
        except StoreError:
            continue
        if content.size:
            found.append((harmless(path), show_file("output.txt", content).html))
    return found


# The page on which disagreements are settled: who said what of each item, and what was decided.

_ORDER: tuple[ReviewState, ...] = ("contested", "needs", "adjudicated")
_MOST = 200


@dataclass(frozen=True, slots=True)
class DisputedItem:
    """An item on which people disagree, or disagreed."""

    key: str
    task: str
    review: TrialReview
    verdicts: Sequence[ReviewEntry]

    @property
    def decisions(self) -> list[ReviewEntry]:
        """What everybody who settled it says now, the last one last: where two decide at once, both are to be seen."""
        last: dict[str | None, ReviewEntry] = {}
        for each in self.verdicts:
            if each.role == "adjudication":
                last.pop(each.reviewer_id, None)
                last[each.reviewer_id] = each
        return [*last.values()]

    @property
    def opinions(self) -> list[ReviewEntry]:
        """What reviewers said of it, without what was decided."""
        return [each for each in self.verdicts if each.role != "adjudication"]


def disputed_items(desk: Desk) -> list[DisputedItem]:
    """What is contested, what is to be settled, and what was settled, in this order."""
    found = []
    for key, trial in desk.trials.items():
        entries = desk.reviews.get(trial.trial_id)
        if not entries:
            continue
        review = review_of(trial.trial_id, entries)
        if review.state in _ORDER:
            found.append(DisputedItem(key, harmless(trial.task_id), review, not_taken_back(entries)))
    return sorted(found, key=lambda each: (_ORDER.index(each.review.state), each.task, each.key))


def settlement_payload(desk: Desk, desk_key: str, reviewer: str, links: Links) -> Payload:
    """Every disagreement as a part of the page. Neither reward nor agent is in it: who decides judges the work too."""
    found = disputed_items(desk)
    items = [
        {
            "key": each.key,
            "state": each.review.state,
            "html": render(
                "settle_item.html.jinja",
                links,
                item=each,
                is_party=any(said.reviewer_id == reviewer for said in each.opinions),
                reviewer=reviewer,
                work=links.review_desk(desk_key, settle=each.key),
            ),
        }
        for each in found[:_MOST]
    ]
    settled = sum(each.review.state == "adjudicated" for each in found)
    return {"items": items, "to_settle": len(found) - settled, "settled": settled}
