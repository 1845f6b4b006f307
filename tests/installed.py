"""Packages of strangers, as an installer leaves them: a module, and metadata that names its entry points."""

import sys
from pathlib import Path

import pytest

from seatrial.plugins import find_plugin


def install(patch: pytest.MonkeyPatch, site: Path, module: str, code: str, **entry_points: str) -> None:
    """Install one for a test: `backends="NAME = OBJECT"` registers an object of its module with us under a name."""
    metadata = site / f"{module}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    groups = [f"[seatrial.{group}]\n{line.replace('= ', f'= {module}:')}\n" for group, line in entry_points.items()]
    (metadata / "entry_points.txt").write_text("\n".join(groups))
    (site / f"{module}.py").write_text(code)
    patch.syspath_prepend(site)
    patch.delitem(sys.modules, module, raising=False)
    find_plugin.cache_clear()
