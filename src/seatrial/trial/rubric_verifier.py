"""A rubric as the verifier of a task: no script, but a judge that answers the questions of `tests/rubric.toml`.

For a task with a rubric and no test script. Nothing runs in the sandbox: what the agent left is read there, and the
judge is asked from here, by a session of the gateway like any verifier's. Its answers become the files that a verifier
writes. Questions without a usable answer are no verdict, and never a 0.
"""

import asyncio
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any

from seatrial.errors import ContentError, InvalidModelResponseError, RubricError, StoreError, VerifierModelError
from seatrial.gateway.access import ModelAccess
from seatrial.gateway.exchange import carry
from seatrial.gateway.session import Session
from seatrial.judge.assess import Judge, JudgeReply, Subject, assess, verdict_files
from seatrial.judge.evidence import READ_BYTES, Evidence, Piece, absent, matches, text_piece
from seatrial.judge.questions import JudgeCall
from seatrial.judge.rubric import Rubric, load_rubric
from seatrial.model.assessment import Assessment, JudgeRef
from seatrial.model.base import name_at
from seatrial.model.output import RawFile
from seatrial.model.record import FileChanges
from seatrial.sandbox.api import ExecResult, Sandbox
from seatrial.sandbox.transfer import get_file
from seatrial.trial.judge_calls import REFUSING_A_SCHEMA, reply_of, request_for
from seatrial.trial.verification import Verification
from seatrial.trial.work import merge_changes
from seatrial.untrusted.files import bounded, read_bounded
from seatrial.verify.artifacts import collect_artifacts
from seatrial.verify.stage import digest_tests

USUAL_JUDGE = "judge"
"""What a rubric asks for that names no model: the run says which one that is."""

_TESTS = "/tests/"
_MOST_FILES = 100
_MOST_BYTES = 16 * 2**20
_NAMED_CHANGES = 500
_WILD = frozenset("*?[")


def judges_of(rubric: Rubric) -> tuple[str, ...]:
    """The models that a rubric asks for."""
    return rubric.models or (USUAL_JUDGE,)


@dataclass(frozen=True, slots=True)
class RubricOutcome:
    """What came of it, in the form of a script's: how it ended, the files, the digest of the tests, and the models."""

    ended: ExecResult
    files: Mapping[str, RawFile]
    tests_digest: str
    models: Mapping[str, str]


async def judge_by_rubric(
    verification: Verification, sandbox: Sandbox, model: ModelAccess | None, path: Path, folder: Path
) -> RubricOutcome:
    """Have what an agent left in a sandbox judged by the rubric at a path; logs go to `folder`.

    Raises ModelError where there is no verdict, UsageError for a rubric that cannot be used.
    """
    if model is None:
        raise VerifierModelError("a rubric judges this task, and no model is there to ask; give --verifier-upstream")
    rubric, session = load_rubric(path), None
    evidence = await _gather(verification, sandbox, rubric, path.parent)
    began = perf_counter()
    try:
        with model.session(folder, None) as session:
            judges = [_judge(session, name_at(name, model.named) or name) for name in judges_of(rubric)]
            found = await assess(Subject(verification.spec.trial_id), evidence, rubric, judges)
            await session.check_end(timed_out=False)
    finally:
        if session is not None:
            verification.used.append(session.usage)
    assert found is not None  # noqa: S101 - nothing was known before
    files = await asyncio.to_thread(_write, folder, found)
    if found.score is None:
        raise InvalidModelResponseError(f"the judge gave no score: {found.unscored or 'the rubric has none to give'}")
    verifier = verification.round.judged.verifier
    return RubricOutcome(
        ExecResult(0, perf_counter() - began),
        collect_artifacts(files, verifier).files,
        digest_tests(verification.round.tests()),
        dict(session.asked),
    )


def _write(folder: Path, found: Assessment) -> Path:
    files = folder / "files"
    files.mkdir()
    for name, content in verdict_files(found).items():
        (files / name).write_bytes(content)
    (folder / "assessment.json").write_text(found.model_dump_json(indent=2) + "\n")
    lines = [f"{each.id}: {each.unscored or each.answer}" for each in found.questions]
    (folder / "stdout.txt").write_text("\n".join(lines) + "\n")
    (folder / "stderr.txt").write_text("")
    return files


# Asking, in this process: a call of the session as any other, but for the way there and back.


@dataclass(eq=False, slots=True)
class _Heard:
    """Takes an answer, as an agent's connection would."""

    status: int = 0
    body: bytearray = field(default_factory=bytearray)

    @property
    def begun(self) -> bool:
        return self.status > 0

    async def begin(self, status: int, _: dict[str, str]) -> None:
        self.status = status

    async def write(self, data: bytes) -> None:
        self.body += data

    async def answer(self, status: int, _: dict[str, str], body: bytes) -> None:
        self.status = status
        self.body += body


