"""Assessing: every question of a rubric put to every judge, as often as samples are wanted, about one trial.

An answer that cannot be used is asked for once more with what is wrong with it; after that, questions that were asked
together are asked one by one. What is unusable even then leaves its question unscored, with the reason. A failure of a
judge's provider is no answer at all: it comes out as it is, and there is no assessment.
"""

import asyncio
import datetime as dt
import json
import statistics
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from time import perf_counter
from typing import NamedTuple

from seatrial.judge.evidence import Evidence, View
from seatrial.judge.questions import (
    GUARD,
    Answered,
    JudgeCall,
    Read,
    correction,
    make_call,
    prompt_digest,
    read_answers,
)
from seatrial.judge.rubric import EvidenceKind, Question, Rubric
from seatrial.model.assessment import (
    Answer,
    AssessedQuestion,
    Assessment,
    JudgeRef,
    JudgeSampling,
    JudgeUsage,
    Unscored,
    Vote,
    new_assessment_id,
)
from seatrial.model.evaluation import ErrorSource, ErrorTag
from seatrial.scoring.rubric import score_rubric
from seatrial.verifier_kit import TAGS_KEY, Dimension, details_of

_TOGETHER = 20
_FAR_APART = 0.25
_OF_THE_AGENT: tuple[EvidenceKind, ...] = ("output", "conversation", "changes", "turns")


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """What a model wrote. `stopped` is `cut` or `refused` where it did not come to the end of an answer."""

    text: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    stopped: str | None = None


Ask = Callable[[JudgeCall], Awaitable[JudgeReply]]
"""Asks a model. Raises ModelError where its provider fails; TimeoutError counts as an answer that did not come."""


@dataclass(frozen=True, slots=True)
class Judge:
    """A model that judges, and the way to ask it."""

    ref: JudgeRef
    ask: Ask


class Subject(NamedTuple):
    """What is assessed."""

    trial_id: str
    revision: int = 0


