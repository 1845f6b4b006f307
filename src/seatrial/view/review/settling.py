"""What is sent to the page on which disagreements are settled: who said what of each item, and what was decided."""

from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.model.review import ReviewEntry, not_taken_back
from seatrial.report.text import harmless
from seatrial.review.states import ReviewState, TrialReview, review_of
from seatrial.view.links import Links
from seatrial.view.review.blind_payloads import Payload
from seatrial.view.review.desk import Desk
from seatrial.view.templating import render

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
