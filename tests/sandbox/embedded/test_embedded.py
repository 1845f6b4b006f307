"""The embedded backend keeps the contract: as root in both modes, on nothing but busybox, and as an ordinary user."""

import os
import pwd
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.sandbox.api import Image, SandboxBackend, SandboxSpec
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from tests.conftest import REPOSITORY
from tests.everybody import python_for_everybody
from tests.sandbox.embedded.support import needs_root
from tests.sandbox.kept_backend import KeptBackendContract

USER_PATIENCE_SEC = 280  # a whole suite, on a machine that others use too
BUSYBOX = shutil.which("busybox")


def is_static(program: str) -> bool:
    """Whether a program names no loader: only such a one runs where there are no libraries."""
    data = Path(program).read_bytes()
    (first,) = struct.unpack_from("=Q", data, 32)
    size, count = struct.unpack_from("=2H", data, 54)
    return 3 not in (struct.unpack_from("=I", data, first + index * size)[0] for index in range(count))


@pytest.mark.whole
@needs_root
class TestShiftedIntoAUserNamespace(KeptBackendContract):
    def make_backend(self) -> SandboxBackend:
        return EmbeddedBackend("userns")


@needs_root
class TestAsRoot(KeptBackendContract):
    def make_backend(self) -> SandboxBackend:
        return EmbeddedBackend("root")


@pytest.mark.whole
@needs_root
@pytest.mark.skipif(BUSYBOX is None or not is_static(BUSYBOX), reason="no static busybox: install busybox-static")
class TestNothingButBusybox(KeptBackendContract):
    """No libraries, no /etc, no Python: whatever is needed has to be loaded before the root changes."""

    layer: Path

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def make_layer(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        assert BUSYBOX
        cls.layer = tmp_path_factory.mktemp("busybox")
        programs = cls.layer / "bin"
        programs.mkdir()
        shutil.copy(BUSYBOX, programs / "busybox")
        for name in subprocess.check_output([BUSYBOX, "--list"], text=True).split():
            if name != "busybox":
                (programs / name).symlink_to("busybox")

    def make_backend(self) -> SandboxBackend:
        return EmbeddedBackend("userns")

    def make_spec(self) -> SandboxSpec:
        return SandboxSpec(image=Image("busybox", (self.layer,)))


@pytest.fixture
def user() -> Iterator[tuple[str, Path]]:
    """An ordinary user with a directory to write to; both are gone afterwards."""
    name = f"seatrial-{os.getpid()}"
    subprocess.run(["useradd", "--no-create-home", "--shell", "/bin/sh", name], check=True, capture_output=True)
    with tempfile.TemporaryDirectory(prefix="seatrial-user-", ignore_cleanup_errors=True) as folder:
        try:
            account = pwd.getpwnam(name)
            os.chown(folder, account.pw_uid, account.pw_gid)
            yield name, Path(folder)
        finally:
            subprocess.run(["userdel", name], check=True, capture_output=True)


def run_contract_as(name: str, folder: Path, *, path: str, expect: str) -> str:
    """The output of the contract in `user_contract.py`, run by a user whose PATH is `path`."""
    module = Path(__file__).with_name("user_contract.py")
    command = [python_for_everybody(folder), "-m", "pytest", "-p", "no:cacheprovider", "-n0", "-q", str(module)]
    own = {"HOME": folder, "TMPDIR": folder, "SEATRIAL_STATE_DIR": folder / "state", "USERS_EXPECTED": expect}
    env = {**own, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(
        command, user=name, group=name, extra_groups=[], env={key: str(value) for key, value in env.items()},
        cwd=REPOSITORY, capture_output=True, text=True, timeout=USER_PATIENCE_SEC, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert list((folder / "state").iterdir()) == []
    return result.stdout


def passed(output: str) -> int:
    found = re.search(r"(\d+) passed", output)
    return int(found[1]) if found else 0


@pytest.mark.whole
@needs_root
@pytest.mark.timeout(300)
@pytest.mark.skipif(not shutil.which("newuidmap"), reason="no newuidmap: install uidmap")
def test_an_ordinary_user_with_a_range_of_ids_keeps_the_contract(user: tuple[str, Path]) -> None:
    output = run_contract_as(*user, path=os.environ["PATH"], expect="many")
    assert passed(output) > 40, output


@pytest.mark.whole
@needs_root
@pytest.mark.timeout(300)
def test_an_ordinary_user_with_one_id_keeps_the_contract(user: tuple[str, Path]) -> None:
    output = run_contract_as(*user, path="/nonexistent", expect="one")
    assert passed(output) > 40, output
