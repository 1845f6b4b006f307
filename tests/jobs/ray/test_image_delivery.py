"""Images of the coordinator on nodes with stores of their own; also the tests of offered_images and node_images."""

import asyncio
import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import SandboxError
from seatrial.images.config import ImageDocument, Layers, host_platform
from seatrial.images.store import Store
from seatrial.jobs.ray import remote_node
from seatrial.jobs.ray.offered_images import OfferedImages, open_offered_images, references_of
from seatrial.jobs.ray.remote_node import ImageDelivery
from seatrial.jobs.ray.runner import NodeFiles, NodeImages, Runner
from seatrial.model.events import Notice
from seatrial.model.job import TrialOptions
from seatrial.tasks.layout import digest_folder
from seatrial.tasks.load import load_task
from seatrial.trial.spec import TrialSpec
from tests.images.support import add, archive, entry, needs_root, run
from tests.jobs.ray.fake_cluster import FakeLink
from tests.jobs.ray.pools import Pool
from tests.jobs.ray.test_runner import within
from tests.jobs.samples import NOOP, Watcher

pytestmark = needs_root


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_node, "PIECE_BYTES", 1000)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The coordinator's store, with two images on the same base."""
    root = tmp_path_factory.mktemp("coordinator")

    async def fill(store: Store) -> None:
        base = await add(store, archive([entry("bin/sh", content=os.urandom(20_000), mode=0o755)]))
        for name in ("app-1", "app-2"):
            top = await add(store, archive([entry("etc/name", content=name.encode())]))
            store.put_image(document(base.digest, top.digest), f"{name}:latest", manifest=f"sha256:{'7' * 64}")

    run(fill, root)
    return root


def document(*layers: str) -> ImageDocument:
    usual = host_platform()
    return ImageDocument(architecture=usual.architecture, os=usual.os, rootfs=Layers(diff_ids=layers))


@pytest.fixture
def make_trial(make_task):
    """A trial of a task in an image: `make_trial("app-1")`."""

    def make(image: str, /, files: dict[str, str] | None = None, **options: Any) -> TrialSpec:
        root = make_task(image, toml=f'[environment]\ndocker_image = "{image}"\n', files=files)
        trial = TrialOptions(**options)
        return TrialSpec(f"{image}.noop.1", load_task(root), digest_folder(root), NOOP, options=trial)

    return make


def has(root: Path, name: str) -> dict[str, Any]:
    """What a store has under a name: the image, what the registry calls it, and the files of its topmost layer."""

    async def look(store: Store) -> dict[str, Any]:
        found = store.find(name)
        if found is None:
            return {}
        top = store.image(found).layers[-1]
        return {
            "digest": found.digest,
            "manifest": found.names[0].manifest,
            "files": {path.name: path.read_text() for path in top.rglob("*") if path.is_file()},
        }

    return run(look, root)


def left_over(node) -> list[str]:
    """What lies around of things that were on their way."""
    aside = list((node.state_folder / "files").rglob("*.tar.zst"))
    sessions = [path for path in (node.cache or node.state_folder / "cache").glob("sessions/*/*") if path.is_dir()]
    return [path.name for path in (*aside, *sessions)]


async def run_all(folder: Path, nodes, specs, here: Path):
    """Run trials one after the other, each on every node."""
    test = Pool(folder, *nodes)
    async with open_offered_images(root=here) as images, test.open(images=images) as pool:
        while len(pool.reports) < len(nodes):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0)
        names = frozenset(node.name for node in nodes)
        for spec in specs:
            for name in sorted(names):
                await test.run(spec, avoid=names - {name})


def test_an_image_is_sent_once_and_layers_that_a_node_has_are_not(make_node, make_trial, here, tmp_path):
    one, two = (make_node(name, backend="embedded") for name in ("one", "two"))
    specs = [make_trial("app-1"), make_trial("app-1"), make_trial("app-2")]
    within(run_all(tmp_path / "first", [one, two], specs, here))
    for node in (one, two):
        assert has(node.state_folder / "cache", "app-1") == has(here, "app-1")
        assert has(node.state_folder / "cache", "docker.io/library/app-2") == has(here, "app-2")
        base = max(node.received, key=lambda digest: node.received[digest])
        assert 20_000 < node.received[base] < 30_000  # once, though two images are on it
        assert len(node.received) == 5
        assert left_over(node) == []
    again = make_node("one", backend="embedded")
    within(run_all(tmp_path / "second", [again], specs, here))
    assert not again.received


