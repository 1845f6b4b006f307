"""End states judged as often as one likes: kept of a trial, or the untouched environment, with edits or without.

`StateBench` lays a state out in a sandbox, edits files there, runs the verifier, and uses the sandbox again where the
stamps of all files say that nothing else was touched. It changes no stored trial: `check` and scripts use it,
regrades do not.
"""

import io
import posixpath
import stat
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Literal, Self

from seatrial.agents.api import Agent
from seatrial.concurrency import finish
from seatrial.errors import ContentError, SandboxError, UsageError
from seatrial.model.evaluation import EvaluationResult
from seatrial.model.events import unobserved
from seatrial.model.record import AgentResult, FileChanges
from seatrial.sandbox.api import ExecSpec, Sandbox, Stamps, open_sandbox
from seatrial.sandbox.layers import gone_mark
from seatrial.sandbox.transfer import new_archive, put_packed, put_tree
from seatrial.trial.judge import Judgement, judge, score
from seatrial.trial.log import TrialLog
from seatrial.trial.repeats import work_laid_out
from seatrial.trial.rounds import rounds_of
from seatrial.trial.setup import open_untouched
from seatrial.trial.snapshot import lay_out_snapshot
from seatrial.trial.spec import Machinery, TrialSpec
from seatrial.trial.steps import open_trial
from seatrial.trial.verification import USUAL_CONDITIONS, Verification, VerifierConditions
from seatrial.trial.verifier import choose_isolation
from seatrial.trial.work import Work, merge_changes
from seatrial.verify.artifacts import PUBLISHED, fetch_output, keep_artifacts

# What is judged.


@dataclass(frozen=True, slots=True)
class OddFile:
    """A folder, a link to `argument`, a named pipe, or a file of `argument` bytes that are all zero."""

    kind: Literal["folder", "link", "pipe", "zeros"]
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Edit:
    """A file of an end state that is to be another one before it is judged; without `content` it is to be gone.

    One that replaces another has its owner, and its mode too unless one is given. A link is replaced, not followed.
    With `odd`, something else than a plain file is to be in its place.
    """

    path: str
    content: bytes | None = None
    mode: int | None = None
    odd: OddFile | None = None

    @property
    def leaves_something(self) -> bool:
        return self.content is not None or self.odd is not None


