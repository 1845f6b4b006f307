"""What is to be baked, as it is told to the sandbox: plain data that goes there as JSON."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class BakeOrder:
    """Packages for a tree, and the programs that it is to have in its `bin`. `pip_program` is pip itself, as a file.

    `workshop` is a folder for what does not stay. `node` and `patcher` are packages that bring the programs.
    """

    tree: str
    workshop: str
    title: str
    pip_program: str
    npm: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    programs: dict[str, str] = field(default_factory=dict)
    musl_programs: dict[str, str] = field(default_factory=dict)
    node: str = ""
    patcher: str = ""

    @property
    def packages(self) -> Path:
        """Where npm puts packages."""
        return Path(self.tree, "node_modules")

    @property
    def scripts(self) -> Path:
        """Where pip puts programs."""
        return Path(self.tree, "env/bin")

    def to_text(self) -> str:
        """The order as JSON."""
        return json.dumps(asdict(self))


def read_order(path: Path) -> BakeOrder:
    """The order in a file."""
    said: dict[str, Any] = json.loads(path.read_text())
    return BakeOrder(**{**said, "npm": tuple(said["npm"]), "pip": tuple(said["pip"])})
