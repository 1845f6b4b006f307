"""Libraries that forge a verdict as they are loaded, compiled where there is a compiler."""

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tests.attacks.attack import VERDICT

HAS_COMPILER = shutil.which("gcc") is not None
_SOURCE = f"""
#include <fcntl.h>
#include <unistd.h>
static void put(const char *path, const char *text, int length) {{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (file >= 0) {{ if (write(file, text, length)) {{}} close(file); }}
}}
__attribute__((constructor, destructor)) static void forge(void) {{
    if (access("/tests", F_OK)) return;
    put("/logs/verifier/reward.txt", "1", 1);
    put("/logs/verifier/reward.json", "{VERDICT.replace('"', chr(92) + '"')}", {len(VERDICT)});
}}
"""


@cache
def evil_library(real: str = "", soname: str = "") -> bytes:
    """A library that forges, or one that does so in front of the real one at a path. Nothing without a compiler."""
    if not HAS_COMPILER:
        return b""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "evil.c").write_text(_SOURCE)
        (Path(folder) / "stub.c").write_text("")
        command = ["gcc", "-s", "-shared", "-fPIC", "-o"]
        more = []
        if real:
            subprocess.run([*command, "stub.so", "stub.c", f"-Wl,-soname,{real}"], cwd=folder, check=True)
            more = ["-Wl,--no-as-needed", "./stub.so"]
        more += [f"-Wl,-soname,{soname}"] if soname else []
        subprocess.run([*command, "evil.so", "evil.c", *more], cwd=folder, check=True)
        return (Path(folder) / "evil.so").read_bytes()
