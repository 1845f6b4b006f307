"""A Docker daemon, and a Podman service, of the tests' own: all files in one place, one for all workers of a session.

The first who asks starts it and everybody uses it; it ends with the process of the session that all workers belong to,
whatever becomes of that. Nothing of the machine's own Docker is used or touched.
"""

import fcntl
import http.client
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from io import BytesIO
from pathlib import Path

import pytest

from seatrial.sandbox.engine.client import Endpoint, Engine

START_SEC = 40.0
STOP_SEC = 30.0
IMAGE = "seatrial-busybox:1"
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
# Made whatever directories the daemon is told to use.
_STRAYS = [Path(name) for name in ("/etc/docker/key.json", "/opt/containerd", "/run/containerd", "/run/docker")]
_CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=32768:32768"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


def busybox_archive() -> bytes:
    """The smallest useful root as an archive: one static busybox under all its names."""
    program = shutil.which("busybox", path=_PATH) or pytest.skip("no busybox: install busybox-static")
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in ("bin", "tmp", "root", "etc"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(folder)
        tar.add(program, "bin/busybox")
        for applet in subprocess.check_output([program, "--list"], text=True).split():
            if applet != "busybox":
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
    return packed.getvalue()


def why_no(engine: Engine) -> str | None:
    """Why no daemon can be started here, and what to install; None when it can."""
    if os.geteuid() != 0:
        return f"no {engine}: starting a daemon takes root"
    if shutil.which("busybox", path=_PATH) is None:
        return "no busybox: install busybox-static"
    if engine == "docker":
        return None if shutil.which("dockerd", path=_PATH) else "no dockerd: install docker.io"
    lacking = [name for name in ("podman", "runc") if shutil.which(name, path=_PATH) is None]
    return f"no {lacking[0]}: install {' and '.join(lacking)}" if lacking else None


def needs(engine: Engine) -> pytest.MarkDecorator:
    """A test of `make test-all`, skipped without an engine to start."""
    return pytest.mark.whole(why_no(engine))


def _session() -> int:
    """The process that all workers of a session belong to."""
    return os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()


@cache
def engine_endpoint(engine: Engine) -> Endpoint:
    """Where this session's daemon listens; it is started by whoever asks first. Skips the test if it does not start."""
    folder = Path(tempfile.gettempdir()) / f"seatrial-{engine}-{_session()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            _start(engine, folder)
    said = (folder / "ready").read_text()
    if said:
        pytest.skip(f"{engine} does not start here: {said}")
    return Endpoint(engine, str(folder / "socket"))


def _start(engine: Engine, folder: Path) -> None:
    """Start the keeper, a process that keeps the daemon as long as the session lives, and wait for its word."""
    arguments = [sys.executable, __file__, engine, str(folder), str(_session())]
    subprocess.run(arguments, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    assert in_time((folder / "ready").exists, START_SEC + STOP_SEC), f"{folder}/log"


def in_time(condition: Callable[[], object], seconds: float) -> bool:
    """Look again and again until something holds; whether it ever did."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def keep(engine: Engine, folder: Path, session: int) -> None:
    """Run a daemon until a process is gone, and clean up."""
    watched = os.pidfd_open(session)
    strays = [path for path in _STRAYS if not path.exists()]
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen(
            _command(engine, folder),
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env=_environment(folder),
            cwd=folder,  # something Podman starts writes where it is
        )
    try:
        problem = _await(daemon, folder) or _import_image(folder)
        (folder / "new").write_text(problem)
        (folder / "new").rename(folder / "ready")
        _wait_for_end(watched)
    finally:
        end(daemon, folder)
        for path in strays:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _command(engine: Engine, folder: Path) -> list[str]:
    program = shutil.which("dockerd" if engine == "docker" else "podman", path=_PATH)
    assert program is not None
    if engine == "podman":
        places = ["--root", f"{folder}/root", "--runroot", f"{folder}/run", "--tmpdir", f"{folder}/temporary"]
        kinds = ["--storage-driver", "overlay", "--cgroup-manager", "cgroupfs"]
        return [program, *places, *kinds, "system", "service", "--time=0", f"unix://{folder}/socket"]
    places = ["--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "-p", f"{folder}/pid"]
    network = ["--iptables=false", "--bridge=none", "--ip-forward=false"]
    return [program, *places, *network, "--cgroup-parent", f"/{folder.name}", "-H", f"unix://{folder}/socket"]


def _environment(folder: Path) -> dict[str, str]:
    conf = folder / "containers.conf"
    conf.write_text(_CONTAINERS_CONF)
    return {"PATH": _PATH, "HOME": str(folder), "TMPDIR": str(folder), "CONTAINERS_CONF": str(conf)}


class _Connection(http.client.HTTPConnection):
    """To a daemon's socket."""

    def __init__(self, folder: Path) -> None:
        super().__init__("localhost", timeout=START_SEC)
        self._path = str(folder / "socket")

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _ask(folder: Path, method: str, path: str, archive: bytes | None = None) -> bool:
    """Whether the daemon does something."""
    with closing(_Connection(folder)) as connection:
        try:
            connection.request(method, path, archive, {"Content-Type": "application/x-tar"} if archive else {})
            response = connection.getresponse()
            return b'"error"' not in response.read() and response.status == http.HTTPStatus.OK
        except OSError:
            return False


def _await(daemon: subprocess.Popen[bytes], folder: Path) -> str:
    """Wait for a daemon; returns what is wrong with it."""
    in_time(lambda: daemon.poll() is not None or _ask(folder, "GET", "/_ping"), START_SEC)
    if daemon.poll() is None and _ask(folder, "GET", "/_ping"):
        return ""
    return " ".join((folder / "log").read_text(errors="replace").split("\n")[-3:]) or "it does not answer"


def _import_image(folder: Path) -> str:
    path = f"/images/create?fromSrc=-&repo={IMAGE}"
    return "" if _ask(folder, "POST", path, busybox_archive()) else "the image cannot be imported"


def _wait_for_end(process: int) -> None:
    poller = select.poll()
    poller.register(process, select.POLLIN)
    poller.poll()


def end(daemon: subprocess.Popen[bytes], folder: Path) -> None:
    """End a daemon and, if it did not do so itself, what it has started and mounted; then remove all of it."""
    daemon.send_signal(signal.SIGTERM)
    try:
        daemon.wait(STOP_SEC)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()
    for pid in _processes_naming(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    in_time(lambda: not _processes_naming(folder), STOP_SEC)
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for mount in reversed([point for point in mounts if point.startswith(f"{folder}/")]):
        subprocess.run(["umount", "-l", mount], check=False)
    for group in Path("/sys/fs/cgroup").glob(f"*/{folder.name}"):
        for top, _, _ in os.walk(group, topdown=False):
            with suppress(OSError):
                Path(top).rmdir()
    shutil.rmtree(folder, ignore_errors=True)


def _processes_naming(folder: Path) -> list[int]:
    """The processes with the daemon's directory on their command line: shims, monitors, containerd."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if os.fsencode(folder) in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


if __name__ == "__main__":
    if os.fork():
        os._exit(0)  # whoever started it goes on; the keeper is nobody's child
    keep(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))  # type: ignore[arg-type]
