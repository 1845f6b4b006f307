"""The store: what is found again, what a sandbox gets, and what is left after a crash."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from seatrial.errors import HostUnsupportedError, ImageError
from seatrial.images.cache import cache_root
from seatrial.images.config import ImageDocument, Layers, Settings, parse_platform
from seatrial.images.store import Store, open_store
from tests.images.support import add, archive, entry, look, needs_root, run

pytestmark = needs_root

EMPTY = "sha256:" + "0" * 64


def document(*layers: str, **settings: object) -> ImageDocument:
    config = Settings.model_validate(settings)
    return ImageDocument(architecture="amd64", os="linux", config=config, rootfs=Layers(diff_ids=layers))


async def put(store: Store, name: str, text: str = "text"):
    layer = await add(store, archive([entry("file", content=text.encode())]))
    return store.put_image(document(layer.digest), name)


def test_an_image_is_found_by_every_name_it_has(tmp_path):
    async def scene(store):
        image = await put(store, "python:3.11")
        store.name_image(image.digest, "ghcr.io/team/app")
        names = ["python:3.11", "docker.io/library/python:3.11", "ghcr.io/team/app:latest", image.digest]
        found = [store.find(name) for name in [*names, image.digest[7:19], "python:3.12", EMPTY]]
        return image, found, store.images()

    image, found, listed = run(scene, tmp_path)
    assert [each and each.digest for each in found] == [image.digest] * 5 + [None] * 2
    assert [[named.reference for named in each.names] for each in (found[2], found[3], *listed)] == [
        ["ghcr.io/team/app:latest"],
        [],
        ["docker.io/library/python:3.11", "ghcr.io/team/app:latest"],
    ]


def test_another_process_finds_it_too(tmp_path):
    image = run(lambda store: put(store, "app"), tmp_path)

    async def scene(store):
        return store.image(store.find("app")), store.images()

    given, images = run(scene, tmp_path)
    assert given.digest == images[0].digest == image.digest
    assert (given.layers[0] / "file").read_text() == "text"


def test_an_image_of_another_platform_does_not_count(tmp_path):
    async def scene(store):
        await put(store, "app")
        return store.find("app", parse_platform("arm64")), store.find("app", parse_platform("linux/amd64"))

    other, own = run(scene, tmp_path)
    assert other is None
    assert own is not None


def test_a_sandbox_gets_what_the_image_says(tmp_path):
    async def scene(store):
        layer = await add(store, archive([entry("file")]))
        settings = {"Env": ["PATH=/a:/b", "X=1=2", "bad"], "WorkingDir": "/w", "User": "al:staff", "Entrypoint": ["e"]}
        return store.image(store.put_image(document(layer.digest, Cmd=["c"], **settings), "app"))

    config = run(scene, tmp_path).config
    assert config.env == {"PATH": "/a:/b", "X": "1=2", "bad": ""}
    assert (config.workdir, config.user, config.entrypoint, config.command) == ("/w", "al:staff", ("e",), ("c",))


def test_a_layer_that_hides_all_below_is_the_lowest(tmp_path):
    async def scene(store):
        names = (["one"], ["two", ".wh..wh..opq"], ["three"])
        layers = [(await add(store, archive([entry(name) for name in each]))).digest for each in names]
        return store.image(store.put_image(document(*layers), "app"))

    assert [sorted(look(path)) for path in run(scene, tmp_path).layers] == [["two"], ["three"]]


def test_an_image_without_its_layers_is_refused(tmp_path):
    async def scene(store):
        store.put_image(document(EMPTY), "app")

    with pytest.raises(ImageError, match=EMPTY):
        run(scene, tmp_path)


def test_a_layer_with_another_digest_is_refused_and_not_kept(tmp_path):
    with pytest.raises(ImageError, match=f"expected {EMPTY}"):
        run(lambda store: add(store, archive([entry("x")]), digest=EMPTY), tmp_path)
    assert list((tmp_path / "layers").iterdir()) == []


def test_a_directory_becomes_a_layer(tmp_path):
    async def scene(store):
        tree = store.new_tree()
        tree.mkdir()
        (tree / "file").write_text("text")
        first = await store.add_tree(tree, EMPTY)
        again = store.new_tree()
        again.mkdir()
        return first, await store.add_tree(again, EMPTY), store.layer(EMPTY)

    first, second, found = run(scene, tmp_path)
    assert first == second == found
    assert (first.about.size, first.about.entries, (first.path / "file").read_text()) == (4, 1, "text")


def test_the_same_layer_twice_at_the_same_time(tmp_path):
    async def scene(store):
        raw = archive([entry("file", content=b"x" * 100_000)])
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(add(store, raw)) for _ in range(4)]
        return {task.result().path for task in tasks}

    (path,) = run(scene, tmp_path)
    assert (path / "file").stat().st_size == 100_000
    assert list((tmp_path / "sessions").iterdir()) == []


CRASHING = """
import asyncio, os, sys, tarfile
from pathlib import Path
from seatrial.images.store import open_store