@dataclass(eq=False, slots=True)
class _Meter:
    """Counts what calls take."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    began: float = field(default_factory=perf_counter)

    def add(self, reply: JudgeReply) -> None:
        self.input_tokens += reply.input_tokens
        self.output_tokens += reply.output_tokens
        self.cost = None if self.cost is None or reply.cost_usd is None else self.cost + reply.cost_usd

    @property
    def usage(self) -> JudgeUsage:
        return JudgeUsage(
            calls=self.calls,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cost_usd=self.cost,
            duration_sec=round(perf_counter() - self.began, 3),
        )


_Key = tuple[str, int, str]
"""A vote by its judge, its sample and its question."""


async def assess(
    subject: Subject,
    evidence: Evidence,
    rubric: Rubric,
    judges: Sequence[Judge],
    *,
    known: Sequence[Assessment] = (),
    version: str | None = None,
) -> Assessment | None:
    """What the judges answer about a trial; None where an assessment among `known` has all of it already.

    Votes of `known` assessments of the same revision, rubric, prompt and evidence are taken over, but for those that
    took too long. Raises what a judge's `ask` raises.
    """
    started, meter = dt.datetime.now(dt.UTC), _Meter()
    alike = [each for each in known if _is_alike(each, subject, evidence, rubric)]
    votes = {key: vote for each in alike for key, vote in _votes_of(each, judges)}
    asked = _Asking(rubric, evidence, meter)
    wanted = [(judge, sample, group) for judge in judges for sample, group in asked.groups()]
    reused = 0
    for judge, sample, group in wanted:
        missing = [each for each in group.questions if (judge.ref.model, sample, each.id) not in votes]
        reused += len(group.questions) - len(missing)
        for vote_of, vote in (await asked.ask(judge, sample, missing, group.view)).items():
            votes[judge.ref.model, sample, vote_of] = vote
    if not meter.calls and any(_has_all(each, judges, rubric) for each in alike):
        return None
    return _made(subject, evidence, rubric, judges, _Outcome(votes, reused, asked.cuts, meter.usage, started, version))


def _is_alike(each: Assessment, subject: Subject, evidence: Evidence, rubric: Rubric) -> bool:
    found = (each.trial_id, each.revision, each.rubric_digest, each.prompt_digest, each.evidence_digest)
    return found == (*subject, rubric.digest, prompt_digest(rubric), evidence.digest)


def _votes_of(each: Assessment, judges: Sequence[Judge]) -> Iterator[tuple[_Key, Vote]]:
    """The votes of these judges in an assessment; one that took too long may be given the next time."""
    refs = {judge.ref for judge in judges}
    models = {ref.model for ref in each.judges if ref in refs}
    for question in each.every_question:
        for vote in question.votes:
            if vote.judge in models and not (vote.unscored and vote.unscored.code == "timed_out"):
                yield (vote.judge, vote.sample, question.id), vote


def _has_all(each: Assessment, judges: Sequence[Judge], rubric: Rubric) -> bool:
    return each.judges == tuple(judge.ref for judge in judges) and each.sampling.samples == rubric.samples


@dataclass(frozen=True, slots=True)
class _Group:
    """Questions that are asked together, and what they may see."""

    questions: tuple[Question, ...]
    view: View


class _Asking:
    """Puts questions to judges."""

    def __init__(self, rubric: Rubric, evidence: Evidence, meter: _Meter) -> None:
        self._rubric = rubric
        self._nonce = evidence.nonce
        self._meter = meter
        self._groups = [*self._grouped(evidence)]
        self._guard = self._guarded(evidence)
        every = [*self._groups, *([self._guard] if self._guard else [])]
        self.cuts = tuple(dict.fromkeys(cut for group in every for cut in group.view.cuts))

    def groups(self) -> Iterator[tuple[int, _Group]]:
        """What is asked in each sample; the guard once."""
        for sample in range(1, self._rubric.samples + 1):
            yield from ((sample, group) for group in self._groups)
        if self._guard:
            yield 1, self._guard

    async def ask(self, judge: Judge, sample: int, questions: Sequence[Question], view: View) -> dict[str, Vote]:
        """A vote for each question."""
        if not questions:
            return {}
        found = await self._ask(judge, sample, questions, view)
        if len(questions) > 1:
            for question in questions:
                if _fault_of(found[question.id]) is not None:
                    _take(found, await self._ask(judge, sample, [question], view, tries=1))
        return {name: _vote(judge.ref.model, sample, read) for name, read in found.items()}

    async def _ask(
        self, judge: Judge, sample: int, questions: Sequence[Question], view: View, tries: int = 2
    ) -> dict[str, Read]:
        found: dict[str, Read] = {}
        call = make_call(self._rubric, questions, view, self._nonce, sample)
        open_ = list(questions)
        for _ in range(tries):
            said, read = await self._once(judge, call, open_, view)
            _take(found, read)
            faults = {name: fault for name, each in read.items() if (fault := _fault_of(each))}
            open_ = [question for question in open_ if question.id in faults]
            if not open_:
                break
            call = call.again(said, correction(faults)) if said else call
        return found

    async def _once(
        self, judge: Judge, call: JudgeCall, questions: Sequence[Question], view: View
    ) -> tuple[str, dict[str, Read]]:
        """What one call says to some questions, and its text."""
        limit = self._rubric.timeout_sec
        self._meter.calls += 1
        try:
            async with asyncio.timeout(limit):
                reply = await judge.ask(call)
        except TimeoutError:
            late = Unscored(code="timed_out", message=f"there was no answer within {limit:g} s")
            return "", {question.id: late for question in questions}
        self._meter.add(reply)
        read = read_answers(reply.text, questions, view)
        if reply.stopped is None:
            return reply.text, read
        refused = reply.stopped == "refused"
        why = "the model declined to answer" if refused else "the answer was cut at its limit of tokens"
        fault = Unscored(code="refused" if refused else "cut", message=why)
        return reply.text, {name: fault if isinstance(each, Unscored) else each for name, each in read.items()}

    def _grouped(self, evidence: Evidence) -> Iterator[_Group]:
        """The questions that see the same, as many together as the rubric wants."""
        rubric, seen = self._rubric, dict[tuple[tuple[EvidenceKind, ...], tuple[str, ...]], list[Question]]()
        for question in rubric.questions:
            key = rubric.evidence_of(question), question.files or rubric.files
            seen.setdefault(key, []).append(question)
        most = _TOGETHER if rubric.mode == "batched" else 1
        for key, questions in seen.items():
            view = evidence.view(*key)
            for start in range(0, len(questions), most):
                yield _Group(tuple(questions[start : start + most]), view)

    def _guarded(self, evidence: Evidence) -> _Group | None:
        kinds = [kind for kind in _OF_THE_AGENT if kind in self._rubric.all_evidence]
        if not self._rubric.guard or not kinds:
            return None
        return _Group((GUARD,), evidence.view(kinds, self._rubric.all_files if self._rubric.files else ()))


def _take(found: dict[str, Read], more: Mapping[str, Read]) -> None:
    """Add later answers; one that cannot be read takes the place of none that can."""
    for name, read in more.items():
        if isinstance(read, Answered) or not isinstance(found.get(name), Answered):
            found[name] = read


def _fault_of(read: Read) -> Unscored | None:
    """What is wrong with an answer: that it is none, or that it quotes what is not there."""
    if isinstance(read, Unscored):
        return read
    missing = next((quote.text for quote in read.quotes if not quote.found), None)
    if missing is None:
        return None
    return Unscored(code="unsupported", message=f"the quote {missing[:200]!r} does not occur in the evidence")


def _vote(judge: str, sample: int, read: Read) -> Vote:
    fault = _fault_of(read)
    if isinstance(read, Answered):
        return Vote(
            judge=judge,
            sample=sample,
            answer=read.answer,
            reason=read.reason,
            confidence=read.confidence,
            quotes=read.quotes,
            unscored=fault,
        )
    return Vote(judge=judge, sample=sample, unscored=fault)


# What votes come to.


class _Outcome(NamedTuple):
    votes: Mapping[_Key, Vote]
    reused: int
    cuts: tuple[str, ...]
    usage: JudgeUsage
    started: dt.datetime
    version: str | None


def _made(
    subject: Subject, evidence: Evidence, rubric: Rubric, judges: Sequence[Judge], outcome: _Outcome
) -> Assessment:
    def votes_on(question: Question) -> list[Vote]:
        models = [judge.ref.model for judge in judges]
        keys = ((model, sample, question.id) for model in models for sample in range(1, rubric.samples + 1))
        return [outcome.votes[key] for key in keys if key in outcome.votes]

    questions = tuple(combine(rubric, each, votes_on(each)) for each in rubric.questions)
    on_guard = votes_on(GUARD) if rubric.guard else []
    guard = _any_yes(combine(rubric, GUARD, on_guard)) if on_guard else None
    score, unscored = roll_up(rubric, questions)
    agreements = [each.agreement for each in questions if each.agreement is not None]
    return Assessment(
        id=new_assessment_id(),
        trial_id=subject.trial_id,
        revision=subject.revision,
        rubric=rubric.name,
        rubric_digest=rubric.digest,
        prompt_digest=prompt_digest(rubric),
        evidence_digest=evidence.digest,
        judges=tuple(judge.ref for judge in judges),
        sampling=JudgeSampling(temperature=rubric.temperature, max_tokens=rubric.max_tokens, samples=rubric.samples),
        questions=questions,
        guard=guard,
        score=score,
        unscored=unscored,
        agreement=round(statistics.fmean(agreements), 4) if agreements else None,
        tags=tuple(_tags(rubric, questions, guard)),
        actions=_actions(rubric, questions),
        cuts=outcome.cuts,
        usage=outcome.usage,
        reused=outcome.reused,
        started_at=outcome.started,
        finished_at=dt.datetime.now(dt.UTC),
        seatrial_version=outcome.version,
    )


def combine(rubric: Rubric, question: Question, votes: Sequence[Vote]) -> AssessedQuestion:
    """What the votes on a question come to. Votes that are unscored do not count; of none that do, nothing comes."""
    counted = [vote.answer for vote in votes if vote.unscored is None and vote.answer is not None]
    answer, score, unscored = _settled(rubric, question, counted)
    if not counted:
        faults = Counter(vote.unscored.code for vote in votes if vote.unscored)
        first = next((str(vote.unscored) for vote in votes if vote.unscored), "no judge was asked")
        unscored = first if faults.total() < 2 else f"none of {faults.total()} votes counts; {first}"
    pairs = [likeness(question, one, other) for one, other in combinations(counted, 2)]
    return AssessedQuestion(
        id=question.id,
        kind=question.kind,
        weight=question.weight,
        optional=question.optional,
        tag=question.tag,
        answer=answer,
        score=score if question.scored else None,
        unscored=unscored,
        agreement=round(statistics.fmean(pairs), 4) if pairs else None,
        split=any(differ(question, one, other) for one, other in combinations(counted, 2)),
        turn=question.turn,
        votes=tuple(votes),
    )


def _settled(
    rubric: Rubric, question: Question, answers: Sequence[Answer]
) -> tuple[Answer | None, float | None, str | None]:
    """The answer, its score, and why there is neither."""
    if not answers:
        return None, None, None
    if question.kind == "labels":
        counts = Counter(label for each in answers if isinstance(each, tuple) for label in each)
        known = [option.name for option in question.options]
        chosen = [label for label in dict.fromkeys((*known, *counts)) if counts[label] * 2 > len(answers)]
        return tuple(chosen), None, None
    scores = [score_of(question, each) for each in answers]
    if question.kind == "number":
        numbers = [each for each in answers if isinstance(each, float)]
        middle = statistics.fmean(numbers) if rubric.combine == "mean" else float(statistics.median(numbers))
        return middle, score_of(question, middle), None
    (most, count), *others = Counter(answers).most_common()
    tied = [each for each, other in others if other == count]
    if rubric.combine != "majority":
        score = statistics.fmean(scores) if rubric.combine == "mean" else statistics.median(scores)
        alike = [each for each in dict.fromkeys(answers) if score_of(question, each) == score]
        return alike[0] if len(alike) == 1 else None, score, None
    if tied:
        return None, None, f"the votes are split: {count} each for {', '.join(map(_shown, (most, *tied)))}"
    return most, score_of(question, most), None


def score_of(question: Question, answer: Answer) -> float:
    """What an answer is worth, from 0 to 1; labels are worth nothing by themselves."""
    if question.kind == "choice":
        score = next((option.score or 0.0 for option in question.options if option.name == answer), 0.0)
    elif question.kind == "number" and isinstance(answer, float):
        score = (answer - question.minimum) / (question.maximum - question.minimum)
    else:
        score = 1.0 if answer is True else 0.0
    return 1.0 - score if question.negate else score


def differ(question: Question, one: Answer, other: Answer) -> bool:
    """Whether two answers are not the same; numbers may be a little apart."""
    return likeness(question, one, other) < (1.0 - _FAR_APART if question.kind == "number" else 1.0)


def likeness(question: Question, one: Answer, other: Answer) -> float:
    """How much two answers are the same, from 0 to 1."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        together = {*one, *other}
        return len({*one} & {*other}) / len(together) if together else 1.0
    if question.kind == "number" and isinstance(one, float) and isinstance(other, float):
        return 1.0 - abs(one - other) / (question.maximum - question.minimum)
    return float(one == other)


