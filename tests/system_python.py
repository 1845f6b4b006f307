"""The Python of this machine's own system, which is also the one in sandboxes of the `host` image."""

from pathlib import Path

PYTHON = "/usr/bin/python3"
# With its version, as its folders are called: python3.11, say.
NAME = Path(PYTHON).resolve().name
STDLIB = f"/usr/lib/{NAME}"
SITE_HOOK = f"/etc/{NAME}/sitecustomize.py"
USER_SITE = f"/root/.local/lib/{NAME}/site-packages"
