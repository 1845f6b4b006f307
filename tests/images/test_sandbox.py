"""Sandboxes from images: what the image says holds in them, for root and for ordinary users."""

import asyncio
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.errors import HostUnsupportedError
from seatrial.images.config import ImageDocument, Layers, Settings
from seatrial.images.store import Store, open_store
from seatrial.sandbox.api import ExecSpec, Image, SandboxSpec, open_sandbox
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from tests.conftest import REPOSITORY
from tests.everybody import python_for_everybody
from tests.images.support import add, archive, entry, folder, link, needs_root

BUSYBOX = shutil.which("busybox")
pytestmark = [
    needs_root,
    pytest.mark.skipif(BUSYBOX is None, reason="no busybox: install busybox-static"),
]
PASSWD = b"root:x:0:0::/root:/bin/sh\nal:x:1000:1000::/home/al:/bin/sh\n"


async def make_image(store: Store) -> Image:
    """A small system in two layers: the second takes things away and adds others."""
    program = Path(BUSYBOX or "").read_bytes()  # noqa: ASYNC240 - a test has nobody else to serve
    tools = [link(f"bin/{name}", "/bin/busybox") for name in ("sh", "id", "ls", "cat", "stat", "touch", "rm")]
    lower = [
        *(folder("bin"), folder("etc"), folder("tmp", mode=0o1777)),
        entry("bin/busybox", content=program, mode=0o755),
        *tools,
        entry("etc/passwd", content=PASSWD),
        entry("etc/group", content=b"root:x:0:\nal:x:1000:\n"),
        folder("home/al", uid=1000, gid=1000, mode=0o700),
        *(entry("old/gone"), entry("old/kept"), entry("replaced/old")),
        entry("opt/tools/hello", content=b"#!/bin/sh\necho hello $GREETING\n", mode=0o755),
    ]
    upper = [entry("old/.wh.gone"), folder("replaced"), entry("replaced/.wh..wh..opq"), entry("replaced/new")]
    digests = [(await add(store, archive(entries))).digest for entries in (lower, upper)]
    settings = Settings(env=("PATH=/bin:/opt/tools", "GREETING=world", "OVER=image"), working_dir="/home/al", user="al")
    document = ImageDocument(architecture="amd64", config=settings, rootfs=Layers(diff_ids=tuple(digests)))
    return store.image(store.put_image(document, "test/small:1"))


SCRIPT = (
    "id -u; id -g; echo $HOME; pwd; hello; echo $OVER; ls /old /replaced; stat -c %u:%a /home/al /tmp; touch /tmp/x"
)


async def look(mode: str, user: str | None, root: Path) -> list[str]:
    async with open_store(root / "store") as store, EmbeddedBackend(mode) as backend:  # type: ignore[arg-type]
        image = await make_image(store)
        spec = SandboxSpec(image=image, workdir=image.config.workdir or "/", env={"OVER": "spec"})
        async with open_sandbox(backend, spec) as sandbox:
            result = await sandbox.exec(ExecSpec(("sh", "-c", SCRIPT), user=user, timeout_sec=60))
            assert result.exit_code == 0, result
            assert (await sandbox.changes()).added == ("/tmp/x",)
            tree = store.new_tree()
            await sandbox.snapshot(tree)
            layer = await store.add_tree(tree, "sha256:" + "1" * 64)
            assert layer.about.entries > 0
            return result.stdout.decode().split()


def expected(user: str, owner: str) -> list[str]:
    home = "/home/al" if user == "1000" else "/root"
    files = ["/old:", "kept", "/replaced:", "new"]
    return [user, user, home, "/home/al", "hello", "world", "spec", *files, f"{owner}:700", "0:1777"]


@pytest.mark.parametrize("mode", ["userns", "root"])
@pytest.mark.parametrize(("user", "uid"), [(None, "1000"), ("root", "0"), ("1000:1000", "1000")])
def test_what_the_image_says_holds(tmp_path, mode, user, uid):
    assert asyncio.run(look(mode, user, tmp_path)) == expected(uid, "1000")


@pytest.fixture
def person() -> Iterator[tuple[str, Path]]:
    """An ordinary user with a directory of their own; both are gone afterwards."""
    name = f"seatrial-i{os.getpid()}"
    subprocess.run(["useradd", "--no-create-home", "--shell", "/bin/sh", name], check=True, capture_output=True)
    with tempfile.TemporaryDirectory(prefix="seatrial-user-") as place:
        try:
            account = pwd.getpwnam(name)
            os.chown(place, account.pw_uid, account.pw_gid)
            yield name, Path(place)
        finally:
            subprocess.run(["userdel", name], check=True, capture_output=True)


def run_as(name: str, place: Path, *, path: str, user: str) -> list[str]:
    """What the same look shows to an ordinary user, who then prunes everything."""
    own = {"HOME": place, "TMPDIR": place, "SEATRIAL_STATE_DIR": place / "state", "SEATRIAL_CACHE": place / "store"}
    env = {**{key: str(value) for key, value in own.items()}, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    python = python_for_everybody(place)
    for arguments in (
        [python, "-m", "tests.images.test_sandbox", user, BUSYBOX or ""],
        [python, "-m", "seatrial", "images", "prune", "--keep", "0"],
    ):
        done = subprocess.run(
            arguments, user=name, group=name, extra_groups=[], env=env, cwd=REPOSITORY, capture_output=True, text=True,
            timeout=100, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        if "tests" in arguments[2]:
            shown = done.stdout.split()
    assert not any(list(folder.iterdir()) for folder in (place / "store").glob("layers*"))
    return shown


@pytest.mark.skipif(not shutil.which("newuidmap"), reason="no newuidmap: install uidmap")
def test_an_ordinary_user_with_a_range_of_ids_has_the_same(person):
    name, place = person
    assert run_as(name, place, path=os.environ["PATH"], user="") == expected("1000", "1000")


def test_an_ordinary_user_with_one_id_has_one_owner_for_all(person):
    name, place = person
    assert run_as(name, place, path="/nonexistent", user="root") == expected("0", "0")


def test_with_one_id_a_user_of_the_image_is_refused_with_the_reason(person):
    name, place = person
    with pytest.raises(AssertionError, match="user 'al' cannot exist here"):
        run_as(name, place, path="/nonexistent", user="")


if __name__ == "__main__":
    BUSYBOX = sys.argv[2]
    try:
        print(*asyncio.run(look("auto", sys.argv[1] or None, Path(os.environ["HOME"]))))  # noqa: T201 - for the test
    except HostUnsupportedError as error:
        sys.exit(str(error))
