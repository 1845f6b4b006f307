"""What steps of builds have come to: found again, forgotten with their layers."""

import asyncio

from seatrial.images.building.step_cache import StepCache, make_key
from seatrial.images.store import Store
from tests.images.support import add, archive, entry, needs_root, run

pytestmark = needs_root


def test_a_key_tells_everything_apart():
    keys = [
        make_key("a", "b"),
        make_key("ab"),
        make_key(["a"], "b"),
        make_key("a", None),
        make_key("a"),
        make_key({"a": "b"}),
    ]
    assert len(set(keys)) == len(keys)
    assert make_key({"x": 1, "y": 2}) == make_key({"y": 2, "x": 1})


def test_a_step_is_done_once_and_again_when_its_layer_is_gone(tmp_path):
    async def scene(store: Store):
        cache, made = StepCache(store), []

        async def make():
            made.append(1)
            await asyncio.sleep(0)
            return await add(store, archive([entry("file")]))

        async def nothing() -> None:
            made.append(1)

        first, second = await cache.layer("k", make), await cache.layer("k", make)
        assert (first.cached, second.cached, first.layer) == (False, True, second.layer)
        assert [(await cache.layer("empty", nothing)).cached for _ in range(2)] == [False, True]
        assert len(made) == 2
        assert first.layer
        cache.log_of("k").touch()
        first.layer.path.parent.rename(tmp_path / "pruned")
        assert cache.forget_lost() == 1
        assert not cache.log_of("k").exists()
        assert not (await cache.layer("k", make)).cached
        (store.root / "builds/k.json").write_text("{")
        assert cache.forget_lost() == 1

    run(scene, tmp_path / "store")


def test_work_that_fails_is_not_remembered(tmp_path):
    async def scene(store: Store):
        async def fail() -> None:
            raise ValueError

        for _ in range(2):
            try:
                await StepCache(store).layer("k", fail)
            except ValueError:
                continue
            raise AssertionError
        assert list((store.root / "locks").iterdir()) == []

    run(scene, tmp_path / "store")
