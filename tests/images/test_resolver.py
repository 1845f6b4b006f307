"""Each image once, however many ask; what replaces what is said."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from seatrial.errors import BuildError, HostUnsupportedError, ImageError, ImageFetchError
from seatrial.images.choice import ImagePolicy, ImageRequest, Setup
from seatrial.images.resolver import ImageResolver, open_resolver
from seatrial.model.events import Notice, Observer
from seatrial.sandbox.api import HOST_IMAGE, Image

POLICY = ImagePolicy()


class Shelf:
    """A source that has what is on it, and counts how often it is asked."""

    def __init__(self, *names: str, missing: type[ImageError] = ImageFetchError, has_host: bool = True) -> None:
        self.has_host = has_host
        self.names = set(names)
        self.asked: Counter[str] = Counter()
        self.gate = asyncio.Event()
        self.gate.set()
        self._missing = missing

    async def fetch(self, reference: str, observe: Observer[Notice]) -> Image:
        self.asked[reference] += 1
        observe(Notice(f"pulling {reference}"))
        await self.gate.wait()
        if reference not in self.names:
            raise self._missing(f"{reference} is not here")
        return Image(reference, (Path("/layer"),))

    async def build(self, request: ImageRequest, policy: ImagePolicy, _: Observer[Notice]) -> Image:
        self.asked[request.title] += 1
        if policy.image != "auto":
            raise BuildError("line 1")
        return Image("built", (Path("/layer"),))

    async def extend(self, image: Image, setup: Setup, _: Observer[Notice]) -> Image:
        self.asked[str(setup.command)] += 1
        return Image(f"{image.reference}+{setup.command}", image.layers)


def resolve(source: Shelf | None, request: ImageRequest, policy: ImagePolicy = POLICY) -> tuple[Image, str, list[str]]:
    said: list[str] = []

    async def work() -> tuple[Image, str]:
        async with open_resolver(source, lambda notice: said.append(notice.text)) as images:
            found = await images.resolve(request, policy)
            return found.image, found.how

    image, how = asyncio.run(work())
    return image, how, said


def test_a_named_image_is_fetched_and_a_dockerfile_built():
    image, how, said = resolve(Shelf("debian:12"), ImageRequest("debian:12"))
    assert (image.reference, how, said) == ("debian:12", "fetch", ["pulling debian:12"])
    image, how, _ = resolve(Shelf(), ImageRequest(dockerfile=Path("/task/environment/Dockerfile")))
    assert (image.reference, how) == ("built", "build")


def test_host_and_directories_need_no_source():
    for source in (None, Shelf()):
        assert resolve(source, ImageRequest())[:2] == (HOST_IMAGE, "host")
        image, how, _ = resolve(source, ImageRequest("debian:12"), ImagePolicy("/roots/mine"))
        assert (image.layers, how) == ((Path("/roots/mine"),), "directory")


def test_this_machine_stands_in_for_python_that_cannot_be_had_and_says_so():
    image, how, said = resolve(Shelf(), ImageRequest("python:3.11-slim"))
    assert (image, how) == (HOST_IMAGE, "host")
    assert said[-2:] == [
        "python:3.11-slim is not here",
        "Tasks that ask for python:3.11-slim run on this machine's own system instead, which is not reproducible",
    ]


@pytest.mark.parametrize(
    ("source", "name", "policy"),
    [
        (Shelf(), "debian:12", POLICY),
        (Shelf(), "python:3.11-slim", ImagePolicy(fallback="refuse")),
        # It is there but not for us, or does not exist: that will not be mended by the weather.
        (Shelf(missing=ImageError), "python:3.11-slim", POLICY),
        (Shelf(has_host=False), "python:3.11-slim", POLICY),
    ],
)
def test_nothing_else_is_stood_in_for(source, name, policy):
    with pytest.raises(ImageError, match="is not here"):
        resolve(source, ImageRequest(name), policy)


def test_a_backend_without_images_runs_named_ones_here_and_builds_none():
    assert resolve(None, ImageRequest("debian:12"))[:2] == (HOST_IMAGE, "host")
    with pytest.raises(HostUnsupportedError, match="builds no images"):
        resolve(None, ImageRequest(dockerfile=Path("/task/environment/Dockerfile")))
    with pytest.raises(HostUnsupportedError, match="makes no images"):
        resolve(None, ImageRequest(setup=Setup("pip install agent")))


def test_an_agent_is_set_up_on_top_of_whatever_image_it_is():
    shelf = Shelf("debian:12")
    assert resolve(shelf, ImageRequest("debian:12", setup=Setup("install")))[0].reference == "debian:12+install"
    assert resolve(shelf, ImageRequest(setup=Setup("install")))[0].reference == "host+install"


def test_many_that_ask_for_an_image_cause_one_fetch_and_one_that_leaves_takes_nothing_along():
    shelf = Shelf("debian:12")

    async def work() -> list[str]:
        shelf.gate.clear()
        async with open_resolver(shelf) as images:
            ask = ImageRequest("debian:12")
            impatient = asyncio.ensure_future(images.resolve(ask, POLICY))
            others = [asyncio.ensure_future(images.resolve(ask, POLICY)) for _ in range(9)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            impatient.cancel()
            shelf.gate.set()
            return [found.image.reference for found in await asyncio.gather(*others)]

    assert asyncio.run(work()) == ["debian:12"] * 9
    assert shelf.asked == {"debian:12": 1}


def test_what_may_go_better_next_time_is_tried_again_and_what_will_not_is_not():
    weather, fault = Shelf(), Shelf(missing=ImageError)

    async def ask(images: ImageResolver) -> None:
        with pytest.raises(ImageError):
            await images.resolve(ImageRequest("debian:12"), POLICY)

    async def work() -> None:
        for source in (weather, fault):
            async with open_resolver(source) as images:
                await ask(images)
                await ask(images)

    asyncio.run(work())
    assert (weather.asked.total(), fault.asked.total()) == (2, 1)
