"""Whatever an agent plants wherever in the system: what the verifier's tools load is the image's, byte for byte."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.attacks.arena import Arena
from tests.attacks.attack import Attack
from tests.attacks.python_attacks import SITE, STDLIB, USER, VERSION
from tests.sandbox.embedded.support import needs_root
from tests.trial.support import python_command

pytestmark = needs_root

# Prints a digest of everything of the image's, and what an interpreter and a loader have loaded once they run.
_LOOK = """
import hashlib, json, os, sys
found = {}
for top in ("/usr", "/etc", "/opt", "/root", "/venv"):
    for folder, names, files in os.walk(top):
        for name in files + names:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                found[path] = "-> " + os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    found[path] = hashlib.md5(file.read()).hexdigest()
loaded = sorted({module.__file__ for module in list(sys.modules.values()) if getattr(module, "__file__", None)})
mapped = sorted({line.split()[-1] for line in open("/proc/self/maps") if line.split()[-1].startswith("/")})
json.dump({"found": found, "loaded": loaded, "mapped": mapped, "path": sys.path}, open("/logs/verifier/seen.json", "w"))
"""
_TEST = {
    "tests/test.sh": "#!/bin/bash\necho 0 > /logs/verifier/reward.txt\n/opt/venv/bin/python3 /tests/look.py\nexit 0\n",
    "tests/look.py": _LOOK,
}
_FOLDERS = (
    *(STDLIB, f"{STDLIB}/json", f"{STDLIB}/encodings", f"{STDLIB}/__pycache__", f"{STDLIB}/lib-dynload", SITE, USER),
    *(f"{SITE}/_pytest", "/usr/bin", "/usr/local/bin", "/opt/venv/bin", "/opt/venv", "/usr/lib", "/usr/local/lib"),
    *("/etc", "/etc/ld.so.conf.d", "/etc/profile.d", "/root", "/root/.config", "/etc/perl", f"/etc/{VERSION}"),
)
_NAMES = (
    *("json.py", "__init__.py", "site.py", "os.py", "x.pth", "sitecustomize.py", "usercustomize.py", "python3", "grep"),
    *("bash", "libc.so.6", "libz.so.1", "ld.so.preload", "ld.so.cache", "passwd", "pyvenv.cfg", ".bashrc", "profile"),
    *("codecs.py", "codecs", "re", "encodings", "__pycache__", "evil.so", "env", "harmless.txt", "strict.pm", "pytest"),
)
planted = st.tuples(
    st.sampled_from(_FOLDERS), st.sampled_from(_NAMES), st.sampled_from(["write", "append", "link", "remove", "folder"])
)
_PLANT = """
import os, shutil
for folder, name, how in PLANTED:
    path = f"{folder}/{name}"
    try:
        os.makedirs(folder, exist_ok=True)
        if how == "append":
            open(path, "a").write("# more" + chr(10))
            continue
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)
        if how == "write":
            open(path, "w").write("raise SystemExit(3)")
        elif how == "link":
            os.symlink("/app/elsewhere", path)
        elif how == "folder":
            os.makedirs(path)
            open(f"{path}/__init__.py", "w").write("raise SystemExit(3)")
    except OSError:
        pass
"""


def _of_image(arena: Arena) -> dict[str, str]:
    ran = arena.play(Attack("nothing", ":", _TEST))
    found: dict[str, str] = json.loads(ran.text("verifier/files/seen.json"))["found"]
    return found


@pytest.mark.whole
def test_the_verifiers_footprint_is_the_images(arena: Arena) -> None:
    """A real sandbox for each example, so there are few; they have several files each."""
    original = _of_image(arena)

    @settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(planted, min_size=1, max_size=12))
    def check(files: list[tuple[str, str, str]]) -> None:
        ran = arena.play(Attack("any", python_command(f"PLANTED = {files!r}\n{_PLANT}"), _TEST))
        assert ran.agent.exit_code == 0, ran.text("agent/stderr.txt")
        seen = json.loads(ran.text("verifier/files/seen.json"))
        different = {path for path, digest in original.items() if seen["found"].get(path) != digest}
        assert different <= {"/etc/passwd"}, different
        strange = {path for path in (*seen["loaded"], *seen["mapped"]) if not path.startswith("/tests/")} - set(
            original
        )
        assert {path for path in strange if path not in seen["mapped"] or path.startswith("/app")} == set()
        assert all(not path.startswith("/app") for path in seen["path"])

    check()