def _shown(answer: Answer) -> str:
    return {True: "yes", False: "no"}[answer] if isinstance(answer, bool) else str(answer)


def _any_yes(guard: AssessedQuestion) -> AssessedQuestion:
    """The guard: one judge that sees itself addressed is enough."""
    if any(vote.answer is True and vote.unscored is None for vote in guard.votes):
        return guard.model_copy(update={"answer": True, "unscored": None})
    return guard


def roll_up(rubric: Rubric, questions: Sequence[AssessedQuestion]) -> tuple[float | None, str | None]:
    """The score, or why there is none: a question that is unscored and not optional.

    An optional one that is unscored is left out. A rubric of nothing but labels has no score, and no reason why.
    """
    counted = [each for each in questions if rubric.question(each.id).scored]
    lacking = next((each for each in counted if each.score is None and not each.optional), None)
    if lacking is not None:
        return None, f"{lacking.id} is unscored ({lacking.unscored}), and it is not optional"
    dimensions = _dimensions(counted)
    if counted and not dimensions:
        return None, "every question that could count is unscored"
    return (score_rubric(dimensions, rubric.rollup).reward, None) if dimensions else (None, None)


def _dimensions(questions: Iterable[AssessedQuestion]) -> list[Dimension]:
    scored = [(each, each.score) for each in questions if each.score is not None]
    return [Dimension(each.id, score, weight=each.weight, evidence=_reason(each)) for each, score in scored]


