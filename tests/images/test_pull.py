"""Pulling from a registry over real sockets: what is fetched, what is refused, and what happens on bad days."""

import asyncio
import base64
import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import ImageError, ImageFetchError
from seatrial.images.cache import LayerProgress
from seatrial.images.config import host_platform, parse_platform
from seatrial.images.pull import PullOptions, pull_image
from seatrial.images.registry import RegistryOptions
from seatrial.images.store import Store, open_store
from seatrial.testing.registry import Compression, Registry, digest, pack, serve
from tests.images.support import TIMEOUT_SEC, needs_root

pytestmark = needs_root

ONE = pack({"bin/tool": b"#!/bin/sh\n", "etc/name": b"one"})
TWO = pack({"etc/name": b"two", "data": os.urandom(300_000)})
CONFIG = {"Env": ["A=b"], "WorkingDir": "/w"}
Scene = Callable[[Registry, Store, PullOptions], Awaitable[Any]]


def play(scene: Scene, tmp_path: Path, registry: Registry | None = None) -> Any:
    """Run a scene with a registry and a store; waiting takes no time, and nobody is logged in anywhere."""

    async def run() -> Any:
        environ = {"DOCKER_CONFIG": str(tmp_path), "PATH": os.environ["PATH"]}
        options = PullOptions(environ=environ, registries=RegistryOptions(), wait=lambda _: asyncio.sleep(0))
        opened = serve(registry or Registry())
        async with asyncio.timeout(TIMEOUT_SEC), opened as served, open_store(tmp_path / "store") as store:
            return await scene(served, store, options)

    return asyncio.run(run())


def log_in(tmp_path: Path, registry: Registry, user: str = "al", word: str = "sesame") -> None:
    auth = base64.b64encode(f"{user}:{word}".encode()).decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {registry.address: {"auth": auth}}}))


def stored(tmp_path: Path) -> list[str]:
    return sorted(
        path.name for folder in ("layers", "images", "sessions") for path in (tmp_path / "store" / folder).iterdir()
    )


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd"])
def test_an_image_comes_and_is_not_fetched_again(tmp_path, compression: Compression):
    async def scene(registry, store, options):
        manifest = registry.push("team/app:1", [ONE, TWO], config=CONFIG, compression=compression)
        name = f"{registry.address}/team/app:1"
        first = await pull_image(store, name, options)
        asked = len(registry.requests)
        second = await pull_image(store, name, options)
        assert len(registry.requests) == asked
        await pull_image(store, name, replace(options, policy="always"))
        assert registry.fetched("blobs") == 1 + 2 + 1  # the configuration again, no layer
        return manifest, first, second, store.image(first)

    manifest, first, second, image = play(scene, tmp_path)
    assert first.digest == second.digest
    assert first.names[0].manifest == manifest
    assert [(layer / "etc/name").read_text() for layer in image.layers] == ["one", "two"]
    assert (image.config.env, image.config.workdir) == ({"A": "b"}, "/w")
    assert list((tmp_path / "store/blobs").iterdir()) == []


def test_a_tag_that_means_another_image_by_now(tmp_path):
    async def scene(registry, store, options):
        name = f"{registry.address}/app"
        registry.push("app", [ONE])
        old = await pull_image(store, name, options)
        registry.push("app", [TWO])
        assert (await pull_image(store, name, options)).digest == old.digest
        new = await pull_image(store, name, replace(options, policy="always"))
        assert new.digest != old.digest
        assert store.find(name).digest == new.digest
        assert [len(image.names) for image in store.images()] == [1, 0]

    play(scene, tmp_path)