@dataclass(frozen=True, slots=True)
class EndState:
    """What a verifier is to judge. Without an `archive`, it is the untouched environment; `files` lie over either.

    Processes are in no archive. A state that needs them is made by running its agent again: that of the `live` trial,
    up to the round that is judged, or a given `agent` of its name. Nobody can tell what a verifier does to processes,
    so that happens each time.
    """

    verification: Verification
    archive: Path | None = None
    files: Path | None = None
    live: TrialSpec | None = None
    agent: Agent | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """The same for states that a sandbox can be made for only once."""
        spec, place = self.verification.spec, self.verification.place.sandbox
        files = (self.archive, self.files, place.image, place.limits, place.workdir)
        return (spec.task.root, spec.task_digest, self.verification.round.name, *files)


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of judging an end state once."""

    judgement: Judgement
    evaluation: EvaluationResult
    rewritten: Mapping[str, bytes] = field(default_factory=dict)
    """Edited files that the verifier itself wrote again, with what it wrote; seen only where a reward was given."""
    agent_result: AgentResult | None = None
    """How the agent ran that made the state, if it was run for this."""


# A sandbox in which an end state is laid out: edited for one verification, and made as it was for the next one.
#
# Whether it is as it was, stamps of all its files tell. Files that a verifier added below /tmp are removed. Where
# stamps cannot tell, or tell of more than that and the edits, it is not used again: a verdict must never depend on who
# was there before. The verifier's processes, shared memory, semaphores and message queues end with `renew_verifier`.

_USUAL_MODE = 0o644
_MOST_BYTES = 64 * 2**20
_OWNERS = 3  # mode, owner and group come first in a stamp
_SCRATCH = "/tmp"  # noqa: S108 - of the sandbox
_SCRATCH_MODE = stat.S_IFDIR | 0o1777


@dataclass(frozen=True, slots=True)
class _Original:
    """What was at a path before it was edited: its archive, or nothing. `is_whole` unless it cannot be put back."""

    path: str
    archive: bytes | None
    member: tarfile.TarInfo | None
    is_whole: bool


@dataclass(eq=False, slots=True)
class PreparedSandbox:
    """One such sandbox. Where an agent was run for it, `verification` has what that left behind.

    Otherwise `work` has what is laid out of an agent's. `added` are files that lie over the end state and are no edits.
    """

    sandbox: Sandbox
    verification: Verification | None = None
    work: Work | None = None
    added: tuple[str, ...] = ()
    _stamps: Stamps | None = None
    _originals: list[_Original] = field(default_factory=list)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    def keep_open(self, stack: AsyncExitStack) -> None:
        """Hold what is to be closed when the sandbox is not needed any more."""
        self._stack = stack

    async def remove(self) -> None:
        await self._stack.aclose()

    async def note_stamps(self) -> None:
        """Note how everything is now, to compare with later."""
        self._stamps = await self.sandbox.stamps()

    async def edit(self, edits: Sequence[Edit]) -> FileChanges:
        """Make edits; returns what an agent would have changed by them, with the files that lay over the state."""
        self._originals = []
        for edit in edits:
            original = await self._look_at(posixpath.normpath(edit.path))
            self._originals.append(replace(original, is_whole=False) if edit.odd else original)
            await self._apply(edit, original)
        there = {each.path for each in self._originals if each.member}
        written = {posixpath.normpath(edit.path) for edit in edits if edit.leaves_something}
        removed = {posixpath.normpath(edit.path) for edit in edits if not edit.leaves_something}
        return FileChanges(
            added=tuple(sorted((written - there) | set(self.added) - removed)),
            modified=tuple(sorted(written & there)),
            removed=tuple(sorted(removed & there)),
        )

    async def _look_at(self, path: str) -> _Original:
        with new_archive() as archive:
            try:
                await self.sandbox.get(path, archive, limit=_MOST_BYTES)
            except FileNotFoundError:
                return _Original(path, None, None, is_whole=True)
            except ContentError:  # too large, or something that is no file
                return _Original(path, None, tarfile.TarInfo(posixpath.basename(path)), is_whole=False)
            archive.seek(0)
            packed = archive.read()
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as tar:
            member = tar.next()
        is_whole = member is not None and (member.isreg() or member.issym())
        return _Original(path, packed, member or tarfile.TarInfo(posixpath.basename(path)), is_whole)

    async def _apply(self, edit: Edit, original: _Original) -> None:
        directory, name = posixpath.split(original.path)
        if edit.odd is not None:
            await make_odd_file(self.sandbox, original.path, edit.odd)
        elif edit.content is not None and original.is_whole:
            await put_packed(self.sandbox, directory, _pack(_edited(name, edit, original.member), edit.content))
        elif edit.content is not None:  # a directory with all that is in it
            await self._lay_over(directory, _pack(_edited(name, edit, original.member), edit.content))
        elif original.member:
            await self._lay_over(directory, _pack(gone_mark(name)))

    async def _lay_over(self, directory: str, layer: bytes) -> None:
        with new_archive() as archive:
            archive.write(layer)
            archive.seek(0)
            await self.sandbox.unpack_layer(directory, archive)

    async def is_as_before(self) -> bool:
        """Whether the sandbox can be used again: what was edited is put back, and nothing else has been touched."""
        before = self._stamps
        if before is None or not all(original.is_whole for original in self._originals):
            return False
        await self.sandbox.renew_verifier()  # which ends whatever the verifier left running
        now = await self.sandbox.stamps()
        if now is None or await self.sandbox.processes():
            return False
        scratch = _added_below_scratch(before, now)
        expected = {*(each.path for each in self._originals), *scratch}
        if _touched(before, now) - _touched_by_edits(before, now, expected) - _made_writable(before, now):
            return False
        for original in reversed(self._originals):
            await self._put_back(original)
        for path in scratch:
            if posixpath.dirname(path) not in scratch:
                directory, name = posixpath.split(path)
                await self._lay_over(directory, _pack(gone_mark(name)))
        if expected:
            self._stamps = await self.sandbox.stamps()
        return self._stamps is not None and self._stamps.keys() - {_SCRATCH} == before.keys() - {_SCRATCH}

    async def rewritten(self, edits: Sequence[Edit]) -> dict[str, bytes]:
        """The edited files in whose place other plain ones are now, with what these say; of a link, behind it."""
        found = {}
        for edit in edits:
            path = posixpath.normpath(edit.path)
            if edit.odd and edit.odd.kind == "link":
                path = posixpath.normpath(posixpath.join(posixpath.dirname(path), edit.odd.argument))
            now = await self._look_at(path)
            content = _content(now) if edit.leaves_something and now.is_whole else None
            if content is not None and content != edit.content:
                found[edit.path] = content
        return found

    async def _put_back(self, original: _Original) -> None:
        directory, name = posixpath.split(original.path)
        if original.archive is None:
            await self._lay_over(directory, _pack(gone_mark(name)))
        else:
            await put_packed(self.sandbox, directory, original.archive)


def _edited(name: str, edit: Edit, replaced: tarfile.TarInfo | None) -> tarfile.TarInfo:
    """A file like the one that it replaces, if that is one."""
    member, like = tarfile.TarInfo(name), replaced if replaced and replaced.isreg() else None
    usual = like.mode if like else _USUAL_MODE
    member.mode = edit.mode if edit.mode is not None else usual
    if like:
        member.uid, member.gid = like.uid, like.gid
    return member


def _pack(member: tarfile.TarInfo, content: bytes = b"") -> bytes:
    member.size = len(content)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _content(file: _Original) -> bytes | None:
    """What a plain file says; None for anything else."""
    if file.archive is None or file.member is None or not file.member.isreg():
        return None
    with tarfile.open(fileobj=io.BytesIO(file.archive), mode="r:") as tar:
        member = tar.next()
        content = tar.extractfile(member) if member else None
        return content.read() if content else None


def _added_below_scratch(before: Stamps, now: Stamps) -> set[str]:
    return {path for path in now.keys() - before.keys() if path.startswith(f"{_SCRATCH}/") and path.isprintable()}


def _made_writable(before: Stamps, now: Stamps) -> set[str]:
    """The image's own directory for temporary files, which has a stamp as soon as something was written there.

    What it was like before is not known, so only the mode and owner that it has everywhere are taken for unchanged.
    """
    root, scratch = now.get("/", ()), now.get(_SCRATCH, ())
    is_usual = scratch[:1] == (_SCRATCH_MODE,) and scratch[1:_OWNERS] == root[1:_OWNERS]
    return {_SCRATCH} if _SCRATCH not in before and is_usual else set()


def _touched(before: Stamps, now: Stamps) -> set[str]:
    return {path for path in (*before, *now) if before.get(path) != now.get(path)}


def _touched_by_edits(before: Stamps, now: Stamps, edited: Iterable[str]) -> set[str]:
    """What edits touch: the files themselves, and directories above them, whose owners and modes stay."""
    files = set(edited)
    above = {str(folder) for path in files for folder in PurePosixPath(path).parents}
    return files | {path for path in above if before.get(path, ())[:_OWNERS] == now.get(path, ())[:_OWNERS]}


# Judging them.

_MOST_IDLE = 8


class StateBench:
    """Judges end states, each as often as it is asked to; several at once if need be.

    As an async context manager it keeps sandboxes for the next verification, a few at most, and removes them at the
    end; without that, each one is removed after it was used. `verifications` counts what was judged, and `laid_out` how
    often a state had to be made for it.
    """

    def __init__(self, machinery: Machinery, most_idle: int = _MOST_IDLE) -> None:
        self._machinery = machinery
        self._most_idle = most_idle
        self._idle: list[tuple[tuple[object, ...], PreparedSandbox]] = []
        self._open = False
        self.verifications = 0
        self.laid_out = 0

    async def __aenter__(self) -> Self:
        self._open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open = False
        await finish(self._remove_idle(0))

    async def judge(
        self,
        state: EndState,
        folder: Path,
        edits: Sequence[Edit] = (),
        conditions: VerifierConditions = USUAL_CONDITIONS,
    ) -> Judged:
        """Judge an end state with some edits; what the verifier prints and writes goes to `folder`.

        Raises TrialError or UsageError where the machinery fails, as a trial does.
        """
        prepared = self._find_idle(state) or await self._lay_out(state, folder)
        try:
            changes = await prepared.edit(edits)
            verification = prepared.verification or state.verification
            verification = replace(
                verification, folder=folder, conditions=conditions, work=prepared.work or verification.work
            )
            verification = with_changes(verification, changes)
            judged = await self._judge(verification, prepared)
            rewritten = await prepared.rewritten(edits) if judged.evaluation.reward > 0 else {}
            made_by = prepared.verification.agent_result if prepared.verification else None
            judged = replace(judged, rewritten=rewritten, agent_result=made_by)
            self.verifications += 1
            unchanged = self._open and await prepared.is_as_before()
        except BaseException:
            await finish(prepared.remove())
            raise
        if unchanged:
            self._idle.append((state.key, prepared))
            await finish(self._remove_idle(self._most_idle))
        else:
            await finish(prepared.remove())
        return judged

    async def _judge(self, verification: Verification, prepared: PreparedSandbox) -> Judged:
        work, round_ = verification.work, verification.round
        work = replace(work, output=await fetch_output(prepared.sandbox, round_.judged.output, work.found))
        if choose_isolation(verification) == "separate":  # it gets nothing else, so these have to be edited ones too
            artifacts = verification.folder / "artifacts"
            kept = await keep_artifacts(prepared.sandbox, [PUBLISHED, *round_.artifacts], artifacts)
            work = replace(work, kept=kept, artifacts=artifacts)
        judgement = await judge(replace(verification, work=work), prepared.sandbox, self._machinery)
        return Judged(judgement, score(round_, judgement, work.changes, verification.options))

    def _find_idle(self, state: EndState) -> PreparedSandbox | None:
        """The sandbox that was used last for the same state, if there is one that nobody uses now."""
        for index in reversed(range(len(self._idle))):
            if state.live is None and self._idle[index][0] == state.key:
                return self._idle.pop(index)[1]
        return None

    async def _lay_out(self, state: EndState, folder: Path) -> PreparedSandbox:
        self.laid_out += 1
        async with AsyncExitStack() as stack:
            prepared = await self._make(state, folder, stack)
            if state.files:
                await put_tree(prepared.sandbox, "/", state.files)
                prepared.added = files_below(state.files)
            if self._open and not state.live:
                await prepared.note_stamps()
            prepared.keep_open(stack.pop_all())
        return prepared

    async def _make(self, state: EndState, folder: Path, stack: AsyncExitStack) -> PreparedSandbox:
        if state.live:
            place = (state.verification.round.name, folder / "live")
            machinery = self._machinery.with_agent(state.live.agent.title, state.agent)
            sandbox, verification = await run_up_to(state.live, machinery, *place, stack)
            return PreparedSandbox(sandbox, verification)
        backend, verification = self._machinery.backend, state.verification
        if state.archive:
            sandbox = await stack.enter_async_context(open_sandbox(backend, verification.place.sandbox))
            await lay_out_snapshot(sandbox, state.archive)
            return PreparedSandbox(sandbox, work=await work_laid_out(verification, sandbox))
        return PreparedSandbox(await stack.enter_async_context(open_untouched(verification, backend, folder)))

    async def _remove_idle(self, most: int) -> None:
        """Remove those that have not been used for longest."""
        while len(self._idle) > most:
            await self._idle.pop(0)[1].remove()


def files_below(folder: Path) -> tuple[str, ...]:
    """Where the files of a folder are once it is laid over the root of a sandbox; odd bytes of a name written out."""
    found = (bytes(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())
    return tuple(sorted(f"/{path.decode('utf-8', 'backslashreplace')}" for path in found))


def with_changes(verification: Verification, edited: FileChanges) -> Verification:
    """A verification in which edits count as the agent's own changes: the verifier is shielded from them as well."""
    if edited == FileChanges():
        return verification
    gone = set(edited.removed)

    def merged(changes: FileChanges) -> FileChanges:
        both = merge_changes([changes, edited])
        lists = {"added": both.added, "modified": both.modified}
        left = {name: tuple(path for path in paths if path not in gone) for name, paths in lists.items()}
        return both.model_copy(update=left)

    work = verification.work
    return replace(verification, work=replace(work, changes=merged(work.changes), found=merged(work.found)))


