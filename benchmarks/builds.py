"""The same Dockerfile built by us and by `docker build`, from nothing and once more, taking turns in one run."""

import asyncio
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.sandbox_docker import DockerError, make_busybox_root
from seatrial.images.archives import load_images
from seatrial.images.build import BuildMeans, BuildSpec, build_image
from seatrial.images.platforms import Platform
from seatrial.images.store import open_store
from seatrial.images.stored import StoredImage
from seatrial.sandbox.api import NO_NETWORK, SandboxBackend
from seatrial.sandbox.embedded.backend import EmbeddedBackend

ROUNDS = 3
BASE = "seatrial-benchmark-base:1"
DOCKERFILE = f"""FROM {BASE}
ENV GREETING=hello
WORKDIR /app
COPY requirements.txt .
RUN echo "$GREETING" > installed && cat requirements.txt >> installed
COPY . /app
RUN echo built > /app/done
USER root
CMD ["/bin/sh"]
"""
# Debian's client builds without a plug-in.
_CLIENT = shutil.which("docker", path="/usr/bin") or shutil.which("docker")


@dataclass(slots=True)
class BuildTimes:
    """Seconds of every round; Docker's are empty where it cannot build."""

    ours_cold: list[float] = field(default_factory=list)
    ours_cached: list[float] = field(default_factory=list)
    docker_cold: list[float] = field(default_factory=list)
    docker_cached: list[float] = field(default_factory=list)

    def report(self) -> str:
        """Medians and ratios, a line each."""
        lines = []
        for name in ("cold", "cached"):
            ours, docker = getattr(self, f"ours_{name}"), getattr(self, f"docker_{name}")
            ratio = (
                f", docker build {median(docker) * 1000:7.1f} ms: {median(docker) / median(ours):.1f} times"
                if docker
                else ""
            )
            lines.append(f"build, {name:6}: {median(ours) * 1000:7.1f} ms{ratio}")
        return "\n".join(lines)


async def measure_builds(socket: Path | None, rounds: int = ROUNDS) -> BuildTimes:
    """Build again and again, with a Docker daemon if its socket is given. Raises DockerError."""
    times = BuildTimes()
    with tempfile.TemporaryDirectory(prefix="seatrial-builds-") as scratch:
        folder = Path(scratch)
        context, base = _make_context(folder / "context"), _make_base(folder)
        if socket is not None:
            _docker(socket, "import", str(base), BASE)
        async with EmbeddedBackend() as backend:
            for number in range(rounds):
                await _measure_ours(times, backend, folder / f"store-{number}", base, context)
                if socket is not None:
                    _measure_docker(times, socket, context)
        if socket is not None:
            _docker(socket, "image", "prune", "--all", "--force")
    return times


async def _measure_ours(times: BuildTimes, backend: SandboxBackend, root: Path, base: Path, context: Path) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[SandboxBackend]:
        yield backend

    async with open_store(root) as store:
        await load_images(store, base, BASE)

        async def resolve(name: str, _: Platform) -> StoredImage:
            found = store.find(name)
            assert found is not None
            return found

        means = BuildMeans(store, resolve, opened)
        for seconds in (times.ours_cold, times.ours_cached):
            started = time.perf_counter()
            await build_image(BuildSpec(context, network=NO_NETWORK), means)
            seconds.append(time.perf_counter() - started)


def _measure_docker(times: BuildTimes, socket: Path, context: Path) -> None:
    for seconds, options in ((times.docker_cold, ["--no-cache"]), (times.docker_cached, [])):
        started = time.perf_counter()
        _docker(socket, "build", "--network", "none", "-q", *options, str(context))
        seconds.append(time.perf_counter() - started)


def _docker(socket: Path, *arguments: str) -> None:
    if _CLIENT is None:
        raise DockerError("there is no docker to build with (Debian: apt-get install docker.io)")
    environment = {**os.environ, "DOCKER_HOST": f"unix://{socket}", "DOCKER_BUILDKIT": "0"}
    done = subprocess.run([_CLIENT, *arguments], env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DockerError(f"docker {arguments[0]}: {done.stderr.strip()}")


def _make_context(folder: Path) -> Path:
    (folder / "src").mkdir(parents=True)
    (folder / "Dockerfile").write_text(DOCKERFILE)
    (folder / "requirements.txt").write_text("one\ntwo\n")
    for number in range(50):
        (folder / f"src/file{number}.py").write_text(f"x = {number}\n" * 50)
    return folder


def _make_base(folder: Path) -> Path:
    make_busybox_root(folder / "root")
    with tarfile.open(folder / "base.tar", "w") as tar:
        tar.add(folder / "root", ".")
    return folder / "base.tar"


def main() -> None:
    given = os.environ.get("DOCKER_HOST", "").removeprefix("unix://")
    print(asyncio.run(measure_builds(Path(given) if given else None)).report())


if __name__ == "__main__":
    main()