def test_the_image_for_a_platform(tmp_path):
    async def scene(registry, store, options):
        there = {}
        for name in ("linux/amd64", "linux/arm64/v8", "linux/arm/v7"):
            words = dict(zip(("os", "architecture", "variant"), name.split("/"), strict=False))
            there[name] = registry.push(
                f"app:{name.replace('/', '-')}", [pack({"arch": name.encode()})], platform=words
            )
        index = registry.push_index("app:1", there)
        for wanted, expected in (("arm64", "linux/arm64/v8"), ("arm/v7", "linux/arm/v7"), ("amd64", "linux/amd64")):
            image = await pull_image(
                store, f"{registry.address}/app:1", replace(options, platform=parse_platform(wanted))
            )
            assert (store.image(image).layers[0] / "arch").read_text() == expected
            assert image.names[0].manifest == index
        with pytest.raises(ImageError, match=r"no image for linux/s390x; there are: linux/amd64, linux/arm/v7"):
            await pull_image(store, f"{registry.address}/app:1", replace(options, platform=parse_platform("s390x")))
        assert (
            await pull_image(store, f"{registry.address}/app@{index}", options)
        ).document.platform.usual == host_platform().usual

    play(scene, tmp_path)


@pytest.mark.parametrize("access", ["basic", "token"])
def test_a_registry_that_wants_to_know_who_we_are(tmp_path, access):
    async def scene(registry, store, options):
        registry.push("app", [ONE])
        name = f"{registry.address}/app"
        with pytest.raises(ImageError, match="docker login") as refused:
            await pull_image(store, name, options)
        assert "anonymous" in str(refused.value)
        log_in(tmp_path, registry, word="wrong")
        with pytest.raises(ImageError, match="does not let us have it"):
            await pull_image(store, name, options)
        log_in(tmp_path, registry)
        assert (await pull_image(store, name, options)).layers == (digest(ONE),)

    play(scene, tmp_path, Registry(access=access, accounts={"al": "sesame"}))


def test_an_anonymous_token_is_asked_for_once(tmp_path):
    async def scene(registry, store, options):
        registry.push("app", [ONE, TWO])
        await pull_image(store, f"{registry.address}/app", options)
        assert registry.fetched("token") == 1

    play(scene, tmp_path, Registry(access="token"))


def test_credentials_are_not_shown_to_whoever_a_registry_sends_us_to(tmp_path):
    async def scene(registry, store, options):
        registry.push("app", [ONE])
        log_in(tmp_path, registry)
        async with serve(Registry(blobs=registry.blobs)) as other:
            registry.faults.redirect_to = other.address
            await pull_image(store, f"{registry.address}/app", options)
            assert other.fetched("blobs") == 2
            assert {shown for _, _, shown in other.requests} == {None}
        assert [shown for _, _, shown in registry.requests if shown]

    play(scene, tmp_path, Registry(access="basic", accounts={"al": "sesame"}))


@pytest.mark.parametrize("no_ranges", [False, True])
def test_a_cut_connection_is_gone_on_with(tmp_path, no_ranges):
    async def scene(registry, store, options):
        registry.push("app", [TWO], compression="none")
        registry.faults.cut_after = [100_000, 50_000] if not no_ranges else [100_000]
        registry.faults.no_ranges = no_ranges
        image = await pull_image(store, f"{registry.address}/app", options)
        assert registry.fetched("blobs") == 1 + (2 if no_ranges else 3)
        return store.image(image).layers[0]

    assert (play(scene, tmp_path) / "etc/name").read_text() == "two"


def test_another_pull_goes_on_with_what_one_left(tmp_path):
    async def scene(registry, store, options):
        registry.push("app", [TWO], compression="none")
        registry.faults.cut_after = [100_000, *[0] * 20]
        with pytest.raises(ImageFetchError, match=r"100000 of \d+ bytes are kept"):
            await pull_image(store, f"{registry.address}/app", options)
        registry.faults.cut_after = []
        heard: list[LayerProgress] = []
        await pull_image(store, f"{registry.address}/app", options, heard.append)
        assert min(event.done for event in heard if event.state == "fetching") > 100_000

    play(scene, tmp_path)


