"""What runs below a process is counted without anybody's help."""

import os
import subprocess
import sys

from seatrial.sandbox.host.attendance import memory_below, threads_below


def test_children_and_their_children_are_counted():
    with subprocess.Popen([sys.executable, "-c", "print('up', flush=True); input()"], stdin=-1, stdout=-1) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert threads_below(os.getpid()) >= 1
        assert memory_below(os.getpid()) > 2**20
        assert threads_below(child.pid) == 0
        child.communicate(b"\n")
