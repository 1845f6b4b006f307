"""Root file systems from layers: many of them, oddly named ones, and ones made to lead us astray."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.errors import SandboxError
from seatrial.sandbox.api import HOST_IMAGE, Image, SandboxSpec, open_sandbox
from tests.conftest import sampled
from tests.sandbox.embedded.support import ask, in_both_modes, needs_root, run, shell

pytestmark = [needs_root, in_both_modes]

MakeLayer = Callable[..., Path]


@pytest.fixture
def make_layer(tmp_path: Path) -> MakeLayer:
    """A directory with the given files: `make_layer("name", {"app/file": "text"})`."""

    def make(name: str, files: dict[str, str]) -> Path:
        layer = tmp_path / name
        layer.mkdir(parents=True)
        for path, text in files.items():
            (layer / path).parent.mkdir(parents=True, exist_ok=True)
            (layer / path).write_text(text)
        return layer

    return make


def on_host(*layers: Path) -> SandboxSpec:
    return SandboxSpec(image=replace(HOST_IMAGE, reference="layered", layers=layers))


@pytest.mark.whole
def test_a_hundred_layers_with_long_names(mode, make_layer: MakeLayer, tmp_path: Path):
    """More than fits into the options of a mount; the last one is on top."""
    names = [f"{number:03}-{'long' * 40}" for number in range(100)]
    layers = [make_layer(name, {f"app/{name[:3]}": name[:3], "app/top": name[:3]}) for name in names]

    async def scene(backend):
        async with open_sandbox(backend, on_host(*layers)) as sandbox:
            assert await ask(sandbox, shell("ls | wc -l; cat top 000 099")) == "101\n099000099"

    run(scene, mode)


def test_layers_reach_into_the_folders_of_the_host_image(mode, make_layer: MakeLayer):
    layer = make_layer("layer", {"usr/local/bin/tool": "#!/bin/sh\necho works\n", "etc/setting": "x", "srv/data": "y"})
    (layer / "usr/local/bin/tool").chmod(0o755)

    async def scene(backend):
        async with open_sandbox(backend, on_host(layer)) as sandbox:
            assert await ask(sandbox, shell("tool; cat /etc/setting /srv/data")) == "works\nxy"
            assert (await sandbox.changes()).added == ()
            await ask(sandbox, shell("echo z >/etc/setting"))
            assert (await sandbox.changes()).modified == ("/etc/setting",)

    run(scene, mode)
    assert (layer / "etc/setting").read_text() == "x"


def test_a_layer_by_a_relative_path(mode, make_layer: MakeLayer, monkeypatch):
    """It means the directory it means to whoever says it."""
    layer = make_layer("upper", {"app/file": "right"})
    monkeypatch.chdir(layer.parent)

    async def scene(backend):
        async with open_sandbox(backend, on_host(Path("upper"))) as sandbox:
            assert await ask(sandbox, shell("cat file")) == "right"

    run(scene, mode)


@pytest.mark.parametrize(
    "name", sampled(["with:colon", "with,comma", "with\\backslash", "with space", "with\nline", "ünï ☃"])
)
def test_a_layer_with_an_odd_name_is_used_or_refused_by_name(mode, name, make_layer: MakeLayer):
    layer = make_layer(name, {"app/file": "right"})

    async def scene(backend):
        try:
            async with open_sandbox(backend, on_host(layer)) as sandbox:
                assert await ask(sandbox, shell("cat file")) == "right"
        except SandboxError as error:
            assert name in str(error) or repr(name)[1:-1] in str(error)

    run(scene, mode)


@pytest.mark.parametrize("name", sampled(["dev", "proc", "sys", "etc", "logs", "app", "usr", "root", "tmp"]))
@pytest.mark.parametrize("base", sampled(["host", "empty"]))
def test_an_image_with_a_link_for_a_folder_writes_nothing_elsewhere(mode, base, name, make_layer: MakeLayer, tmp_path):
    """Images come from strangers: a link in one means a path inside, while we build the root as well."""
    target = tmp_path / "target"
    target.mkdir()
    (target / "kept").write_text("kept")
    before = os.stat(target)  # noqa: PTH116 - for the comparison
    layer = make_layer("layer", {})
    (layer / name).symlink_to(target)

    async def scene(backend):
        try:
            async with open_sandbox(backend, SandboxSpec(image=Image("linked", (layer,), base))) as sandbox:
                if base == "host":
                    await sandbox.exec(shell(f"echo forged >/{name}/forged; echo forged >{target}/kept", cwd="/"))
        except SandboxError:
            return

    run(scene, mode, tmp_path)
    assert [path.name for path in target.iterdir()] == ["kept"]
    assert (target / "kept").read_text() == "kept"
    after = target.stat()
    assert (before.st_mode, before.st_uid, before.st_mtime_ns) == (after.st_mode, after.st_uid, after.st_mtime_ns)
