"""The turns of a stored trial: classified by rules alone, and made into questions for a judge.

Rules and judges answer alike, with an assessment whose questions are turns. It is kept beside the other assessments, in
a journal of its own: it says nothing of how good a trial is, and only few readers want something of every turn.
"""

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from seatrial import __version__
from seatrial.errors import StoreError
from seatrial.gateway.calls import CALLS_FILE, parse_calls
from seatrial.judge.evidence import Evidence, Piece, text_piece
from seatrial.judge.rubric import Option, Question, Rubric
from seatrial.messages import AnyItem, Message, Reasoning, Refusal, ToolCall, ToolResult, as_text, plain_words
from seatrial.model.assessment import AssessedQuestion, Assessment, JudgeRef, TurnRef, Vote, new_assessment_id
from seatrial.model.record import TrialRecord
from seatrial.trajectories.atif import MOST_BYTES
from seatrial.trajectories.behaviour import BEHAVIOURS, RULES, AgentTurn, turns_of
from seatrial.trajectories.first_failure import first_failure
from seatrial.trajectories.threads import Thread, find_threads
from seatrial.untrusted.files import read_below

BEHAVIOUR = "behaviour"
"""The name of what is asked about turns, as a rubric."""

MECHANICAL = "mechanical"
"""Who classifies by rules, where the name of a judge stands otherwise."""

FIRST_FAILURE = "first_failure"
"""A question that rules answer: where the first failing step is, from 0 to 1 of the turns of its thread."""

MOST_TURNS = 2_000
_TOGETHER, _EARLIER = 5, 3
_LONGEST_TEXT, _LONGEST_OF_TOOLS = 2_000, 500
_MOST_OF_A_TURN = 2**14

_TEMPLATE = """\
Each piece of evidence is one turn of an AI agent: what it was told since its last turn, and what it then said and did.
Classify the named turns, each by what the agent itself does in it:

- "verification": it looks back. It tests, compares, checks or reads again what it has made.
- "exploration": it asks what there is. It reads, searches, supposes, weighs alternatives or asks a question.
- "deliberation": it asks how to go on. It plans or reasons step by step, without doing it yet.
- "execution": it takes the obvious next step. It writes, edits, runs or formats.

Where several fit equally well, the first in this order counts: verification, exploration, deliberation, execution.
In "confidence" write how sure you are, from 0 to 1. Other turns are there only so that you understand these."""


@dataclass(frozen=True, slots=True)
class TrialTurn:
    """A turn at its place in a trial. `name` is unlike that of any other turn."""

    turn: AgentTurn
    step: str | None
    name: str

    @property
    def ref(self) -> TurnRef:
        return TurnRef(call=self.turn.call, thread=self.turn.thread, step=self.step)


@dataclass(frozen=True, slots=True)
class TrialTurns:
    """The turns of a trial, the threads of one round after the other."""

    turns: tuple[TrialTurn, ...]
    failure: AssessedQuestion | None = None
    """Where its first failing step is."""

    troubles: tuple[str, ...] = ()
    """Which calls cannot be read, and why."""


def folders_of_rounds(record: TrialRecord) -> list[str]:
    """Where the files of each round are, below a trial's folder."""
    names = [step.name for step in record.steps]
    return [f"steps/{name}" for name in names if name not in ("", ".", "..") and not {"/", "\0"} & {*name}] or [""]


def read_threads(folder: Path, place: str, most: int = MOST_BYTES) -> list[Thread]:
    """The conversations of a round, within bounds. Raises StoreError, or ValueError for damaged calls."""
    name = Path(place, CALLS_FILE)
    return find_threads(parse_calls(read_below(name, folder, most).splitlines()))


def read_turns(folder: Path, record: TrialRecord, most: int = MOST_BYTES) -> TrialTurns:
    """What an agent did, as far as its calls were kept and have no more than so many bytes."""
    turns: list[TrialTurn] = []
    troubles: list[str] = []
    failure: AssessedQuestion | None = None
    for number, place in enumerate(folders_of_rounds(record), 1):
        step = place.removeprefix("steps/") or None
        try:
            threads = read_threads(folder, place, most)
        except (StoreError, ValueError) as error:
            troubles.append(f"{place or 'the trial'}: {error}")
            continue
        found = turns_of(threads)
        turns += [TrialTurn(each, step, f"{number}.{each.call}" if step else f"{each.call}") for each in found]
        failure = failure or _first_failure(threads, found, step)
    return TrialTurns(tuple(turns), failure, tuple(troubles))


def _first_failure(threads: Sequence[Thread], turns: Sequence[AgentTurn], step: str | None) -> AssessedQuestion | None:
    failed = first_failure(threads)
    place = next((each for each in turns if failed and each.call == failed.call), None)
    if failed is None or place is None:
        return None
    thread = [each.call for each in turns if each.thread == place.thread]
    at = round((thread.index(place.call) + 1) / len(thread), 4)
    subject = f" ({failed.subject})" if failed.subject else ""
    reason = f"{failed.tool or 'a tool'}{subject}: {failed.error}"
    ref = TurnRef(call=place.call, thread=place.thread, step=step)
    vote = Vote(judge=MECHANICAL, answer=at, reason=reason)
    return AssessedQuestion(id=FIRST_FAILURE, kind="number", weight=0.0, answer=at, turn=ref, votes=(vote,))


