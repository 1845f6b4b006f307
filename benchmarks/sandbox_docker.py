"""Docker to compare with: a tiny client of the Engine API, and a private daemon where none is running.

The client is blocking and meant for threads; what is measured is the daemon's work, and ours must not stand in its way.
"""

import contextlib
import http.client
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

_IMAGE = f"seatrial-benchmark:{os.getpid()}"
_LABEL = f"seatrial-benchmark={os.getpid()}"
_DEFAULT_SOCKET = Path("/var/run/docker.sock")
# Made whatever directories the daemon is told to use.
_STRAYS = [Path(name) for name in ("/etc/docker/key.json", "/opt/containerd", "/run/containerd", "/run/docker")]
_START_SEC = 20.0
_STOP_SEC = 30.0
_APPLETS = ("sh", "true", "sleep", "cat")
_DONE = (200, 201, 204)


class DockerError(Exception):
    """The daemon refused, or is not there."""


def make_busybox_root(folder: Path) -> None:
    """The smallest useful root: one static busybox. Raises DockerError without one to copy."""
    program = shutil.which("busybox")
    if program is None:
        raise DockerError("busybox is not installed (Debian: apt-get install busybox-static)")
    for name in ("bin", "etc", "app", "tmp", "root"):
        (folder / name).mkdir(parents=True)
    folder.chmod(0o755)
    shutil.copy(program, folder / "bin/busybox")
    for applet in _APPLETS:
        (folder / "bin" / applet).symlink_to("busybox")
    (folder / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=120)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Engine:
    """Just enough of Docker's Engine API for one container's life. Every thread has a connection of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._threads = threading.local()

    def call(self, method: str, path: str, body: Any = None) -> bytes:
        """One request; `body` is sent as JSON unless it is bytes, which are an archive. Raises DockerError."""
        connection: http.client.HTTPConnection | None = getattr(self._threads, "connection", None)
        if connection is None:
            connection = self._threads.connection = _UnixConnection(self._path)
        archive = isinstance(body, bytes)
        data = body if archive or body is None else json.dumps(body).encode()
        kind = "application/x-tar" if archive else "application/json"
        try:
            connection.request(method, path, data, {"Content-Type": kind} if data is not None else {})
            response = connection.getresponse()
            content = response.read()
        except OSError as error:
            connection.close()
            raise DockerError(f"{method} {path}: {error}") from error
        if response.status not in _DONE:
            raise DockerError(f"{method} {path}: {response.status} {content.decode(errors='replace').strip()}")
        return content

    def create(self, command: list[str]) -> str:
        """A new container without network; returns its id."""
        name, _, value = _LABEL.partition("=")
        spec = {"Image": _IMAGE, "Cmd": command, "Labels": {name: value}, "HostConfig": {"NetworkMode": "none"}}
        made: dict[str, str] = json.loads(self.call("POST", "/containers/create", spec))
        return made["Id"]

    def start(self, container: str) -> None:
        """Start a container's own command."""
        self.call("POST", f"/containers/{container}/start")

    def wait(self, container: str) -> int:
        """How a container's own command ended."""
        status: dict[str, int] = json.loads(self.call("POST", f"/containers/{container}/wait"))
        return status["StatusCode"]

    def put(self, container: str, directory: str, archive: bytes) -> None:
        """Unpack an archive in a container."""
        self.call("PUT", f"/containers/{container}/archive?path={quote(directory)}", archive)

    def execute(self, container: str, command: list[str]) -> int:
        """Run a command in a running container and return its exit code."""
        spec = {"Cmd": command, "AttachStdout": True, "AttachStderr": True}
        number = json.loads(self.call("POST", f"/containers/{container}/exec", spec))["Id"]
        self.call("POST", f"/exec/{number}/start", {"Detach": False, "Tty": False})
        status: dict[str, int] = json.loads(self.call("GET", f"/exec/{number}/json"))
        return status["ExitCode"]

    def get(self, container: str, path: str) -> bytes:
        """Pack a path of a container."""
        return self.call("GET", f"/containers/{container}/archive?path={quote(path)}")

    def remove(self, container: str) -> None:
        """Kill and remove a container."""
        self.call("DELETE", f"/containers/{container}?force=1")

    def add_image(self, root: Path) -> None:
        """Import a directory as the benchmark's image."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            tar.add(root, arcname=".")
        name, _, tag = _IMAGE.partition(":")
        self.call("POST", f"/images/create?fromSrc=-&repo={name}&tag={tag}", packed.getvalue())

    def clean_up(self) -> None:
        """Remove the benchmark's containers and image, whatever has become of them."""
        found = json.loads(self.call("GET", f"/containers/json?all=1&filters={_filter('label', _LABEL)}"))
        for container in found:
            with contextlib.suppress(DockerError):
                self.remove(container["Id"])
        with contextlib.suppress(DockerError):
            self.call("DELETE", f"/images/{_IMAGE}?force=1")


