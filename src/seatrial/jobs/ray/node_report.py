"""What a node is: its versions, its size, and how many trials it takes at once."""

import os
import platform
import shutil
import socket
from importlib.metadata import version
from pathlib import Path

from seatrial.descriptors import affordable_trials
from seatrial.jobs.admission import cores, machine_memory_mb
from seatrial.jobs.ray.wire import NodeReport

_LEAST_SLOTS = 4  # trials wait for models and clocks more than they compute


def describe_node(folder: Path, slots: int | None = None) -> NodeReport:
    """This machine, for trials that keep their files in a folder; so many at once as asked for, if it bears them."""
    return NodeReport(
        version=version("seatrial"),
        python=platform.python_version(),
        host=socket.gethostname(),
        pid=os.getpid(),
        cores=cores(),
        memory_mb=machine_memory_mb(),
        disk_free_mb=shutil.disk_usage(folder).free // 2**20,
        slots=affordable_trials(slots or max(_LEAST_SLOTS, cores())),
    )
