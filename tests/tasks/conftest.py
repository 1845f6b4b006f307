"""What the tests of task folders share."""

import os
import subprocess

import pytest


@pytest.fixture
def nest():
    """Make folders within folders below a root, deeper than functions can call themselves; removed afterwards."""
    roots = []

    def make(root):
        roots.append(root)
        here = os.open(root, os.O_RDONLY)
        for _ in range(1200):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(here)

    yield make
    for root in roots:
        subprocess.run(["rm", "-rf", str(root)], check=True)  # shutil.rmtree calls itself, too