def _filter(name: str, value: str) -> str:
    return quote(json.dumps({name: [value]}))


@contextlib.contextmanager
def open_engine(root: Path) -> Iterator[tuple[Engine, str]]:
    """An engine that has `root` as its image, and a word on whose daemon it is. Raises DockerError without one."""
    with contextlib.ExitStack() as stack:
        path = _running_daemon()
        owner = f"the daemon at {path}" if path else "a daemon of our own"
        engine = Engine(path or stack.enter_context(_private_daemon()))
        stack.callback(engine.clean_up)
        engine.add_image(root)
        version = json.loads(engine.call("GET", "/version"))["Version"]
        yield engine, f"Docker {version}, {owner}"


def _running_daemon() -> Path | None:
    host = os.environ.get("DOCKER_HOST", "")
    if host and not host.startswith("unix://"):
        raise DockerError(f"DOCKER_HOST={host}: only unix sockets are measured here")
    path = Path(host.removeprefix("unix://")) if host else _DEFAULT_SOCKET
    try:
        Engine(path).call("GET", "/_ping")
    except DockerError:
        return None
    return path


@contextlib.contextmanager
def _private_daemon() -> Iterator[Path]:
    """A daemon with all its files in one temporary directory; leaving the block ends it and removes them."""
    program = shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None or os.geteuid() != 0:
        raise DockerError("no daemon answers, and none can be started (as root on Debian: apt-get install docker.io)")
    strays = [path for path in _STRAYS if not path.exists()]
    with tempfile.TemporaryDirectory(prefix="seatrial-docker-") as folder:
        place, group = Path(folder), f"seatrial-benchmark-{os.getpid()}"
        paths = ["--data-root", f"{place}/data", "--exec-root", f"{place}/exec", "-p", f"{place}/pid"]
        network = ["--iptables=false", "--bridge=none", "--ip-forward=false"]
        command = [program, *paths, *network, "--cgroup-parent", f"/{group}", "-H", f"unix://{place}/socket"]
        with (place / "log").open("wb") as log:
            # A session of its own: Ctrl-C is for us, who then end the daemon in good order.
            daemon = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            _await_daemon(daemon, place)
            yield place / "socket"
        finally:
            _end_daemon(daemon, place)
            _remove_groups(group)
            for path in strays:
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)


def _await_daemon(daemon: subprocess.Popen[bytes], place: Path) -> None:
    def answers() -> bool:
        if daemon.poll() is not None:
            last = (place / "log").read_text(errors="replace").splitlines()[-1:]
            raise DockerError(f"dockerd ended at once: {' '.join(last)}")
        with contextlib.suppress(DockerError):
            Engine(place / "socket").call("GET", "/_ping")
            return True
        return False

    if not _in_time(answers, _START_SEC):
        raise DockerError(f"dockerd did not answer within {_START_SEC:.0f} s")


def _end_daemon(daemon: subprocess.Popen[bytes], place: Path) -> None:
    """End the daemon and, if it did not do so itself, what it has started and mounted."""
    daemon.send_signal(signal.SIGTERM)
    try:
        daemon.wait(_STOP_SEC)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()
    for pid in _processes_naming(place):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _in_time(lambda: not _processes_naming(place), _STOP_SEC)
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for mount in reversed([point for point in mounts if point.startswith(f"{place}/")]):
        subprocess.run(["umount", "-l", mount], check=False)  # noqa: S607 - the system's own


def _processes_naming(place: Path) -> list[int]:
    """The processes with the daemon's directory on their command line: its containerd and the shims."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if os.fsencode(place) in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def _remove_groups(group: str) -> None:
    for mount in Path("/sys/fs/cgroup").glob(f"*/{group}"):
        for top, _, _ in os.walk(mount, topdown=False):
            with contextlib.suppress(OSError):
                Path(top).rmdir()


def _in_time(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
