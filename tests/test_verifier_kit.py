"""The verifier kit as a file that strangers copy: nothing but the standard library, old Pythons, exact copies."""

import ast
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from seatrial import verifier_kit as kit
from tests.conftest import REPOSITORY

SOURCE = Path(kit.__file__)
COPIES = sorted((REPOSITORY / "examples" / "tasks").glob("*/tests/verifier_kit.py"))


def test_it_imports_only_the_standard_library():
    imported = set()
    for node in ast.walk(ast.parse(SOURCE.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import would break in the copy"
            imported.add((node.module or "").partition(".")[0])
    assert imported
    assert imported <= sys.stdlib_module_names


def test_it_is_written_in_the_language_of_python_3_8():
    ast.parse(SOURCE.read_text(encoding="utf-8"), feature_version=(3, 8))


@pytest.mark.parametrize("copy", COPIES, ids=lambda path: path.parts[-3])
def test_the_examples_use_exact_copies(copy: Path):
    assert copy.read_bytes() == SOURCE.read_bytes()


def test_every_example_brings_a_copy():
    tasks = {path.parent for path in (REPOSITORY / "examples" / "tasks").glob("*/task.toml")}
    assert {copy.parents[1] for copy in COPIES} == tasks


def run_copy(folder: Path, script: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Run a verifier beside its copy of the kit, with `folder` as the root of everything it reads and writes."""
    (folder / "verifier_kit.py").write_bytes(SOURCE.read_bytes())
    (folder / "verify.py").write_text(script, encoding="utf-8")
    command = [sys.executable, *options, str(folder / "verify.py")]
    return subprocess.run(command, env={"KIT_ROOT": str(folder)}, capture_output=True, check=False)


def test_it_runs_in_an_isolated_interpreter_without_site_packages(tmp_path: Path):
    done = run_copy(
        tmp_path,
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n"
        "import verifier_kit as kit\n"
        "kit.run(lambda: [kit.compare('drop', '9400 mV', 9.4, rel=0.005, unit='V'), kit.check('ok', False)])\n",
        "-I",
        "-S",
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads((tmp_path / "logs/verifier/reward.json").read_bytes()) == {"reward": 0.5}


def test_the_example_in_its_docstring_works(tmp_path: Path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/report.md").write_text('The drop:\n\n```json\n{"drop_v": 4.21}\n```\n', encoding="utf-8")
    shown = [line for line in (kit.__doc__ or "").splitlines() if line.startswith("    ")]
    done = run_copy(tmp_path, textwrap.dedent("\n".join(shown)))
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads((tmp_path / "logs/verifier/reward.json").read_bytes()) == {"reward": 1.0}
