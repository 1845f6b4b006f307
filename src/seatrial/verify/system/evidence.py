"""What a record says about the system a verifier worked with: tags in plain words, and the whole list beside it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from seatrial.model.base import StrictModel, to_json
from seatrial.model.evaluation import NEEDS_SYSTEM, ErrorSource, ErrorTag
from seatrial.model.record import VerifierRun
from seatrial.verify.integrity import some
from seatrial.verify.system.curate import Curated
from seatrial.verify.system.surroundings import Reason

ABOUT_SYSTEM = 'the task\'s own solution passes only on the system it left; say `system = "agent"` below [verifier]'


class SystemEvidence(StrictModel):
    """verifier/system.json: what of the agent's system the verifier did not meet, and why, and what it did meet.

    `reference` is what it met because the task's own solution changes it, too: as that leaves it, or otherwise.
    """

    put_back: dict[str, str]
    hidden: dict[str, str]
    rewritten: dict[str, str]
    kept: tuple[str, ...]
    only_image: bool
    reference: dict[str, str]


def write_evidence(path: Path, curated: Curated) -> None:
    """Store all of it beside the verifier's files."""
    evidence = SystemEvidence(
        put_back=dict(curated.put_back),
        hidden=dict(curated.hidden),
        rewritten=dict(curated.rewritten),
        kept=curated.kept,
        only_image=curated.only_image,
        reference={path: "the same" if is_same else "another" for path, is_same in curated.expected.items()},
    )
    path.write_bytes(to_json(evidence))


def system_tags(curated: Curated, run: VerifierRun, planted: tuple[str, ...]) -> list[ErrorTag]:
    """Mechanical tags about the system the verifier worked with. They inform; no reward changes by them."""
    tags = []
    if curated.put_back:
        said = f"put back for the verifier as they are in the image: {_by_reason(curated.put_back)}"
        tags.append(_tag("verifier_tools_restored", said))
    if curated.corrected:
        accounts = some(sorted(curated.corrected))
        said = f"home and shell of the verifier's accounts put back as they are in the image: {accounts}"
        tags.append(_tag("verifier_tools_restored", said))
    if curated.hidden:
        tags.append(_tag("hidden_from_verifier", f"hidden from the verifier: {_by_reason(curated.hidden)}"))
    if curated.only_image:
        said = "the agent changed more of the system than can be looked at; the verifier worked with the image's"
        tags.append(_tag("changes_truncated", said))
    if curated.kept and not curated.only_image:
        said = f"the verifier saw {len(curated.kept):,} changes of the agent to the system: {some(curated.kept)}"
        tags.append(_tag("system_changed", said))
    if planted:
        tags.append(_tag("changed_during_verification", f"while the verifier was at work: {some(planted)}"))
    return [*tags, *_solution_tags(curated, run)]


def _solution_tags(curated: Curated, run: VerifierRun) -> Iterator[ErrorTag]:
    """What there is to say about the system and the task's own solution."""
    if run.trust == "as_left" and curated.anything:
        yield _tag(NEEDS_SYSTEM, ABOUT_SYSTEM)
    if curated.others:
        said = f"the task's own solution changes them, too, but leaves something else: {some(curated.others)}"
        yield _tag("reference_units", said)


def dispute_tag(reward: float, disputed: float) -> ErrorTag:
    """The tag of a verdict that depends on whose system is believed."""
    said = f"{reward:g} on the verifier's own system, {disputed:g} on the one the agent left; the lower one counts"
    return _tag("disputed_verdict", said)


def _by_reason(files: Mapping[str, Reason]) -> str:
    counts = Counter(files.values())
    parts = [
        f"{count:,} {reason} ({some(sorted(path for path in files if files[path] == reason))})"
        for reason, count in counts.items()
    ]
    return "; ".join(parts)


def _tag(category: str, description: str) -> ErrorTag:
    return ErrorTag(category=category, description=description, source=ErrorSource.MECHANICAL)
