"""Limits: how much of the harness one trial's agent may take up. It is a stranger, and others are served beside it.

Nothing here is shared between trials, so that no trial can use up what another one needs.
"""

from dataclasses import dataclass
from pathlib import Path

MiB = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """What one listener grants. Bodies over `small_bytes`, or beyond `memory_bytes` together, are kept in `spool`.

    `spool` is a folder; None is the system's folder for temporary files.
    """

    connections: int = 512
    idle_sec: float = 300.0
    """How long a connection may wait before the head of its next request is there."""
    body_sec: float = 300.0
    """How long the rest of a request may take."""
    stalled_sec: float = 120.0
    """How long an agent may leave an answer unread."""
    keep_alive_sec: float = 1800.0
    """How long a provider may send nothing but keep-alives."""
    evicted_after_sec: float = 1.0
    """How long a connection was idle at least before it has to make room for another one."""
    starved_sec: float = 10.0
    """How long this process may lack descriptors before the trial counts as failed by us."""
    body_bytes: int = 64 * MiB
    small_bytes: int = 1 * MiB
    memory_bytes: int = 8 * MiB
    disk_bytes: int = 512 * MiB
    answer_bytes: int = 128 * MiB
    """How much answers under way may have together: whole ones that wait for the agent, streams as they are noted."""
    spool: Path | None = None
