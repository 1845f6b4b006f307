"""The image that attacks are tried in, on every backend: a small system with Python, pytest and the usual tools.

Made from this machine's programs. Like many images it has programs in odd places and names all of them in its PATH.
"""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pluggy

from seatrial.images.choice import ImagePolicy, ImageRequest
from seatrial.images.resolver import ResolvedImage
from seatrial.sandbox.api import DEFAULT_PATH, Image, ImageConfig

PYTHON = "/usr/bin/python3"
ODD_FOLDERS = ("/opt/venv/bin", "/venv/bin", "/app/bin", "/root/.cargo/bin", "/root/conda/bin")
PATH = ":".join((*ODD_FOLDERS, DEFAULT_PATH))
_PROGRAMS = """
bash dash cat chmod cp cut dirname basename env find grep head id ln ls mkdir mktemp mv printf readlink rm sed sleep
sort stat tail tar tee test touch tr true truncate uname wc xargs awk base64 perl git openssl ldconfig sh [ seq setsid
""".split()
_LEFT_OUT = (
    "test",
    "idlelib",
    "lib2to3",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "pydoc_data",
    "config-*",
    "dist-packages",
)
_PYTEST = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments")
_ACCOUNTS = "root:x:0:0::/root:/bin/sh\nal:x:1000:1000::/home/al:/bin/sh\n"
_NSSWITCH = "passwd: files systemd\ngroup: files systemd\nhosts: files dns\n"
_DEBIANS_HOOK = "try:\n    import apport_python_hook\nexcept ImportError:\n    pass\n"


def lacking() -> str | None:
    """What this machine lacks for a workshop, None when it has all."""
    missing = [name for name in ("bash", "perl", "git", "openssl", "ldconfig") if _which(name) is None]
    return None if Path(PYTHON).exists() and not missing else f"no {', '.join(missing) or PYTHON} to make an image of"


def _which(name: str) -> str | None:
    return shutil.which(name, path=DEFAULT_PATH)


def stdlib() -> str:
    """The folder of the standard library, the same here and in the workshop."""
    code = "import os; print(os.path.dirname(os.__file__))"
    return subprocess.check_output([PYTHON, "-Ic", code], text=True).strip()


def make_workshop(root: Path) -> Image:
    """Make the image in an empty folder."""
    library = Path(stdlib())
    programs = {f"/usr/bin/{name}": found for name in _PROGRAMS if (found := _which(name))}
    programs[f"/usr/bin/{library.name}"] = str(Path(PYTHON).resolve())
    compiled = [str(path) for path in (library / "lib-dynload").glob("*.so")]
    for target, source in programs.items():
        _copy(Path(source).resolve(), root / target.lstrip("/"))
    for library_file in _needed([*programs.values(), *compiled]):
        _copy(library_file.resolve(), _below(root, library_file))
    shutil.copytree(library, _below(root, library), ignore=shutil.ignore_patterns(*_LEFT_OUT), symlinks=True)
    _copy_trees(root, ["/usr/lib/git-core/git-sh-setup", *_perl_folders()])
    _link_old_names(root)
    _add_python(root, library.name)
    _add_settings(root, library.name)
    return Image("workshop", layers=(root,), config=ImageConfig(env={"PATH": PATH}))


def _below(root: Path, path: Path | str) -> Path:
    return root / str(path).lstrip("/")


def _copy(source: Path, target: Path) -> None:
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def _copy_trees(root: Path, paths: Iterable[str]) -> None:
    for path in paths:
        if Path(path).is_dir():
            shutil.copytree(path, _below(root, path), symlinks=True, dirs_exist_ok=True)
        elif Path(path).is_file():
            _copy(Path(path), _below(root, path))


def _perl_folders() -> list[str]:
    code = "print join qq(\\n), grep { /perl-base|etc.perl/ } @INC"
    return subprocess.check_output(["perl", "-e", code], text=True).splitlines()


def _needed(programs: Iterable[str]) -> set[Path]:
    """The libraries of programs, as the loader finds them."""
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    words = (word for line in said.splitlines() if not line.endswith(":") for word in line.split())
    return {Path(word) for word in words if word.startswith("/") and Path(word).is_file()}


def _link_old_names(root: Path) -> None:
    """As every distribution does now: /bin is /usr/bin, and so on."""
    for name in ("bin", "sbin", "lib", "lib64"):
        found = root / name
        target = root / "usr" / name
        target.mkdir(parents=True, exist_ok=True)
        if found.is_dir():
            shutil.copytree(found, target, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(found)
        found.symlink_to(f"usr/{name}")
    if not (root / "usr/sbin/ldconfig").exists():
        (root / "usr/sbin/ldconfig").symlink_to("../bin/ldconfig")


def _add_python(root: Path, version: str) -> None:
    """An interpreter by its short name, an environment with pytest, and two more that are on the PATH."""
    (root / "usr/bin/python3").symlink_to(version)
    site = Path(pluggy.__file__).parent.parent
    for home in ("opt/venv", "venv"):
        packages = root / home / "lib" / version / "site-packages"
        packages.mkdir(parents=True)
        (root / home / "bin").mkdir()
        for name in ("python", "python3"):
            (root / home / "bin" / name).symlink_to(f"/usr/bin/{version}")
        (root / home / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    packages = root / "opt/venv/lib" / version / "site-packages"
    for name in (*_PYTEST, *(path.name for each in _PYTEST for path in site.glob(f"{each}-*.dist-info"))):
        shutil.copytree(site / name, packages / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(site / "py.py", packages)
    program = root / "opt/venv/bin/pytest"
    program.write_text("#!/opt/venv/bin/python3\nimport sys, pytest\nsys.exit(pytest.main())\n")
    program.chmod(0o755)
    subprocess.run([PYTHON, "-Im", "compileall", "-q", "--invalidation-mode", "unchecked-hash", packages], check=True)


def _add_settings(root: Path, version: str) -> None:
    files = {
        "etc/passwd": _ACCOUNTS,
        "etc/group": "root:x:0:\nal:x:1000:\n",
        "etc/nsswitch.conf": _NSSWITCH,
        f"etc/{version}/sitecustomize.py": _DEBIANS_HOOK,
        "etc/ld.so.conf": "/usr/local/lib\n",
        "usr/lib/ssl/openssl.cnf": "",
        "root/.cargo/bin/cargo": "#!/bin/sh\n",
        "etc/init.d/first": "#!/bin/sh\n",
        "root/.cargo/env": 'export PATH="$HOME/.cargo/bin:$PATH"\n',
        "root/.bashrc": "",
        "root/conda/lib/libconda.so.1": "",
        "usr/share/bash.d/first.sh": "",
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    hook = _below(root, stdlib()) / "sitecustomize.py"
    hook.unlink(missing_ok=True)
    hook.symlink_to(f"/etc/{version}/sitecustomize.py")
    for folder in (*ODD_FOLDERS, "/app", "/usr/local/lib", "/usr/local/bin", "/tmp", "/var/lib", "/home/al"):
        _below(root, folder).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    shutil.chown(root / "home/al", 1000, 1000)


class OneImage:
    """Images for a trial: always the same one."""

    def __init__(self, image: Image) -> None:
        self._image = image

    async def resolve(self, _request: ImageRequest, _policy: ImagePolicy) -> ResolvedImage:
        """The image, whatever is asked for."""
        return ResolvedImage(self._image, "fetch")
