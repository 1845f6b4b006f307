"""What the spawner is made of: everything it has loaded is copied, page table by page table, with every fork."""

import subprocess
import sys

# What each of them costs: `threading` runs code of its own in every child; `inspect` comes with `dataclasses`; those
# that compress bring a library each.
TOO_LARGE = {"asyncio", "dataclasses", "inspect", "pathlib", "platform", "pydantic", "subprocess", "threading"}
TOO_LARGE |= {"_bz2", "_lzma", "zlib"}


def test_the_spawner_loads_nothing_large():
    code = "import sys, seatrial.sandbox.embedded.__main__; print(*(name for name in sys.modules if sys.modules[name]))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(done.stdout.split())
    assert "seatrial.sandbox.embedded.spawner" in loaded
    assert loaded & TOO_LARGE == set()