def test_a_part_that_is_not_the_beginning_of_the_blob_is_not_trusted(tmp_path):
    async def scene(registry, store, options):
        registry.push("app", [TWO], compression="none")
        (store.blobs / f"{digest(TWO)[7:]}.part").write_bytes(b"something else")
        assert (await pull_image(store, f"{registry.address}/app", options)).layers == (digest(TWO),)

    play(scene, tmp_path)


@pytest.mark.parametrize("which", [0, 1])
def test_a_corrupted_blob_is_refused_and_nothing_is_kept(tmp_path, which):
    async def scene(registry, store, options):
        registry.push("app", [TWO], compression="none")
        blob = [digest(TWO), next(each for each in registry.blobs if each != digest(TWO))][which]
        registry.faults.corrupt = {blob}
        with pytest.raises(ImageError, match=f"something else for {blob}|what came for {blob}"):
            await pull_image(store, f"{registry.address}/app", options)
        assert all(path.stat().st_size == 0 for path in store.blobs.iterdir())
        assert store.images() == []

    play(scene, tmp_path)
    assert stored(tmp_path) == []


def test_a_manifest_that_is_not_the_one_asked_for_is_refused(tmp_path):
    async def scene(registry, store, options):
        registry.push("app:1", [ONE])
        asked = registry.push("app:2", [TWO])
        registry.manifests["app", asked] = registry.manifests["app", "1"]
        with pytest.raises(ImageError, match=f"what came for {asked}"):
            await pull_image(store, f"{registry.address}/app@{asked}", options)

    play(scene, tmp_path)


def test_a_layer_that_is_not_what_the_configuration_says_is_refused(tmp_path):
    """The registry may be honest about its blobs while the image lies about its layers."""

    async def scene(registry, store, options):
        registry.push("app", [ONE])
        document = {"rootfs": {"diff_ids": [digest(TWO)]}, "os": "linux", "architecture": host_platform().architecture}
        layer, config = registry._add(ONE), registry._add(json.dumps(document).encode())
        registry.put_manifest("app", {"schemaVersion": 2, "config": config, "layers": [layer]})
        with pytest.raises(ImageError, match=f"expected {digest(TWO)}, found {digest(ONE)}"):
            await pull_image(store, f"{registry.address}/app", options)

    play(scene, tmp_path)
    assert stored(tmp_path) == []


def test_a_busy_registry_is_asked_again_after_what_it_says(tmp_path):
    waits = []

    async def wait(seconds):
        waits.append(seconds)

    async def scene(registry, store, options):
        registry.push("app", [ONE])
        registry.faults.statuses = [503, 429]
        await pull_image(store, f"{registry.address}/app", replace(options, wait=wait))

    play(scene, tmp_path)
    assert len(waits) == 2
    assert all(1.0 <= wait <= 1.1 for wait in waits)


def test_a_registry_that_stays_busy_is_given_up(tmp_path):
    async def scene(registry, store, options):
        registry.push("app", [ONE])
        registry.faults.statuses = [503] * 50
        with pytest.raises(ImageFetchError, match="answered 503; tried 6 times") as failed:
            await pull_image(store, f"{registry.address}/app", options)
        assert failed.value.retryable

    play(scene, tmp_path)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"schemaVersion": 1, "fsLayers": []}, "schema 1"),
        ({"schemaVersion": 2}, "not an image"),
        ({"config": {"digest": "x", "size": 1}, "layers": []}, "usable digest"),
        ({"config": {"digest": "sha256:" + "0" * 64, "size": -1}, "layers": []}, "usable digest"),
        ({"manifests": []}, "there is no image for"),
        ({"manifests": [1]}, "usable digest"),
    ],
)
def test_what_is_not_an_image(tmp_path, document, reason):
    async def scene(registry, store, options):
        registry.put_manifest("app", document)
        with pytest.raises(ImageError, match=reason) as refused:
            await pull_image(store, f"{registry.address}/app", options)
        assert not refused.value.retryable

    play(scene, tmp_path)


