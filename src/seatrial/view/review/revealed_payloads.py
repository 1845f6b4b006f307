"""What is sent to a reviewer's page after the verdict, or to somebody who is to settle a disagreement."""

from collections.abc import Iterable
from pathlib import Path

from markupsafe import Markup

from seatrial.errors import StoreError, UsageError
from seatrial.model.record import TrialRecord
from seatrial.model.review import ReviewEntry, last_words, not_taken_back
from seatrial.report.text import harmless
from seatrial.report.trial import breakdown_rows, evidence, headline, tag_rows, validity_lines
from seatrial.review.states import unsettled
from seatrial.view.links import Links
from seatrial.view.rendering.bounded import read_bounded
from seatrial.view.rendering.show import show_file
from seatrial.view.review.blind_payloads import Payload, difference_payload
from seatrial.view.review.desk import Desk
from seatrial.view.review.material import material_of
from seatrial.view.templating import render

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
        dimensions=breakdown_rows(judged) if judged else [],
        tags=tag_rows(judged) if judged else [],
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
