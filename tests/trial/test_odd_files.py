import pytest

from seatrial.errors import SandboxError
from seatrial.sandbox.api import ExecSpec, SandboxSpec, open_sandbox
from seatrial.trial.end_state import OddFile, make_odd_file
from tests.trial.support import open_desk

PLACE = "/app/new folder/-answer.json"
# Kind, size and target of what is there, and how much of the disk it takes.
LOOK = f'stat -c "%F|%s|%b" "{PLACE}"; readlink "{PLACE}" || true'


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    with open_desk(tmp_path_factory.mktemp("desk")) as opened:
        yield opened


def test_each_kind_takes_the_place_of_what_was_there(desk):
    async def look() -> list[list[str]]:
        async with open_sandbox(desk.backend, SandboxSpec()) as sandbox:
            found = []
            for file in (
                OddFile("folder"),
                OddFile("link", "no-such-file"),
                OddFile("pipe"),
                OddFile("zeros", "104857600"),
            ):
                await make_odd_file(sandbox, PLACE, file)
                done = await sandbox.exec(ExecSpec(("/bin/sh", "-c", LOOK), timeout_sec=30.0))
                found.append(done.stdout.decode().splitlines())
            return found

    folder, link, pipe, zeros = desk.wait(look())
    assert folder[0].startswith("directory|")
    assert (link[0].partition("|")[0], link[1]) == ("symbolic link", "no-such-file")
    assert pipe[0].startswith("fifo|")
    assert zeros[0] == "regular file|104857600|0"


def test_what_cannot_be_made_is_said(desk):
    async def try_it() -> None:
        async with open_sandbox(desk.backend, SandboxSpec()) as sandbox:
            await make_odd_file(sandbox, "/proc/answer", OddFile("folder"))

    with pytest.raises(SandboxError, match=r"/proc/answer cannot be made a folder in the end state: .+"):
        desk.wait(try_it())