def test_no_such_image_is_told_with_what_was_tried_and_what_to_do(tmp_path):
    async def scene(registry, store, options):
        with pytest.raises(ImageError, match="nowhere:1 cannot be pulled") as refused:
            await pull_image(store, f"{registry.address}/nowhere:1", options)
        return registry.address, str(refused.value)

    address, message = play(scene, tmp_path)
    for word in (address, "manifest unknown", "anonymous", "images load", "SEATRIAL_MIRRORS", "--image host"):
        assert word in message


def test_a_registry_that_is_not_there(tmp_path):
    async def scene(registry, store, options):
        with pytest.raises(ImageFetchError, match=r"cannot be reached.*tried 3 times"):
            await pull_image(store, "127.0.0.1:1/app", options)

    play(scene, tmp_path)


def test_a_mirror_is_asked_first_and_the_registry_when_it_does_not_have_it(tmp_path):
    async def scene(registry, store, options):
        registry.push("library/app", [ONE])
        async with serve(Registry()) as empty:
            mirrors = {"docker.io": (empty.address, f"http://{registry.address}")}
            options = replace(options, registries=RegistryOptions(mirrors))
            image = await pull_image(store, "app", options)
            assert empty.fetched("manifests") == 1
        assert image.names[0].reference == "docker.io/library/app:latest"
        assert registry.fetched("manifests") == 1

    play(scene, tmp_path)


def test_two_at_the_same_time_fetch_once(tmp_path):
    """Two stores stand for two processes; the second image shares a layer."""

    async def scene(registry, store, options):
        registry.push("one", [ONE, TWO])
        registry.push("two", [ONE])
        async with open_store(tmp_path / "store") as other, asyncio.TaskGroup() as group:
            for each in (store, other):
                for name in ("one", "one", "two"):
                    group.create_task(pull_image(each, f"{registry.address}/{name}", options))
        assert registry.fetched("blobs") == 2 + 2  # two configurations, two layers

    play(scene, tmp_path)
    assert list((tmp_path / "store/locks").iterdir()) == []


def test_what_is_heard_on_the_way(tmp_path):
    async def scene(registry, store, options):
        registry.push("app", [TWO], compression="none")
        heard: list[LayerProgress] = []
        name = f"{registry.address}/app"
        await pull_image(store, name, options, heard.append)
        states = list(dict.fromkeys(event.state for event in heard))
        assert states == ["waiting", "fetching", "unpacking", "ready"]
        assert {event.total for event in heard} == {len(TWO)}
        assert heard[-1].done == len(TWO)
        heard.clear()
        await pull_image(store, name, replace(options, policy="always"), heard.append)
        assert [event.state for event in heard] == ["present"]

    play(scene, tmp_path)


def test_a_cancelled_pull_leaves_what_can_be_gone_on_with_and_nothing_else(tmp_path):
    async def scene(registry, store, options):
        registry.push("app", [ONE, TWO])
        seen = asyncio.Event()
        pulling = asyncio.ensure_future(
            pull_image(store, f"{registry.address}/app", options, lambda event: seen.set() if event.done else None)
        )
        await seen.wait()
        pulling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pulling
        assert store.images() == []
        await pull_image(store, f"{registry.address}/app", options)

    play(scene, tmp_path)
    assert list((tmp_path / "store/sessions").iterdir()) == list((tmp_path / "store/locks").iterdir()) == []


def test_a_store_that_takes_nothing_is_told_with_its_place(tmp_path):
    async def scene(registry, store, options):
        registry.push("app", [ONE])
        store.blobs.rmdir()
        with pytest.raises(ImageFetchError, match=f"cannot be stored in {store.root}"):
            await pull_image(store, f"{registry.address}/app", options)

    play(scene, tmp_path)