def _judge(session: Session, name: str) -> Judge:
    model = session.model_for(name) or name

    async def ask(call: JudgeCall) -> JudgeReply:
        for with_schema in (True, False):
            request, heard = request_for(call, name, trial=session.number, with_schema=with_schema), _Heard()
            await carry(session, request, heard)
            if session.failure is not None:
                raise session.failure
            if session.over_budget is not None:
                raise VerifierModelError(f"the judge could not be asked: {session.over_budget}; there is no verdict")
            if heard.status not in REFUSING_A_SCHEMA:
                break
        return reply_of(request, heard.status, bytes(heard.body), model)

    return Judge(JudgeRef(model=model), ask)


# Evidence: what is in the sandbox, and beside the rubric.


async def _gather(verification: Verification, sandbox: Sandbox, rubric: Rubric, folder: Path) -> Evidence:
    """All that a judge may see by a rubric, of what an agent left in a sandbox."""
    wanted, pieces = rubric.all_evidence, list[Piece]()
    if "instruction" in wanted:
        round_ = verification.round
        name = round_.layout.instruction or "instruction.md"
        pieces.append(text_piece("instruction", name, round_.instruction().decode("utf-8", "replace")))
    if "reference" in wanted:
        pieces += read_references(rubric, folder)
    if "output" in wanted:
        paths = _paths(verification, rubric)
        pieces += [await _output(sandbox, path) for path in paths[:_MOST_FILES]]
        if len(paths) > _MOST_FILES:
            more = f"this is one of {len(paths) - _MOST_FILES:,} more files, which are not shown"
            pieces.append(absent("output", paths[_MOST_FILES], more))
    if "changes" in wanted:
        changes = "\n".join(change_lines(verification.work.changes)) or "nothing"
        pieces.append(text_piece("changes", "changes.json", changes))
    if "conversation" in wanted:
        pieces.append(absent("conversation", "calls.jsonl", "verifiers judge what was left, not what was said"))
    if "verifier" in wanted:
        pieces.append(absent("verifier", "details", "this is the verification"))
    return Evidence(tuple(pieces), rubric.digest)


def _paths(verification: Verification, rubric: Rubric) -> list[str]:
    """The output files that a rubric names; else the declared one and what was published; else all that changed."""
    found, round_ = merge_changes([verification.earlier, verification.work.found]), verification.round
    changed = sorted({*found.added, *found.modified})
    patterns: Sequence[str] = rubric.all_files
    if not patterns and round_.judged.output.path:
        patterns = (round_.judged.output.path,)
    if not patterns:
        return changed
    whole = [posixpath.join(verification.place.workdir, pattern) for pattern in patterns]
    found_by = {pattern: [path for path in changed if matches(path, pattern)] for pattern in whole}
    named = {each: paths or [each] for each, paths in found_by.items() if _WILD.isdisjoint(each)}
    # What is named comes first: no number of files that only a pattern fits hides it.
    return list(dict.fromkeys(chain.from_iterable([*named.values(), *found_by.values()])))


async def _output(sandbox: Sandbox, path: str) -> Piece:
    try:
        return Piece("output", path, bounded(await get_file(sandbox, path, limit=_MOST_BYTES), READ_BYTES))
    except FileNotFoundError:
        return absent("output", path, "the agent left no such file")
    except ContentError as error:
        return absent("output", path, f"it cannot be read: {error}")


def read_references(rubric: Rubric, folder: Path) -> tuple[Piece, ...]:
    """The references of a rubric, which are below its folder. Raises RubricError for one that is not there."""
    found: list[Piece] = []
    for pattern in rubric.references:
        name = pattern.removeprefix(_TESTS)
        try:
            paths = sorted(folder.glob(name)) if not _WILD.isdisjoint(name) else [folder / name]
            pieces = [
                Piece("reference", str(path.relative_to(folder)), read_bounded(path, folder, READ_BYTES))
                for path in paths
            ]
        except (StoreError, ValueError, NotImplementedError) as error:
            raise RubricError("missing_reference", f"{folder}: the reference {pattern!r}: {error}") from None
        if not pieces:
            raise RubricError("missing_reference", f"{folder}: no file fits the reference {pattern!r}")
        found += pieces
    return tuple(found)


def change_lines(changes: FileChanges) -> Iterator[str]:
    """What an agent changed, a line for each file; of many only the first."""
    listed: Mapping[str, Any] = {kind: getattr(changes, kind) for kind in ("added", "modified", "removed")}
    yield from (f"{kind} {path}" for kind, paths in listed.items() for path in paths[:_NAMED_CHANGES])
    if more := sum(max(0, len(paths) - _NAMED_CHANGES) for paths in listed.values()):
        yield f"… and {more:,} more"
