"""The ids of this machine that a user may hand out in a user namespace, as /etc/subuid and /etc/subgid grant them."""

import os
import pwd
import shutil
import subprocess
from pathlib import Path

_TIMEOUT_SEC = 30.0


def map_ids(pid: int) -> bool:
    """Give a user namespace the id range /etc/subuid grants us, by the helpers made for it; False when it cannot be."""
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # as in a container that is told to run as some number
        name = str(uid)
    for helper, table, own in (("newuidmap", "/etc/subuid", uid), ("newgidmap", "/etc/subgid", os.getgid())):
        program, granted = shutil.which(helper), granted_range(table, name, uid)
        if program is None or granted is None:
            return False
        command = [program, str(pid), "0", str(own), "1", "1", *granted]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT_SEC)  # noqa: S603 - by full path
        except (OSError, subprocess.SubprocessError):
            return False
    return True


def granted_range(table: str, name: str, uid: int) -> tuple[str, str] | None:
    """Where the ids start that a table grants a user, and how many they are."""
    try:
        lines = Path(table).read_text().splitlines()
    except OSError:
        return None
    rows = [line.split(":") for line in lines if line.count(":") == 2]
    return next(((start, count) for owner, start, count in rows if owner in (name, str(uid))), None)