def classified(record: TrialRecord, found: TrialTurns) -> Assessment:
    """The turns of a trial, classified by rules."""
    questions = [_answered(each) for each in found.turns]
    said = json.dumps([[each.ref.model_dump(), each.turn.rationale, each.turn.behaviour] for each in found.turns])
    now = dt.datetime.now(dt.UTC)
    return Assessment(
        id=new_assessment_id(),
        trial_id=record.trial_id,
        revision=record.revision,
        rubric=BEHAVIOUR,
        rubric_digest=_RUBRIC.digest,
        prompt_digest=hashlib.sha256(f"rules {RULES}".encode()).hexdigest(),
        evidence_digest=hashlib.sha256(said.encode()).hexdigest(),
        judges=(JudgeRef(model=MECHANICAL),),
        questions=(*questions, *([found.failure] if found.failure else [])),
        started_at=now,
        finished_at=now,
        seatrial_version=__version__,
    )


def _answered(each: TrialTurn) -> AssessedQuestion:
    turn = each.turn
    vote = Vote(judge=MECHANICAL, answer=turn.behaviour, reason=turn.rationale, confidence=turn.confidence)
    return AssessedQuestion(
        id=_id(each), kind="choice", weight=0.0, answer=turn.behaviour, turn=each.ref, votes=(vote,)
    )


def _id(each: TrialTurn) -> str:
    return f"turn_{each.name}"


# For judges.

_RUBRIC = Rubric(
    name=BEHAVIOUR,
    template=_TEMPLATE,
    mode="batched",
    evidence=("turns",),
    guard=False,
    questions=(
        Question(
            id="turn",
            text="Which of the four is turn 0?",
            kind="choice",
            weight=0.0,
            options=tuple(Option(name=name) for name in BEHAVIOURS),
            confidence=True,
        ),
    ),
)

TURN_RUBRIC = _RUBRIC.model_copy(update={"per_turn": _RUBRIC.digest})
"""What a judge is asked about turns; `turn_questions` asks it of each turn of a trial."""


def turn_questions(found: TrialTurns, rubric: Rubric) -> tuple[Rubric, Evidence]:
    """A question for each turn, five at a time, with up to three earlier turns of the thread; and what a judge sees."""
    turns = found.turns[:MOST_TURNS]
    asked: list[Question] = []
    for start, batch in _batches(turns):
        thread = [each for each in turns if _thread(each) == _thread(batch[0])]
        seen = thread[max(0, start - _EARLIER) : start + len(batch)]
        files = tuple(f"turn {each.name}" for each in seen)
        asked += [
            rubric.questions[0].model_copy(
                update={
                    "id": _id(each),
                    "text": f"Which of the four is turn {each.name}?",
                    "files": files,
                    "turn": each.ref,
                }
            )
            for each in batch
        ]
    evidence = Evidence(tuple(map(_piece, turns)), rubric.digest)
    return rubric.model_copy(update={"questions": tuple(asked)}), evidence


def _thread(each: TrialTurn) -> tuple[str | None, str]:
    return each.step, each.turn.thread


def _batches(turns: Sequence[TrialTurn]) -> Iterator[tuple[int, Sequence[TrialTurn]]]:
    """Turns that are asked about together, and where in their thread they begin."""
    for key in dict.fromkeys(map(_thread, turns)):
        thread = [each for each in turns if _thread(each) == key]
        for start in range(0, len(thread), _TOGETHER):
            yield start, thread[start : start + _TOGETHER]


def _piece(each: TrialTurn) -> Piece:
    lines = [f"(of the thread {each.turn.thread})" * (each.turn.thread != "main"), *_lines(each.turn.heard)]
    lines += ["The agent:", *_lines(each.turn.said)]
    return text_piece("turns", f"turn {each.name}", "\n".join(filter(None, lines)), _MOST_OF_A_TURN)


def _lines(items: Iterable[AnyItem]) -> Iterator[str]:
    for item in items:
        match item:
            case Message():
                yield f"{item.role}: {_cut(item.text, _LONGEST_TEXT)}"
            case ToolCall():
                yield f"tool call {item.name}: {_cut(as_text(item.arguments), _LONGEST_OF_TOOLS)}"
            case ToolResult():
                result = _cut(plain_words(item.parts), _LONGEST_OF_TOOLS)
                yield f"tool result{' (failed)' * item.failed}: {result}"
            case Refusal():
                yield f"assistant refuses: {_cut(item.text, _LONGEST_TEXT)}"
            case Reasoning():
                pass
            case _:
                yield f"{item.role} ({item.kind})"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"
