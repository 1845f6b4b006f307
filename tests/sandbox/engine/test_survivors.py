"""Which processes of a container are the agent's."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from seatrial.sandbox.api import ExecSpec, open_sandbox
from seatrial.sandbox.engine import survivors
from seatrial.sandbox.engine.survivors import FoundProcesses, Process, names, row, sort_out
from seatrial.sandbox.process_names import NO_NAME, RESTLESS
from seatrial.sandbox.transfer import put_file
from tests.docker_daemon import needs
from tests.sandbox.engine.support import SPEC, run

AROUND = [
    Process(10, 5, "Ss", "init"),
    Process(20, 5, "S", "sh"),
    Process(21, 20, "S", "sh"),
    Process(22, 21, "S", "cat"),
    Process(23, 21, "S", "sh"),
]
# Stays between us and a command: it says that the command has ended, and does not end itself.
SHELL = """#!/bin/busybox sh
read -r word
(echo; echo "$word 0") >&1
(echo; echo "$word 0") >&2
exec /bin/busybox sleep 1000
"""


def test_what_stands_between_us_and_a_command_is_told_from_it():
    rows = [
        *AROUND,
        Process(24, 23, "S", "agent"),
        Process(25, 24, "S", "tool"),
        Process(26, 24, "Z", "gone"),
        Process(30, 10, "S", "sleep"),
    ]
    assert sort_out(rows, 10) == FoundProcesses(("agent", "sleep", "tool"), ("cat", "sh", "sh", "sh"))


def test_whose_first_thread_has_ended_is_alive():
    """Docker marks it. In Podman's list it looks dead, but nobody dead can be a child of the first process."""
    docker = [Process(24, 23, "Zl", "threads"), Process(25, 24, "Z", "dead")]
    podman = [Process(30, 10, "Z", "threads")]
    for rows in (docker, podman):
        assert sort_out([*AROUND, *rows], 10).agents == ("threads",)


def test_names_of_several_columns_and_of_none():
    assert [row(["2", "1", "S", *name]).name for name in ([], [""], ["a", "b"])] == [NO_NAME, NO_NAME, "a b"]


@dataclass
class Container:
    """Tells of processes look by look, the last one for ever."""

    looks: Sequence[FoundProcesses]
    count: int = 1
    left: Iterator[FoundProcesses] = field(init=False)

    def __post_init__(self) -> None:
        self.left = iter(self.looks)

    async def processes(self) -> FoundProcesses:
        return next(self.left, self.looks[-1])

    async def has_more_than_its_first_process(self) -> bool:
        return self.count > 1


@dataclass
class Command:
    """One that has ended, or not; `held` if somebody keeps its output open."""

    running: bool = False
    held: bool = False

    async def wait_until_closed(self) -> None:
        if self.held:
            await asyncio.Event().wait()


OURS = FoundProcesses((), ("cat", "cat", "sh", "sh"))


@pytest.mark.parametrize(
    ("container", "commands", "expected"),
    [
        pytest.param(Container([FoundProcesses()]), [], (), id="nobody"),
        pytest.param(Container([OURS, OURS, FoundProcesses()]), [Command()], (), id="ours, on their way out"),
        pytest.param(Container([OURS]), [Command(held=True)], OURS.between, id="in the place of ours, and stays"),
        pytest.param(Container([OURS]), [Command(running=True)], (), id="around a command that runs"),
        pytest.param(
            Container([FoundProcesses(("x",), ("sh", "cat"))]), [Command(held=True)], ("x",), id="held open by x"
        ),
        pytest.param(
            Container([FoundProcesses(("x",), ("sh",) * 6)]), [Command()], ("sh",) * 6 + ("x",), id="too many"
        ),
        pytest.param(Container([FoundProcesses(("x",), ("sh",))]), [], ("sh", "x"), id="no command explains it"),
        pytest.param(Container([FoundProcesses()], count=2), [], (RESTLESS,), id="in no list, but counted"),
    ],
)
def test_what_is_ours_has_to_end_with_its_command(container, commands, expected, monkeypatch):
    monkeypatch.setattr(survivors, "_FAREWELL_SEC", 0.01)
    assert asyncio.run(names(container, commands)) == expected


@needs("docker")
def test_a_shell_that_the_agent_put_in_place_of_ours_is_listed():
    async def work(backend):
        async with open_sandbox(backend, SPEC) as sandbox:
            await put_file(sandbox, "/bin/sh", SHELL.encode(), mode=0o755)
            await sandbox.exec(ExecSpec(("true",), timeout_sec=30))
            found = await sandbox.processes()
            await sandbox.kill_all()
            return found, await sandbox.processes()

    assert run(work) == (("busybox",), ())
