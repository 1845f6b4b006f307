"""Images a daemon is given, has already, and is asked to build or pull."""

import os
import stat
import tarfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from seatrial.errors import SandboxError
from seatrial.images.archives import load_images
from seatrial.images.store import open_store
from seatrial.sandbox.api import Image, ImageConfig, SandboxSpec, open_sandbox
from seatrial.sandbox.engine.images import (
    DaemonBuildSpec,
    Progress,
    build,
    identify,
    inspect,
    pack_layer,
    pull,
    save,
    split_reference,
)
from tests.docker_daemon import IMAGE, busybox_archive, needs
from tests.sandbox.embedded.support import needs_root
from tests.sandbox.engine.support import ask_daemon, run, sh


@pytest.fixture
def layers(tmp_path: Path) -> tuple[Path, Path]:
    """Two layers: busybox, and one that takes something away, hides a folder and adds a file with an owner."""
    lower, upper = tmp_path / "lower", tmp_path / "upper"
    with tarfile.open(fileobj=BytesIO(busybox_archive())) as tar:
        tar.extractall(lower)  # noqa: S202 - it is our own
    (lower / "data").mkdir()
    (lower / "data/old").write_text("old")
    (upper / "bin").mkdir(parents=True)
    os.mknod(upper / "bin/yes", stat.S_IFCHR, os.makedev(0, 0))
    (upper / "data").mkdir()
    os.setxattr(upper / "data", "trusted.overlay.opaque", b"y")
    (upper / "data/new").write_text("new")
    os.chown(upper / "data/new", 12, 34)
    os.link(upper / "data/new", upper / "data/twin")
    return lower, upper


@needs("docker")
@needs_root
def test_layers_of_ours_are_the_same_in_a_container(layers):
    async def work(backend):
        image = Image("ours", layers, config=ImageConfig(env={"GREETING": "hi you"}))
        async with open_sandbox(backend, SandboxSpec(image=image)) as sandbox:
            look = "echo $GREETING; ls /bin/yes 2>/dev/null; ls /data; stat -c '%u:%g %h' /data/new"
            assert await sh(sandbox, look) == "hi you\nnew\ntwin\n12:34 2\n"
            assert (await sandbox.changes()).removed == ()

    run(work)


@needs_root
def test_marks_of_removal_are_those_of_engines(layers):
    archive = BytesIO()
    pack_layer(layers[1], archive)
    with tarfile.open(fileobj=archive) as tar:
        assert {"bin/.wh.yes", "data/.wh..wh..opq", "data/new"} <= set(tar.getnames())
        assert "bin/yes" not in tar.getnames()


@needs_root
def test_an_image_is_known_again_by_its_content(layers):
    image = Image("ours", layers)
    first = identify(image)
    assert identify(replace(image, reference="called otherwise")) == first
    assert identify(replace(image, layers=layers[:1])) != first
    assert identify(replace(image, config=ImageConfig(env={"A": "1"}))) != first
    (layers[1] / "data/new").write_text("changed")
    assert identify(image) != first


@needs("docker")
def test_building_through_the_daemon(tmp_path):
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nARG WORD\nRUN echo $WORD >/said\nUSER 7\n")
    words: list[Progress] = []
    spec = DaemonBuildSpec(tmp_path, "seatrial-test-built:1", arguments={"WORD": "built"})
    ask_daemon(lambda client: build(client, spec, words.append))
    assert any("Step 3/4" in word.status for word in words)

    async def work(backend):
        async with open_sandbox(backend, SandboxSpec(image=Image(spec.name))) as sandbox:
            assert await sh(sandbox, "cat /said; id -u") == "built\n7\n"

    run(work)


@needs("docker")
def test_a_build_that_fails_says_why(tmp_path):
    (tmp_path / "Dockerfile").write_text(f"FROM {IMAGE}\nRUN echo oops; exit 3\n")
    with pytest.raises(SandboxError, match="returned a non-zero code: 3"):
        ask_daemon(lambda client: build(client, DaemonBuildSpec(tmp_path, "seatrial-test-failed:1")))


@needs("docker")
def test_the_same_image_is_not_handed_over_twice(layers):
    """One that the daemon got by itself has the same digest."""
    found = ask_daemon(lambda client: inspect(client, IMAGE))
    assert found is not None

    async def work(backend):
        image = Image("known", (layers[0],), digest=found["Id"])
        known = await backend._images.ensure(image)
        assert known.name == found["Id"]
        more = await backend._images.ensure(replace(image, layers=layers))
        assert more.name.startswith("seatrial-image:")

    run(work)


@needs("docker")
def test_an_image_that_the_daemon_has_can_be_had_from_it_and_is_known_again(tmp_path):
    async def work(backend):
        with (tmp_path / "saved.tar").open("wb") as file:
            await save(backend._client, IMAGE, file)
        async with open_store(tmp_path / "store") as store:
            (stored,) = await load_images(store, tmp_path / "saved.tar")
            image = store.image(stored)
            assert (image.layers[0] / "bin/busybox").is_file()
            assert (await backend._images.ensure(image)).name == image.digest

    run(work)


@needs("docker")
def test_pulling_what_cannot_be_had_is_an_error_with_the_daemon_s_words():
    with pytest.raises(SandboxError):
        ask_daemon(lambda client: pull(client, "localhost:1/no/such:1"))


@pytest.mark.parametrize(
    ("reference", "name", "tag"),
    [
        ("python", "python", "latest"),
        ("python:3.11-slim", "python", "3.11-slim"),
        ("localhost:5000/a/b", "localhost:5000/a/b", "latest"),
        ("localhost:5000/a/b:1", "localhost:5000/a/b", "1"),
        ("a/b@sha256:00", "a/b", "sha256:00"),
    ],
)
def test_references_as_engines_take_them(reference, name, tag):
    assert split_reference(reference) == (name, tag)
