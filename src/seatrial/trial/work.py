"""The agent's turn: run its command, then take stock of what it left before anybody else touches anything.

`Work` is what is listed: its changes, its output, what it published, the processes and services that run on. What its
files amount to is judged elsewhere.
"""

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from seatrial.agents.api import AgentLaunch
from seatrial.descriptors import raise_if_short
from seatrial.errors import ContentError, SandboxError
from seatrial.model.base import to_json
from seatrial.model.output import RawFile
from seatrial.model.record import CHANGES, AgentResult, ChangeCounts, FileChanges
from seatrial.model.task import ArtifactSpec
from seatrial.sandbox.api import ExecResult, ExecSpec, Network, Sandbox
from seatrial.sandbox.host.disks import spare_bytes
from seatrial.sandbox.transfer import get_tree
from seatrial.trial.place import Place
from seatrial.trial.rounds import Round
from seatrial.trial.snapshot import LEAST_SECRET
from seatrial.untrusted.files import read_file
from seatrial.verify.artifacts import PUBLISHED, KeptArtifact, fetch_output, keep_artifacts

_MAX_AGENT_LOG_BYTES = 64 * 2**20
_AGENT_LOGS = "/logs/agent"
_SOCKETS = ("/bin/sh", "-c", "cd /proc/net && cat tcp tcp6 udp udp6 unix 2>/dev/null")
_SOCKETS_SEC = 30.0
# Rows of sockets that accept connections (0A), or datagrams from anybody (07); and of unix sockets that accept.
_PORT = re.compile(
    r"^ *\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:0000 (0A|07) \S+ \S+ \S+ +\d+ +\d+ (\d+)\b", re.MULTILINE
)
_PATH = re.compile(r"^[0-9a-fA-F]+: [0-9A-F]+ [0-9A-F]+ 00010000 \d+ 01 +(\d+) (.+)$", re.MULTILINE)
_KINDS = {"0A": "tcp", "07": "udp"}
_MOST_SERVICES = 50
_MAX_TEXT_BYTES = 2**16
DID_NOTHING = AgentResult(status="exited", exit_code=0, duration_sec=0.0)


async def run_agent(
    sandbox: Sandbox,
    round_: Round,
    launch: AgentLaunch,
    network: Network,
    timeout_sec: float | None,
    folder: Path,
    *,
    changes_from_here: bool = True,
) -> AgentResult:
    """Run the agent's command to its end or to the end of its time; either is data. Its output goes to `folder`.

    With `changes_from_here`, changes of files are counted from its start.
    """
    folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - one directory
    result = await sandbox.exec(
        ExecSpec(
            launch.argv,
            env=launch.env,
            cwd=launch.cwd,
            user=round_.agent.user,
            timeout_sec=timeout_sec,
            patience_sec=0.0,
            network=network,
            stdout_path=folder / "stdout.txt",
            stderr_path=folder / "stderr.txt",
            changes_from_here=changes_from_here,
        )
    )
    return agent_result(result, round_.folder)


def agent_result(result: ExecResult, folder: str = "") -> AgentResult:
    """How an agent's command ended; its output is below `folder`, as the record has it."""
    killed = result.exit_code is not None and result.exit_code < 0
    base = f"{folder}/agent".lstrip("/")
    return AgentResult(
        status="timed_out" if result.timed_out else "killed" if killed else "exited",
        exit_code=result.exit_code,
        duration_sec=result.duration_sec,
        stdout_path=f"{base}/stdout.txt",
        stderr_path=f"{base}/stderr.txt",
        cpu_sec=result.cpu_sec,
        cpu_wait_sec=result.cpu_wait_sec,
    )


@dataclass(frozen=True, slots=True)
class Work:
    """What an agent left behind."""

    output: RawFile | None
    changes: FileChanges
    """By the agent itself."""
    found: FileChanges
    """By whatever ran since the agent started: its programs may also run in a hook."""
    survivors: tuple[str, ...]
    kept: tuple[KeptArtifact, ...]
    artifacts: Path
    """The folder with those that were kept."""
    services: tuple[str, ...] = ()
    """What processes listen on that are still running, such as `tcp:8000`; asked only where they cannot just run on."""

    def handed_over(self) -> Iterator[str]:
        """The files that a separate verifier gets, by their paths inside."""
        for artifact in self.kept:
            if artifact.status == "ok" and artifact.type == "file":
                yield artifact.source
            elif artifact.status == "ok":
                top = self.artifacts / artifact.destination
                files = (path.relative_to(top).as_posix() for path in top.rglob("*") if not path.is_dir())
                yield from (f"{artifact.source.rstrip('/')}/{path}" for path in files)

    def read_kept(self, path: str) -> str | None:
        """What a small file says that a separate verifier gets."""
        for artifact in self.kept:
            place = self.artifacts / artifact.destination
            if path.startswith(f"{artifact.source.rstrip('/')}/"):
                place /= posixpath.relpath(path, artifact.source)
            elif path != artifact.source:
                continue
            with suppress(OSError):
                return read_file(place, _MAX_TEXT_BYTES).decode(errors="replace")
        return None