class Together(FakeLink):
    """Answers two questions at the same time, before anything is sent."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._both = asyncio.Barrier(2)

    async def lacks(self, needs: Sequence[bytes]) -> list[str]:
        missing = await super().lacks(needs)
        await self._both.wait()
        return missing


def test_what_images_share_is_sent_once_also_at_the_same_time(make_node, make_trial, here):
    node, told = make_node(), Watcher()

    async def scene() -> None:
        runner = Runner(node.state_folder, node.open_trials, NodeImages(node.state_folder / "cache"))
        node.runners.append(runner)
        async with open_offered_images(root=here) as images:
            delivery = ImageDelivery("one", Together(node, runner), images, told)
            await asyncio.gather(*(delivery.deliver(make_trial(name)) for name in ("app-1", "app-2")))
        await runner.close()

    within(scene())
    assert max(node.received.values()) < 30_000
    assert sorted(notice.text for notice in told.of(Notice)) == [
        f"node one gets the image docker.io/library/{name}:latest (2 layers)" for name in ("app-1", "app-2")
    ]
    assert has(node.state_folder / "cache", "app-2") == has(here, "app-2")


def test_nothing_is_sent_where_the_disk_is_shared(make_node, make_trial, here, tmp_path):
    node = make_node(backend="embedded", cache=here)
    within(run_all(tmp_path, [node], [make_trial("app-1")], here))
    assert not node.received


def test_the_daemon_of_a_node_gets_its_images_by_itself(make_node, make_trial, here, tmp_path):
    node = make_node(backend="docker")
    within(run_all(tmp_path, [node], [make_trial("app-1")], here))
    assert not node.received
    assert not (node.state_folder / "cache").exists()


def test_a_name_means_on_a_node_what_it_means_here(make_node, make_trial, here, tmp_path):
    node = make_node(backend="embedded")

    async def fill(store: Store) -> None:
        layer = await add(store, archive([entry("etc/name", content=b"an older one")]))
        store.put_image(document(layer.digest), "app-1")

    run(fill, node.state_folder / "cache")
    within(run_all(tmp_path, [node], [make_trial("app-1")], here))
    assert has(node.state_folder / "cache", "app-1") == has(here, "app-1")


def test_what_is_not_in_our_store_is_the_nodes_business(make_node, make_trial, here, tmp_path):
    for number, (image, root) in enumerate((("app-3", here), ("app-1", tmp_path / "no-store"))):
        node = make_node(backend="embedded")
        within(run_all(tmp_path / str(number), [node], [make_trial(image)], root))
        assert not node.received
        assert node.run.ran == [f"{image}.noop.1"]
    assert not (tmp_path / "no-store").exists()


def test_a_layer_that_changes_on_its_way_is_refused_and_nothing_of_it_stays(
    make_node, make_trial, here, tmp_path, monkeypatch
):
    node = make_node(backend="embedded")
    receive = NodeFiles.receive

    def garbled(self, digest: str, offset: int, piece: bytes) -> None:
        receive(self, digest, offset, piece[:-1] + b"?" if offset else piece)

    monkeypatch.setattr(NodeFiles, "receive", garbled)
    with pytest.raises(SandboxError, match=r"node one could not take the image docker\.io/library/app-1:latest: "):
        within(run_all(tmp_path, [node], [make_trial("app-1")], here))
    assert has(node.state_folder / "cache", "app-1") == {}
    assert left_over(node) == []
    assert not node.run.ran


def test_a_node_without_room_fails_the_trial_and_drops_what_it_has_of_the_layer(
    make_node, make_trial, here, tmp_path, monkeypatch
):
    node, archives = make_node(backend="embedded"), []
    receive = NodeFiles.receive

    def full(self, digest: str, offset: int, piece: bytes) -> None:
        receive(self, digest, offset, piece)
        archives.append(self.archive(digest))
        if offset >= 5000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def scene() -> list[bool]:
        test = Pool(tmp_path, node)
        async with open_offered_images(root=here) as images, test.open(images=images):
            with pytest.raises(SandboxError, match=r"node one could not take the image .*No space left"):
                await test.run(make_trial("app-1"))
            there = [path.exists() for path in archives]
            monkeypatch.setattr(NodeFiles, "receive", receive)
            await test.run(make_trial("app-1"))
            return there

    monkeypatch.setattr(NodeFiles, "receive", full)
    assert not any(within(scene()))
    assert has(node.state_folder / "cache", "app-1") == has(here, "app-1")


def test_a_layer_is_packed_once_for_all_who_want_it_at_the_same_time(make_trial, here):
    async def scene() -> tuple[set[Path], list[Path]]:
        async with open_offered_images(root=here) as images:
            (offer,) = images.needed_by(make_trial("app-1"))
            async with images.packed(offer.layers[0]) as one, images.packed(offer.layers[0]) as two:
                assert one.path.exists()
            return {one.path, two.path}, list(here.glob("sessions/*/*/*.tar.zst"))

    paths, left = within(scene())
    assert (len(paths), left) == (1, [])


def test_what_a_trial_may_ask_for(make_trial):
    own = {"environment/Dockerfile": "FROM debian:12\n"}
    assert list(references_of(make_trial("app-1", own))) == ["app-1"]
    assert list(references_of(make_trial("app-1", own, build="always"))) == ["debian:12"]
    mapped = make_trial("app-1", image_map={"app-*": "app-2", "python:*": "app-3"})
    assert list(references_of(mapped, ("python:3.11", "host"))) == ["app-2", "app-3"]
    assert list(references_of(make_trial("app-1", image="host"))) == []


def test_a_verifiers_own_image_is_needed_too(make_task):
    root = make_task(
        toml='[environment]\ndocker_image = "app-1"\n[verifier]\nenvironment_mode = "separate"\n',
        files={"tests/Dockerfile": "FROM app-2\n"},
    )
    spec = TrialSpec("task.noop.1", load_task(root), digest_folder(root), NOOP)
    assert list(references_of(spec)) == ["app-1", "app-2"]


def test_a_program_that_needs_no_images_opens_no_store(make_trial, tmp_path):
    async def scene() -> object:
        images = OfferedImages(root=tmp_path / "none")
        needed = images.needed_by(make_trial("app-1", image="host"))
        await images.close()
        return needed

    assert within(scene()) == ()
    assert not (tmp_path / "none").exists()
