"""An agent that does what a case says: files are laid out for it, then it runs a shell command."""

import posixpath
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from seatrial.agents.api import AgentContext, AgentLaunch
from seatrial.model.config import TaskConfig
from seatrial.model.record import AgentRef
from seatrial.trial.end_state import Edit

_ROOT = "/."  # a tree at the root itself, as archives name it


class CaseAgent:
    """Runs a command in the task's own directory, after the files of `tree` were laid over `/`."""

    is_reference = True

    def __init__(self, name: str, command: str, tree: Path | None = None) -> None:
        self._name = name
        self._command = command
        self._tree = tree

    @property
    def ref(self) -> AgentRef:
        """How records name it."""
        return AgentRef(name=self._name, command=self._command)

    def templates(self, _: TaskConfig) -> Mapping[str, str]:
        """None: a case asks for nothing of this machine."""
        return {}

    def prepare(self, _: AgentContext) -> AgentLaunch | None:
        """The command in a shell."""
        trees = {_ROOT: self._tree} if self._tree else {}
        return AgentLaunch(("/bin/sh", "-c", self._command), trees=trees)


def lay_out(edits: Iterable[Edit], tree: Path) -> str:
    """Write the files of edits below a new folder; returns a command that removes what is to be gone."""
    tree.mkdir(parents=True)
    gone = []
    for edit in edits:
        if edit.content is None:
            gone.append(f"rm -rf -- {shlex.quote(edit.path)}")
            continue
        file = tree / posixpath.normpath(f"/{edit.path}").lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(edit.content)
        file.chmod((0o644 if edit.mode is None else edit.mode) | 0o400)  # or it could not be packed
    return "; ".join(gone)
