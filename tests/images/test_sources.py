"""The images of the embedded backend for real: pulled from a registry here, built, and an agent set up on top."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest

from seatrial.errors import BuildError, ImageFetchError, OversizeError
from seatrial.images.archives import load_images
from seatrial.images.choice import ImagePolicy, ImageRequest, Setup
from seatrial.images.sources import StoreSource
from seatrial.images.store import Store, open_store
from seatrial.model.events import Notice, unobserved
from seatrial.sandbox.api import ExecSpec, Image, SandboxSpec, open_sandbox
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.transfer import pack_files
from seatrial.sandbox.trust import WayOut
from tests.images.support import archive, entry, folder, link, needs_root

BUSYBOX = shutil.which("busybox")
pytestmark = [
    needs_root,
    pytest.mark.skipif(BUSYBOX is None, reason="no busybox: install busybox-static"),
]
POLICY = ImagePolicy()
T = TypeVar("T")


class Bench:
    """A source with a small image in its store, and how often its backend made a sandbox."""

    def __init__(self, source: StoreSource, store: Store, backend: EmbeddedBackend) -> None:
        self.source = source
        self.plain_source = StoreSource(store, backend)
        self.said: list[str] = []
        self._backend = backend

    def observe(self, notice: Notice) -> None:
        self.said.append(notice.text)

    async def run(self, image: Image, script: str, user: str | None = None) -> str:
        async with open_sandbox(self._backend, SandboxSpec(image=image, workdir="/place")) as sandbox:
            result = await sandbox.exec(ExecSpec(("/bin/sh", "-c", script), user=user))
            return (result.stdout + result.stderr).decode()


def on_bench(tmp_path: Path, work: Callable[[Bench], Awaitable[T]], ca_file: str | None = None) -> T:
    program = Path(BUSYBOX or "").read_bytes()
    tools = [link(f"bin/{name}", "busybox") for name in ("sh", "cat", "echo", "id", "mkdir", "ls")]
    passwd = entry("etc/passwd", content=b"root:x:0:0::/root:/bin/sh\nal:x:1000:1000::/:/bin/sh\n")
    small = [folder("bin"), entry("bin/busybox", content=program, mode=0o755), *tools, passwd, folder("opt")]
    (tmp_path / "small.tar").write_bytes(archive(small))

    async def play() -> T:
        async with (
            asyncio.timeout(60),
            open_store(tmp_path / "store") as store,
            EmbeddedBackend() as backend,
        ):
            await load_images(store, tmp_path / "small.tar", "test/small:1")
            return await work(Bench(StoreSource(store, backend, WayOut(ca_file)), store, backend))

    return asyncio.run(play())


def write_dockerfile(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "environment/Dockerfile"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_an_image_of_the_store_is_there_and_others_are_missed_by_name(tmp_path):
    async def work(bench: Bench) -> str:
        with pytest.raises(ImageFetchError, match=r"nobody/none:7 cannot be pulled: .*SEATRIAL_OFFLINE.*--image host"):
            await bench.source.fetch("nobody/none:7", bench.observe)
        return await bench.run(await bench.source.fetch("test/small:1", bench.observe), "echo here")

    assert on_bench(tmp_path, work) == "here\n"


def test_a_dockerfile_is_built_with_its_folder_as_the_context_and_the_map_counts_for_its_base(tmp_path):
    dockerfile = write_dockerfile(tmp_path, "FROM real:1\nCOPY note /opt/note\nRUN echo more >> /opt/note\nUSER al\n")
    (dockerfile.parent / "note").write_text("a note\n")

    async def work(bench: Bench) -> tuple[str, list[str]]:
        policy = ImagePolicy(mapped={"real:*": "test/small:1"})
        image = await bench.source.build(ImageRequest(dockerfile=dockerfile), policy, bench.observe)
        return await bench.run(image, "cat /opt/note; id -u"), bench.said

    said, lines = on_bench(tmp_path, work)
    assert said == "a note\nmore\n1000\n"
    assert lines == [f"building {dockerfile}"]


def test_this_machine_stands_in_for_a_base_that_cannot_be_had_where_the_run_says_so(tmp_path):
    dockerfile = write_dockerfile(tmp_path, "FROM python:3.99\nRUN echo built > /opt/note\n")
    request = ImageRequest(dockerfile=dockerfile)

    async def work(bench: Bench) -> tuple[str, list[str]]:
        with pytest.raises(ImageFetchError, match=r"python:3\.99 cannot be pulled"):
            await bench.source.build(request, ImagePolicy(fallback="refuse"), unobserved)
        image = await bench.source.build(request, POLICY, bench.observe)
        assert not image.reproducible
        return await bench.run(image, "cat /opt/note"), bench.said

    said, lines = on_bench(tmp_path, work)
    assert said == "built\n"
    assert f"{dockerfile} is built on this machine's own system instead, which is not reproducible" in lines


def test_certificates_are_there_while_a_build_runs_and_in_no_layer(tmp_path):
    block = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    (tmp_path / "ca.pem").write_text(block)
    dockerfile = write_dockerfile(tmp_path, "FROM test/small:1\nRUN cat $SSL_CERT_FILE > /opt/seen\n")
    request = ImageRequest(dockerfile=dockerfile)

    async def work(bench: Bench) -> tuple[str, str]:
        image = await bench.source.build(request, POLICY, bench.observe)
        found_in_cache = await bench.plain_source.build(request, POLICY, bench.observe)
        assert found_in_cache.layers == image.layers
        setup = await bench.source.extend(image, Setup("cat $PIP_CERT >> /opt/seen"), bench.observe)
        return await bench.run(setup, "cat /opt/seen"), await bench.run(setup, "ls -a /")

    seen, root = on_bench(tmp_path, work, str(tmp_path / "ca.pem"))
    assert seen == block * 2
    assert ".seatrial-scripts" not in root


@pytest.mark.parametrize("line", ["FROM /etc", "FROM host", "FROM test/small:1\nCOPY --from=/etc passwd /x"])
def test_a_dockerfile_takes_nothing_from_a_folder_of_this_machine(tmp_path, line):
    dockerfile = write_dockerfile(tmp_path, line)

    async def work(bench: Bench) -> None:
        with pytest.raises(BuildError, match=r"Dockerfile: '.*' is .*, which no task may name"):
            await bench.source.build(ImageRequest(dockerfile=dockerfile), POLICY, bench.observe)

    on_bench(tmp_path, work)


def test_a_context_that_is_too_large_is_not_read(tmp_path):
    dockerfile = write_dockerfile(tmp_path, "FROM test/small:1\nCOPY . /x\n")
    (dockerfile.parent / "node_modules").mkdir()
    with (dockerfile.parent / "node_modules/huge").open("wb") as file:
        file.truncate(2**40)

    async def work(bench: Bench) -> None:
        with pytest.raises(OversizeError, match=r"1,024\.0 GiB, the limit is 4\.0 GiB"):
            await bench.source.build(ImageRequest(dockerfile=dockerfile), POLICY, bench.observe)

    on_bench(tmp_path, work)


def test_links_in_a_context_lead_nowhere_out_of_it(tmp_path):
    (tmp_path / "secret").write_text("secret")
    dockerfile = write_dockerfile(tmp_path, "FROM test/small:1\nCOPY node_modules/x /x\n")
    (dockerfile.parent / "node_modules").mkdir()
    (dockerfile.parent / "node_modules/x").symlink_to(tmp_path / "secret")

    async def work(bench: Bench) -> None:
        with pytest.raises(BuildError, match=r"is a link to .*secret, and that is not in the build context"):
            await bench.source.build(ImageRequest(dockerfile=dockerfile), POLICY, bench.observe)

    on_bench(tmp_path, work)


def test_a_build_that_fails_says_where(tmp_path):
    dockerfile = write_dockerfile(tmp_path, "FROM test/small:1\nRUN echo oh no; false\n")

    async def work(bench: Bench) -> None:
        with pytest.raises(BuildError, match=r"(?s)Dockerfile:2: RUN: it ended with exit code 1.*oh no"):
            await bench.source.build(ImageRequest(dockerfile=dockerfile), POLICY, bench.observe)

    on_bench(tmp_path, work)


def test_an_agent_is_set_up_once_as_root_and_commands_run_as_before(tmp_path):
    dockerfile = write_dockerfile(tmp_path, "FROM test/small:1\nUSER al\nENV WHO=al\n")

    async def work(bench: Bench) -> tuple[str, list[str]]:
        image = await bench.source.build(ImageRequest(dockerfile=dockerfile), POLICY, bench.observe)
        setup = "echo installed by $(id -u) for $WHO > /opt/agent"
        first = await bench.source.extend(image, Setup(setup), bench.observe)
        again = await bench.source.extend(image, Setup(setup), bench.observe)
        assert first == again
        assert first.digest != image.digest
        other = await bench.source.extend(image, Setup("echo other > /opt/agent"), bench.observe)
        return await bench.run(first, "cat /opt/agent; id -u") + await bench.run(other, "cat /opt/agent"), bench.said

    said, lines = on_bench(tmp_path, work)
    assert said == "installed by 0 for al\n1000\nother\n"
    assert [line.partition(":")[0] for line in lines[1:]] == ["setting up", "setting up"]


def test_a_setup_that_fails_is_the_setups_fault(tmp_path):
    async def work(bench: Bench) -> None:
        image = await bench.source.fetch("test/small:1", bench.observe)
        with pytest.raises(BuildError, match=r"(?s)the agent's setup failed on test/small:1: .*exit code 3.*no such"):
            await bench.source.extend(image, Setup("echo no such package; exit 3"), bench.observe)

    on_bench(tmp_path, work)


def test_a_set_up_finds_the_agent_s_files_and_is_done_again_for_others(tmp_path):
    async def work(bench: Bench) -> list[str]:
        image = await bench.source.fetch("test/small:1", bench.observe)
        said = []
        for word in ("one", "two", "one"):
            setup = Setup("cat /agent/word >> /opt/words", (word,), partial(pack_files, {"agent/word": word.encode()}))
            ready = await bench.source.extend(image, setup, bench.observe)
            said.append(await bench.run(ready, "cat /opt/words /agent/word"))
        return [*said, str(len(bench.said))]

    assert on_bench(tmp_path, work) == ["oneone", "twotwo", "oneone", "2"]


def test_an_agent_can_be_set_up_on_this_machines_own_system(tmp_path):
    async def work(bench: Bench) -> str:
        image = await bench.source.extend(Image("host", base="host"), Setup("echo agent > /opt/agent"), bench.observe)
        return await bench.run(image, "cat /opt/agent")

    assert on_bench(tmp_path, work) == "agent\n"