async def run_up_to(
    spec: TrialSpec, machinery: Machinery, round_name: str | None, folder: Path, stack: AsyncExitStack
) -> tuple[Sandbox, Verification]:
    """Run the agent of a trial up to a round and take stock of it; its sandbox is open until the stack is closed.

    For end states with processes, which no archive holds. What the agent prints goes to `folder`. Rounds before are not
    judged. Raises TrialError or UsageError.
    """
    folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - one directory
    # Keeping its end state would end the very processes.
    spec = replace(spec, options=spec.options.model_copy(update={"keep": "record"}))
    trial = await stack.enter_async_context(open_trial(spec, machinery, folder, TrialLog(spec, unobserved)))
    for round_ in rounds_of(spec.task):
        turn = trial.begin(round_)
        launch = await turn.set_up()
        async with turn.open_model() as access:
            agent_result = await turn.run_agent(launch, access)
        work = await turn.take_stock(agent_result)
        if round_.name == round_name:
            return trial.sandbox, turn.verification(agent_result, work)
    raise UsageError(f"{spec.task.id}: it has no step {round_name!r}")


_MAKING_SEC = 60.0
# `dd` is everywhere; it makes a file with a hole, which takes no time and no room.
_MAKERS = {
    "folder": 'mkdir -- "$1"',
    "link": 'ln -s -- "$2" "$1"',
    "pipe": 'mkfifo -- "$1"',
    "zeros": 'dd if=/dev/null of="$1" bs=1 count=0 seek="$2" 2>/dev/null',
}


async def make_odd_file(sandbox: Sandbox, path: str, file: OddFile) -> None:
    """Put it in the place of whatever is there. Raises SandboxError where the sandbox cannot make it."""
    script = f'rm -rf -- "$1" && mkdir -p -- "$0" && {_MAKERS[file.kind]}'
    where = posixpath.normpath(path)
    command = ("/bin/sh", "-c", script, posixpath.dirname(where) or "/", where, file.argument)
    done = await sandbox.exec(ExecSpec(command, cwd="/", user=0, timeout_sec=_MAKING_SEC))
    if done.exit_code != 0:
        said = done.stderr.decode(errors="replace").strip()[-500:]
        raise SandboxError(f"{path} cannot be made a {file.kind} in the end state: {said}")