async def main():
    async with open_store(Path(sys.argv[1])) as store:
        tree = store.new_tree()
        tree.mkdir()
        (tree / "file").write_text("half")
        print("ready", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


def test_what_a_killed_process_left_is_swept_and_never_seen(tmp_path):
    command = [sys.executable, "-c", CRASHING, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"

        async def scene(store):
            before = await store.sweep()
            os.kill(process.pid, signal.SIGKILL)
            await asyncio.to_thread(process.wait)
            return before, await store.sweep(), list((tmp_path / "layers").iterdir())

        assert run(scene, tmp_path) == (0, 1, [])
    assert list((tmp_path / "sessions").iterdir()) == []


def test_a_cancelled_unpacking_leaves_nothing(tmp_path):
    async def scene(store):
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb") as source, os.fdopen(writer, "wb") as feed:
            feed.write(archive([entry("file", content=b"x" * 2000)])[:1500])
            feed.flush()
            task = asyncio.ensure_future(store.add_layer(source))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return list((tmp_path / "layers").iterdir())

    assert run(scene, tmp_path) == []
    assert list((tmp_path / "sessions").iterdir()) == []


def test_others_cannot_look_into_it(tmp_path):
    tmp_path.chmod(0o755)
    run(lambda store: asyncio.sleep(0), tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["with:colon", "with,comma"])
def test_a_place_that_overlays_cannot_take_is_refused(tmp_path, name):
    with pytest.raises(HostUnsupportedError, match="SEATRIAL_CACHE"):
        Store(tmp_path / name)


def test_where_it_is(monkeypatch, tmp_path):
    monkeypatch.delenv("SEATRIAL_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / ".cache/seatrial"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_root() == tmp_path / "x/seatrial"
    monkeypatch.setenv("SEATRIAL_CACHE", str(tmp_path / "y"))
    assert cache_root() == tmp_path / "y"


def test_work_is_for_one_at_a_time_across_processes(tmp_path):
    """Two stores stand for two processes: a lock on a file does not know the difference."""
    order: list[str] = []

    async def work(name: str, started: asyncio.Event, go_on: asyncio.Event) -> None:
        async with open_store(tmp_path) as store, store.working_on("something"):
            order.append(f"{name} in")
            started.set()
            await go_on.wait()
            order.append(f"{name} out")

    async def play() -> None:
        events = [asyncio.Event() for _ in range(4)]
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            group.create_task(work("first", events[0], events[1]))
            await events[0].wait()
            group.create_task(work("second", events[2], events[3]))
            events[3].set()
            await asyncio.sleep(0)
            events[1].set()

    asyncio.run(play())
    assert order == ["first in", "first out", "second in", "second out"]
    assert list((tmp_path / "locks").iterdir()) == []


def test_whoever_waits_for_work_can_be_cancelled(tmp_path):
    async def play() -> None:
        async with open_store(tmp_path) as one, open_store(tmp_path) as other:
            async with one.working_on("x"):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05), other.working_on("x"):
                        pytest.fail("two at a time")
            async with asyncio.timeout(30), other.working_on("x"):
                pass

    asyncio.run(play())


def test_what_a_power_cut_left_half_written_is_not_there(tmp_path):
    image = run(lambda store: put(store, "app"), tmp_path)
    for path in (tmp_path / "layers" / image.layers[0][7:] / "about.json", next((tmp_path / "references").iterdir())):
        path.write_bytes(b"")

    async def scene(store):
        assert store.find("app") is None
        assert store.find(image.digest) is None
        return await put(store, "app")

    assert run(scene, tmp_path).digest == image.digest
    assert list((tmp_path / "sessions").iterdir()) == []