async def take_stock(
    sandbox: Sandbox, round_: Round, place: Place, agent_result: AgentResult, folder: Path, *, alone: bool = True
) -> Work:
    """What the agent changed, what still runs, what it published, and its output; hooks run in between.

    One that did nothing is not `alone` where processes outlived an agent before it.
    """
    idle = agent_result is DID_NOTHING and alone
    # Who runs comes first: while nobody does, nothing that is looked at afterwards changes any more.
    survivors = () if idle else await sandbox.processes()
    found = FileChanges() if idle else await sandbox.changes()
    changes = _beyond(found, round_.staged_files(place.workdir))
    for hook in round_.verifier.collect:
        # Best effort, as the format has it: a hook that fails is missing from the artifacts, not from the score.
        command = ("/bin/sh", "-c", hook.command)
        await sandbox.exec(ExecSpec(command, user=hook.user, timeout_sec=hook.timeout_sec, cwd=place.workdir))
    hooked = bool(round_.verifier.collect) and not idle
    if hooked:
        survivors, found = await sandbox.processes(), await sandbox.changes()
    if hooked or _touched(changes, _AGENT_LOGS):
        await _keep_agent_logs(sandbox, folder / "agent" / "logs")
    published = [PUBLISHED] if hooked or _touched(changes, PUBLISHED.source) else []
    wanted: Sequence[ArtifactSpec] = [*published, *round_.artifacts]
    kept = await keep_artifacts(sandbox, wanted, folder / "artifacts") if wanted else ()
    output = await fetch_output(sandbox, round_.judged.output, found)
    # Beside a verifier that is shielded, or where nothing is, processes may run on without ado.
    may_run_on = place.capabilities.guarded_phases or place.capabilities.isolation == "none"
    services = await _find_services(sandbox) if survivors and not may_run_on else ()
    return Work(output, changes, found, survivors, kept, folder / "artifacts", services)


async def _find_services(sandbox: Sandbox) -> tuple[str, ...]:
    """What listens in a sandbox by its own word; an agent that answers in its place gains nothing by that."""
    command = ExecSpec(_SOCKETS, user=0, cwd="/", timeout_sec=_SOCKETS_SEC)
    try:
        printed = (await sandbox.exec(command)).stdout.decode(errors="replace")
    except SandboxError:
        return ()
    return listening(printed, _own_sockets())


def listening(tables: str, own: Set[str] = frozenset()) -> tuple[str, ...]:
    """What is listened on, of the kernel's tables of sockets; `own` are left out, by their inodes."""
    ports = (row.groups() for row in _PORT.finditer(tables))
    found = {f"{_KINDS[state]}:{int(port, 16)}" for port, state, inode in ports if inode not in own}
    found |= {f"unix:{path}" for inode, path in _PATH.findall(tables) if inode not in own}
    return tuple(sorted(found)[:_MOST_SERVICES])


def _own_sockets() -> frozenset[str]:
    """The inodes of this process's own sockets: the gateway and the proxy listen inside sandboxes."""
    links = set()
    with suppress(OSError):  # not Linux
        for entry in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                links.add(str(entry.readlink()))
    return frozenset(link.removeprefix("socket:[").removesuffix("]") for link in links)


def _beyond(changes: FileChanges, staged: Set[str]) -> FileChanges:
    """The changes as they look beside what was put there for the agent: that is modified, not added."""
    modified = staged & set(changes.added)
    if not modified:
        return changes
    added = tuple(path for path in changes.added if path not in modified)
    return changes.model_copy(update={"added": added, "modified": tuple(sorted({*changes.modified, *modified}))})


def _touched(changes: FileChanges, directory: str) -> bool:
    return any(path.startswith(f"{directory}/") for path in (*changes.added, *changes.modified))


async def _keep_agent_logs(sandbox: Sandbox, folder: Path) -> None:
    try:
        limit = min(_MAX_AGENT_LOG_BYTES, spare_bytes(folder.parent))
        await get_tree(sandbox, _AGENT_LOGS, folder, limit=limit)
    except (OSError, ContentError) as error:  # nothing there, too much, or names too long for this machine
        raise_if_short(error)
        folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - one directory, one line
        (folder / "not-kept.txt").write_text(f"{error}\n")


def hide_in_logs(folder: Path, secrets: Iterable[str]) -> None:
    """Have no secret in the logs that were kept of an agent: stars, as many, so that databases stay readable."""
    long = [secret for secret in secrets if len(secret) >= LEAST_SECRET]
    written = {form for secret in long for form in (secret, json.dumps(secret, ensure_ascii=False)[1:-1])}
    for file in (folder / "agent" / "logs").rglob("*") if written else ():
        if file.is_symlink() or not file.is_file():
            continue
        file.chmod(0o644)  # whatever the agent made of it
        content = hidden = file.read_bytes()
        for each in sorted((form.encode(errors="replace") for form in written), key=len, reverse=True):
            hidden = hidden.replace(each, b"*" * len(each))
        if hidden != content:
            file.write_bytes(hidden)


def merge_changes(rounds: Sequence[FileChanges]) -> FileChanges:
    """What several rounds changed, taken together."""
    rounds = [each for each in rounds if each.added or each.modified or each.removed or each.truncated]
    if len(rounds) <= 1:
        return rounds[0] if rounds else FileChanges()
    added = {path for changes in rounds for path in changes.added}
    modified = {path for changes in rounds for path in changes.modified} - added
    removed = {path for changes in rounds for path in changes.removed}
    return FileChanges(
        added=tuple(sorted(added)),
        modified=tuple(sorted(modified)),
        removed=tuple(sorted(removed)),
        truncated=any(changes.truncated for changes in rounds),
    )


def write_changes(changes: FileChanges, folder: Path) -> ChangeCounts:
    """Store which files changed beside the record; returns how many."""
    (folder / CHANGES).write_bytes(to_json(changes))
    return ChangeCounts(added=len(changes.added), modified=len(changes.modified), removed=len(changes.removed))
