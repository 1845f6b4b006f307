"""With few file descriptors: a sandbox too many is refused with the numbers, and the others do not notice."""

import json
import subprocess
import sys

import pytest

from tests.conftest import sampled
from tests.sandbox.embedded.support import needs_root

pytestmark = needs_root

# In a process of its own: limits cannot be raised again. Prints what becomes of more sandboxes than there is room for.
CROWD = """
import asyncio, json, resource, sys
from pathlib import Path
soft, hard = int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
from seatrial.errors import SandboxError
from seatrial.sandbox.api import ExecSpec, SandboxSpec
from seatrial.sandbox.embedded.backend import EmbeddedBackend
async def main():
    async with asyncio.timeout(60), EmbeddedBackend(root=Path(sys.argv[1])) as backend:
        made, refusals = [], []
        for _ in range(12):
            try:
                made.append(await backend.create(SandboxSpec()))
            except SandboxError as error:
                refusals.append(str(error))
        ask = ExecSpec(("/bin/sh", "-c", "ulimit -Sn; ulimit -Hn"))
        limits = {(await sandbox.exec(ask)).stdout.decode() for sandbox in made}
        await made.pop().destroy()
        again = await backend.create(SandboxSpec())
        print(json.dumps([len(made), refusals[:1], sorted(limits)]))
asyncio.run(main())
"""


@pytest.mark.parametrize(("soft", "hard", "all_of_them"), sampled([(100, 100, False), (64, 4096, True)]))
def test_more_sandboxes_than_there_are_descriptors_for(soft, hard, all_of_them, tmp_path):
    command = [sys.executable, "-c", CROWD, str(tmp_path), str(soft), str(hard)]
    made, refusals, limits = json.loads(subprocess.check_output(command, text=True, timeout=100))
    assert limits == [f"{soft}\n{hard}\n"], "commands have the limits that we were started with"
    if all_of_them:
        assert (made, refusals) == (11, [])
    else:
        assert 3 <= made < 11
        assert f"of at most {hard} files open" in refusals[0]
        assert "ulimit -n" in refusals[0]
    assert list(tmp_path.iterdir()) == []