def _reason(question: AssessedQuestion) -> str:
    """The reason of a vote that agrees with what the votes came to; else of the first that counts."""
    counted = [vote for vote in question.votes if vote.unscored is None and vote.reason]
    agreeing = [vote for vote in counted if vote.answer == question.answer]
    return next((vote.reason or "" for vote in (*agreeing, *counted)), "")


def _tags(rubric: Rubric, questions: Sequence[AssessedQuestion], guard: AssessedQuestion | None) -> Iterator[ErrorTag]:
    for each in questions:
        question = rubric.question(each.id)
        if each.kind == "labels" and isinstance(each.answer, tuple):
            yield from (_tag(label, each) for label in each.answer)
        if question.tag and each.unscored is None and each.score == 0.0:
            yield _tag(question.tag, each)
    if guard is not None and guard.answer is True:
        yield _tag(guard.id, guard)


def _actions(rubric: Rubric, questions: Sequence[AssessedQuestion]) -> dict[str, str]:
    given = {label for each in questions if isinstance(each.answer, tuple) for label in each.answer}
    every = (option for question in rubric.questions for option in question.options)
    return {option.name: option.action for option in every if option.action and option.name in given}


def _tag(category: str, question: AssessedQuestion) -> ErrorTag:
    return ErrorTag(category=category, description=_reason(question) or None, source=ErrorSource.JUDGE)


# A rubric as the verifier of a task.


async def grade(evidence: Evidence, rubric: Rubric, ask: Ask, model: str = "judge") -> dict[str, bytes]:
    """The files that a verifier writes, by what one judge answers: details.json, and reward.json if there is a score.

    Without a score there is no reward file, which means no verdict, and never a 0. Raises what `ask` raises.
    """
    found = await assess(Subject("trial"), evidence, rubric, [Judge(JudgeRef(model=model), ask)])
    assert found is not None  # noqa: S101 - nothing is known before
    return verdict_files(found)


def verdict_files(found: Assessment) -> dict[str, bytes]:
    """An assessment as the files of a verifier."""
    details = details_of(_dimensions(found.questions))
    details |= {each.id: {"unscored": each.unscored} for each in found.questions if each.is_unscored}
    if found.tags:
        details[TAGS_KEY] = [tag.model_dump(mode="json", exclude_none=True) for tag in found.tags]
    files = {"details.json": _json(details)}
    return files if found.score is None else {**files, "reward.json": _json({"reward": found.score})}


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
