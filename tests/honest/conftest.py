"""A shelf of packages, an image in which older ones are installed already, and a bench to judge on."""

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from seatrial.sandbox.api import HOST_IMAGE, ExecSpec, SandboxSpec, open_sandbox
from seatrial.sandbox.transfer import put_tree
from tests.honest.stock import make_deb, make_wheel, module
from tests.honest.support import SYSTEM_PIP, VENV, Bench, pip_into
from tests.trial.support import Desk, open_desk

LIBRARY = "int ripe(void) { return %d; }\n"
RUNNER = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py")
PLUGIN = "[pytest11]\nquiet = quietkit.plugin\n"
ALTERNATIVE = "#!/bin/sh\nupdate-alternatives --install /usr/bin/shout shout /usr/bin/shout-loud 50\n"
# What the image has from the start.
PAST = f"""
set -e
{SYSTEM_PIP} tablekit==1.3.0 pinned==2.0.0 patchme
python3 -m venv --without-pip {VENV}
{pip_into(VENV)} tablekit==1.3.0
dpkg -i /app/shelf/oldtool_1.0_all.deb /app/shelf/shout_1.0_all.deb
mkdir -p /opt/model /usr/lib/python3/dist-packages/distkit-1.0.egg-info
echo 'rate = 1' > /opt/model/settings.ini
echo 'VERSION = "1.0"' > /usr/lib/python3/dist-packages/distkit.py
printf 'Name: distkit\\nVersion: 1.0\\n' > /usr/lib/python3/dist-packages/distkit-1.0.egg-info/PKG-INFO
printf '#!/bin/sh\\necho old\\n' > /usr/local/bin/reporter
chmod 755 /usr/local/bin/reporter
cp -r /app/runner/* "$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
"""


@pytest.fixture(scope="package")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A desk on the embedded sandbox."""
    with open_desk(tmp_path_factory.mktemp("desk")) as desk:
        yield desk


@pytest.fixture(scope="package")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels and Debian packages."""
    if shutil.which("dpkg-deb") is None or find_spec("_pytest") is None:
        pytest.skip("these packages are made with dpkg-deb")
    folder = tmp_path_factory.mktemp("shelf")
    for version in ("1.3.0", "2.0.0"):
        make_wheel(folder, "tablekit", version, module("tablekit", version))
    for version in ("1.0.0", "2.0.0"):
        make_wheel(folder, "pinned", version, module("pinned", version))
    make_wheel(folder, "patchme", "1.0", module("patchme", "1.0", "def add(a, b):\n    return a - b\n"))
    make_wheel(folder, "distkit", "2.0", {"distkit.py": 'VERSION = "2.0"\n'})
    tool = {"speaker/__init__.py": "def main():\n    print('spoken')\n"}
    make_wheel(folder, "speaker", "1.0", tool, "[console_scripts]\nspeaker = speaker:main\n")
    quiet = {"quietkit/__init__.py": "ANSWER = 42\n", "quietkit/plugin.py": ""}
    make_wheel(folder, "quietkit", "1.0", quiet, PLUGIN)
    make_wheel(folder, "pip", "99.0", {"pip/__init__.py": '__version__ = "99.0"\n'})
    make_wheel(folder, "pathkit", "1.0", {"pathkit.pth": "/app/extra\n", "pathkit_about.py": ""})
    _make_debs(folder)
    return folder


def _make_debs(folder: Path) -> None:
    for version in ("1.0", "2.0"):
        files = {"usr/bin/oldtool": f"#!/bin/sh\necho {version}\n", "etc/oldtool/oldtool.conf": f"version={version}\n"}
        make_deb(folder, "oldtool", version, files, {"conffiles": "/etc/oldtool/oldtool.conf\n"})
    make_deb(folder, "wget", "9.0", {"usr/local/bin/wget": "#!/bin/sh\necho fetched\n"})
    loud = {"usr/bin/shout-loud": "#!/bin/sh\necho LOUD\n", "usr/share/doc/shout/readme": "loud\n"}
    make_deb(folder, "shout", "1.0", loud, {"postinst": ALTERNATIVE})
    server = {
        "usr/sbin/greeterd": "#!/bin/sh\n. /etc/greeter/greeter.conf\necho $greeting\n",
        "etc/greeter/greeter.conf": "greeting=hello\n",
        "etc/init.d/greeter": '#!/bin/sh\n[ "$1" != status ] || echo known\n',
        "etc/default/greeter": "ENABLED=1\n",
        "etc/cron.d/greeter": "0 * * * * root /usr/sbin/greeterd\n",
        "etc/bash_completion.d/greeter": "complete -W x greeterd\n",
        "usr/lib/systemd/system/greeter.service": "[Service]\nExecStart=/usr/sbin/greeterd\n",
    }
    kept = "/etc/greeter/greeter.conf\n/etc/init.d/greeter\n/etc/default/greeter\n"
    make_deb(folder, "greeter", "1.0", server, {"conffiles": kept})
    library = {"usr/share/ripe/ripe.c": LIBRARY % 7}
    build = "#!/bin/sh\ngcc -shared -o /usr/lib/libripe.so.1 /usr/share/ripe/ripe.c && ldconfig\n"
    make_deb(folder, "libripe1", "1.0", library, {"postinst": build, "triggers": "activate-noawait ldconfig\n"})


@pytest.fixture(scope="package")
def bench(desk: Desk, shelf: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A bench with an image that has a past: packages, programs and files that are older than what is asked for."""
    folder = tmp_path_factory.mktemp("aged")
    (folder / "runner").mkdir()
    for name in RUNNER:
        _copy_module(name, folder / "runner")

    async def make() -> None:
        async with open_sandbox(desk.backend, SandboxSpec(image=HOST_IMAGE)) as sandbox:
            await put_tree(sandbox, "/app/shelf", shelf)
            await put_tree(sandbox, "/app/runner", folder / "runner")
            ended = await sandbox.exec(ExecSpec(("/bin/bash", "-c", PAST), cwd="/app"))
            if ended.exit_code != 0:
                pytest.skip(f"this machine has no pip or dpkg to make an image with: {ended.stderr[-500:]!r}")
            await sandbox.exec(ExecSpec(("/bin/rm", "-rf", "/app")))
            await sandbox.snapshot(folder / "layer")

    desk.wait(make())
    return Bench(desk, shelf, folder / "layer")


def _copy_module(name: str, folder: Path) -> None:
    """Copy one of the modules that these tests themselves are run with."""
    found = find_spec(name)
    assert found is not None
    assert found.origin is not None
    source = Path(found.origin)
    if source.name == "__init__.py":
        shutil.copytree(source.parent, folder / name, ignore=shutil.ignore_patterns("*.pyc"))
    else:
        shutil.copy(source, folder / source.name)
