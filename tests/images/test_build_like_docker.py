"""The same Dockerfile built by us and by Docker gives the same files and the same configuration."""

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from seatrial.images.archives import load_images
from tests.docker_daemon import engine_endpoint, needs
from tests.images.building.support import BASE, base_archive, look_at, with_builder

pytestmark = needs("docker")

DOCKERFILE = r"""
# escape=\
ARG TAG=1
FROM seatrial-like:${TAG} AS tools
ARG WORD=tool
RUN mkdir /out && echo "echo $WORD" > /out/tool && chmod 4755 /out/tool && ln -s tool /out/alias && chown -R 7:8 /out
RUN ln /out/tool /out/twin && mkdir -m 711 /out/folder && echo x > /out/folder/x

FROM seatrial-like:$TAG
MAINTAINER somebody
ARG WORD
ARG MODE=640
ENV GREETING="hello world" PLACE=/srv/place
ENV OLD a b  c
LABEL one=1 "two words"="$GREETING" three=${MISSING:-default}
RUN mkdir -p /kept/sub /dir/linked && chmod 700 /kept/sub && chown 5:5 /kept/sub && echo old > /kept/a.txt \
    # a comment in between
    && ln -s /dir/linked /link && echo t > /target && ln -s /target /file-link && rm /bin/yes
COPY . /all
COPY a.txt sub/s.txt /several/
COPY sub /kept/sub
COPY sub /link/new/
COPY a.txt /file-link
COPY link-to-a /follow/
COPY *.txt missing* /globbed/
COPY --chown=alice:staff sub /owned/deep/
COPY --chmod=600 a.txt /mode/
COPY --from=tools /out /opt/tools
COPY --from=0 /out/alias /opt/followed
ADD archive.tar.gz /unpacked/
ADD a.txt /added
USER alice
WORKDIR $PLACE
RUN echo "$GREETING $WORD $MODE $HOME $(pwd) $(id -u):$(id -g)" > said.txt
WORKDIR below
USER root
RUN ["/bin/sh", "-c", "rm -r /all/empty; mv /all/sub /all/moved; echo \"$0\" > /exec-form"]
SHELL ["/bin/busybox", "ash", "-c"]
RUN echo $0 > /shell
RUN rm -r /opt/tools/folder && mkdir /opt/tools/folder && echo new > /opt/tools/folder/new
EXPOSE 80 53/udp
VOLUME /data
STOPSIGNAL SIGINT
HEALTHCHECK --interval=5s --retries=2 CMD true
ONBUILD RUN true
ENTRYPOINT ["/bin/sh"]
CMD echo $GREETING
"""


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """Files of every kind that a context can have."""
    folder = tmp_path / "context"
    for name in ("sub/deep", "empty", "ignored/kept"):
        (folder / name).mkdir(parents=True)
    for name in ("a.txt", "b.txt", "sub/s.txt", "sub/deep/d.txt", "ignored/x", "ignored/kept/y", "sub/debug.log"):
        (folder / name).write_text(name)
    (folder / "a.txt").chmod(0o640)
    (folder / "b.txt").chmod(0o4755)
    (folder / "sub").chmod(0o750)
    (folder / "link-to-a").symlink_to("a.txt")
    (folder / "sub/dangling").symlink_to("/nowhere")
    os.link(folder / "b.txt", folder / "sub/hard")
    (folder / ".dockerignore").write_text("Dockerfile\n*/*.log\nignored\n!ignored/kept\n.dockerignore\n")
    (folder / "Dockerfile").write_text(DOCKERFILE)
    _write_archive(folder / "archive.tar.gz")
    return folder


def _write_archive(path: Path) -> None:
    with tarfile.open(path, "w:gz") as tar:
        member = tarfile.TarInfo("packed")
        member.type, member.mode, member.uid, member.gid = tarfile.DIRTYPE, 0o700, 77, 88
        tar.addfile(member)
        link = tarfile.TarInfo("packed/link")
        link.type, link.linkname = tarfile.SYMTYPE, "../elsewhere"
        tar.addfile(link)


def _docker(endpoint: str | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DOCKER_HOST": f"unix://{endpoint}", "DOCKER_BUILDKIT": "1"}
    return subprocess.run([_client(), *arguments], env=environment, capture_output=True, text=True, check=False)


def _client() -> str:
    """Debian's client, which needs no plug-in to build, before any other."""
    return (
        shutil.which("docker", path="/usr/bin") or shutil.which("docker") or pytest.skip("no docker: install docker.io")
    )


def test_files_and_configuration_are_the_same(context: Path, tmp_path: Path):
    endpoint = engine_endpoint("docker").socket

    async def scene(builder):
        builder.store.name_image(builder.store.find(BASE).digest, "seatrial-like:1")
        (tmp_path / "base.tar").write_bytes(base_archive())
        assert _docker(endpoint, "import", str(tmp_path / "base.tar"), "seatrial-like:1").returncode == 0
        command = ["build", "--network", "none", "--build-arg", "WORD=given", "-t", "seatrial-theirs:1", str(context)]
        made = _docker(endpoint, *command)
        if "buildx" in made.stderr:
            pytest.skip("no docker that builds: install docker.io")
        assert made.returncode == 0, made.stderr
        saved = tmp_path / "saved.tar"
        assert _docker(endpoint, "save", "-o", str(saved), "seatrial-theirs:1").returncode == 0
        (theirs,) = await load_images(builder.store, saved)
        ours = await builder.build(context, arguments={"WORD": "given"})
        return ours.stored, theirs, look_at(ours.image), look_at(builder.store.image(theirs))

    ours, theirs, our_files, their_files = with_builder(tmp_path / "store", scene)
    assert _differences(our_files, their_files) == {}
    assert _settings(ours) == _settings(theirs)


def _differences(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    # Docker makes these for its own mounts; ours come with the sandbox.
    of_the_machine = {
        f"/{name}" for name in ("proc", "sys", "dev", "etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/mtab")
    }
    paths = {path for path in (*ours, *theirs) if path not in of_the_machine and not path.startswith("/dev/")}
    return {path: (ours.get(path), theirs.get(path)) for path in sorted(paths) if ours.get(path) != theirs.get(path)}


def _settings(image: Any) -> dict[str, Any]:
    whole = json.loads(image.document.model_dump_json(by_alias=True))
    config = {
        key: value
        for key, value in whole["config"].items()
        if value and key not in ("Image", "ArgsEscaped", "Hostname")
    }
    return {"author": whole.get("author"), "os": whole["os"], "architecture": whole["architecture"], **config}
