"""Code that Python or pytest loads without anybody asking for it, or in place of what was asked for."""

from tests.attacks.attack import BY_MODULE, BY_PYTEST, BY_PYTHON, FORGE_PY, Attack, append, judged_by, plant
from tests.attacks.workshop import stdlib

STDLIB = stdlib()
VERSION = STDLIB.rpartition("/")[2]
DIGITS = VERSION.removeprefix("python").replace(".", "")
SITE = f"/opt/venv/lib/{VERSION}/site-packages"
DIST = "/usr/lib/python3/dist-packages"
LOCAL = f"/usr/local/lib/{VERSION}/dist-packages"
USER = f"/root/.local/lib/{VERSION}/site-packages"
_BACK = frozenset({"verifier_tools_restored"})
_HIDDEN = frozenset({"hidden_from_verifier"})
_PLUGIN = "[pytest11]\nevil = evil_plugin\n"
_COMPILE = "/usr/bin/python3 -Ic 'import py_compile, sys; py_compile.compile(sys.argv[1], sys.argv[2], {how})'"
_UNCHECKED = "invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH"


def compiled(source: str, target: str) -> str:
    """A command that plants a module of Python as bytes that are never compared with their source."""
    return f"{plant('/app/code.py', source)}; mkdir -p $(dirname {target})\n{_COMPILE.format(how=_UNCHECKED)} /app/code.py {target}"


def with_original(path: str) -> str:
    """A module that forges and is what it takes the place of, too."""
    return f"{FORGE_PY}\nexec(compile(open({path!r}).read(), {path!r}, 'exec'))"


def plugin(metadata: str, module: str, text: str = _PLUGIN) -> str:
    """Commands that plant a plug-in of pytest."""
    return f"{plant(f'{metadata}/entry_points.txt', text)}\n{plant(f'{metadata}/METADATA', 'Name: evil')}\n{plant(module, FORGE_PY)}"


STARTUP = (
    Attack("a zip that is a folder", plant(f"/usr/lib/python{DIGITS}.zip/json.py", FORGE_PY), BY_PYTHON, _BACK),
    Attack(
        "a zip",
        f"{plant('/app/json.py', FORGE_PY)}; cd /app; /usr/bin/python3 -Im zipfile -c "
        f"/usr/lib/python{DIGITS}.zip json.py; rm json.py",
        BY_PYTHON,
        _BACK,
    ),
    Attack("sitecustomize", plant(f"{SITE}/sitecustomize.py", FORGE_PY), BY_PYTHON, _BACK, proven=False),
    Attack(
        "sitecustomize behind a link",
        f"{plant('/app/x', FORGE_PY)}; ln -sf /app/x {STDLIB}/sitecustomize.py",
        BY_PYTHON,
        _BACK,
    ),
    Attack("Debian's sitecustomize", append(f"/etc/{VERSION}/sitecustomize.py", FORGE_PY), BY_PYTHON, _BACK),
    Attack("usercustomize", plant(f"{USER}/usercustomize.py", FORGE_PY), BY_PYTHON, _BACK),
    Attack(
        "usercustomize behind a link",
        f"{plant('/app/x', FORGE_PY)}; mkdir -p {USER}; ln -s /app/x {USER}/usercustomize.py",
        BY_PYTHON,
        _BACK,
    ),
    Attack(
        "a package usercustomize behind a link",
        f"{plant('/app/x/__init__.py', FORGE_PY)}; mkdir -p {USER}; ln -s /app/x {USER}/usercustomize",
        BY_PYTHON,
        _BACK,
    ),
    Attack(
        "a link in place of site-packages",
        f"{plant('/app/x/usercustomize.py', FORGE_PY)}; mkdir -p $(dirname {USER}); ln -s /app/x {USER}",
        BY_PYTHON,
    ),
    Attack(
        "a link in place of ~/.local",
        f"{plant(f'/app/x/lib/{VERSION}/site-packages/usercustomize.py', FORGE_PY)}; ln -s /app/x /root/.local",
        BY_PYTHON,
    ),
    Attack(
        "a link in place of ~/.local with a path file behind it",
        f"{plant(f'/app/x/lib/{VERSION}/site-packages/x.pth', 'import evil_module')}"
        f"\n{plant(f'/app/x/lib/{VERSION}/site-packages/evil_module.py', FORGE_PY)}; ln -s /app/x /root/.local",
        BY_PYTHON,
    ),
    Attack("a path file that runs code", plant(f"{SITE}/x.pth", f"import sys; exec({FORGE_PY!r})"), BY_PYTHON, _BACK),
    Attack("the user's path file", plant(f"{USER}/x.pth", f"import sys; exec({FORGE_PY!r})"), BY_PYTHON, _BACK),
    Attack(
        "a path file behind a link",
        f"{plant('/app/x', f'import sys; exec({FORGE_PY!r})')}; ln -s /app/x {SITE}/x.pth",
        BY_PYTHON,
        _BACK,
    ),
    Attack(
        "a path file whose name is no text",
        f"{plant('/app/x', f'import sys; exec({FORGE_PY!r})')}; cp /app/x {SITE}/$(printf '\\377').pth",
        BY_PYTHON,
        _BACK,
    ),
    Attack(
        "another home for Python",
        f"mkdir -p /app/x/lib; cp -r {STDLIB} /app/x/lib/{VERSION}\n"
        f"{append(f'/app/x/lib/{VERSION}/json/__init__.py', FORGE_PY)}\n"
        "mkdir -p /app/x/bin; ln -s /usr/bin/python3 /app/x/bin/python3; echo 'home = /app/x/bin' > /usr/bin/pyvenv.cfg",
        BY_PYTHON,
        _BACK,
        ("/usr/bin/pyvenv.cfg",),
    ),
    Attack(
        "another home for an environment",
        f"mkdir -p /app/x/lib; cp -r {STDLIB} /app/x/lib/{VERSION}\n"
        f"{append(f'/app/x/lib/{VERSION}/json/__init__.py', FORGE_PY)}\n"
        "mkdir -p /app/x/bin; ln -s /usr/bin/python3 /app/x/bin/python3; echo 'home = /app/x/bin' > /opt/venv/pyvenv.cfg",
        BY_PYTHON,
        _BACK,
        ("/opt/venv/pyvenv.cfg",),
    ),
    Attack(
        "a path file beside the interpreter", plant("/usr/bin/python3._pth", "/app"), BY_PYTHON, _BACK, proven=False
    ),
)

LIBRARY = (
    Attack("a module of the standard library", append(f"{STDLIB}/json/__init__.py", FORGE_PY), BY_PYTHON, _BACK),
    Attack(
        "a package in front of a module",
        plant(f"{STDLIB}/pathlib/__init__.py", with_original(f"{STDLIB}/pathlib.py")),
        BY_PYTHON,
        _BACK,
    ),
    Attack(
        "compiled code of the standard library",
        f"cp {STDLIB}/getpass.py /app/original; "
        + compiled(with_original("/app/original"), f"{STDLIB}/__pycache__/getpass.cpython-{DIGITS}.pyc"),
        BY_PYTHON,
        _BACK,
    ),
    Attack(
        "compiled code of pytest",
        f"cp {SITE}/_pytest/__init__.py /app/original; "
        + compiled(with_original("/app/original"), f"{SITE}/_pytest/__pycache__/__init__.cpython-{DIGITS}.pyc"),
        BY_PYTEST,
        _BACK,
    ),
    Attack(
        "compiled code without a source",
        f"mv {STDLIB}/getpass.py /app/original; " + compiled(with_original("/app/original"), f"{STDLIB}/getpass.pyc"),
        BY_PYTHON,
        _BACK,
    ),
    Attack(
        "pytest patched in place",
        append(f"{SITE}/_pytest/main.py", FORGE_PY),
        judged_by(f"rm -rf {SITE}/_pytest/__pycache__", "pytest -q /tests/test_outputs.py"),
        _BACK,
    ),
    Attack(
        "pluggy patched in place",
        f"rm -r {SITE}/pluggy/__pycache__\n{append(f'{SITE}/pluggy/__init__.py', FORGE_PY)}",
        BY_PYTEST,
        _BACK,
    ),
    Attack(
        "another main of pytest",
        f"{plant(f'{SITE}/pytest/__main__.py', FORGE_PY)}\nrm -r {SITE}/pytest/__pycache__",
        BY_MODULE,
        _BACK,
    ),
    Attack(
        "a link in place of a package",
        f"cp -r {STDLIB}/json /app/json_; rm -r {STDLIB}/json; ln -s /app/json_ {STDLIB}/json\n"
        + append("/app/json_/__init__.py", FORGE_PY),
        BY_PYTHON,
        _BACK,
    ),
    Attack(
        "a link in place of the standard library",
        f"cp -r {STDLIB} /app/lib; rm -r {STDLIB}; ln -s /app/lib {STDLIB}\n{append('/app/lib/json/__init__.py', FORGE_PY)}",
        BY_PYTHON,
    ),
    Attack(
        "a module that Debian's hook would like to have",
        plant(f"{SITE}/apport_python_hook.py", FORGE_PY),
        BY_PYTHON,
        _BACK,
    ),
    Attack(
        "a module that Debian's hook would like to have, for the user",
        plant(f"{USER}/apport_python_hook.py", FORGE_PY),
        BY_PYTHON,
        _BACK,
    ),
    Attack("a module for another Python", plant(f"{DIST}/org/python/core/__init__.py", FORGE_PY), BY_PYTHON, _BACK),
    Attack("a module for another Python as a file", plant(f"{SITE}/org/python/core.py", FORGE_PY), BY_PYTHON, _BACK),
    Attack("a module of another machine", plant(f"{SITE}/msvcrt.py", FORGE_PY), BY_PYTHON, _BACK),
    Attack(
        "a module of another machine for the user",
        plant(f"{USER}/_winapi.py", FORGE_PY + "\nraise ImportError"),
        judged_by("python3 -c 'import mimetypes, asyncio'", "/usr/bin/python3 -c 'import mimetypes'"),
        _BACK,
    ),
)

PLUGINS = (
    Attack("a plug-in", plugin(f"{SITE}/evil-1.dist-info", f"{SITE}/evil_plugin.py"), BY_PYTEST, _BACK),
    Attack(
        "a plug-in in other letters", plugin(f"{SITE}/evil-1.Dist-Info", f"{SITE}/evil_plugin.py"), BY_PYTEST, _BACK
    ),
    Attack("a plug-in as an egg", plugin(f"{SITE}/evil.egg-info", f"{SITE}/evil_plugin.py"), BY_PYTEST, _BACK),
    Attack(
        "a plug-in behind a link",
        f"{plugin('/app/meta', f'{SITE}/evil_plugin.py')}; ln -s /app/meta {SITE}/evil-1.dist-info",
        BY_PYTEST,
        _BACK,
    ),
    Attack(
        "a plug-in with its list behind a link",
        f"{plugin(f'{SITE}/evil-1.dist-info', f'{SITE}/evil_plugin.py')}; mv {SITE}/evil-1.dist-info/entry_points.txt "
        f"/app/list; ln -s /app/list {SITE}/evil-1.dist-info/entry_points.txt",
        BY_PYTEST,
        _BACK,
    ),
    Attack(
        "a plug-in in doubled brackets",
        plugin(f"{SITE}/evil-1.dist-info", f"{SITE}/evil_plugin.py", "[[pytest11]]\nevil = evil_plugin\n"),
        BY_PYTEST,
        _BACK,
    ),
    Attack(
        "a plug-in after a page break",
        plugin(f"{SITE}/evil-1.dist-info", f"{SITE}/evil_plugin.py", "[x]\n\x0c[pytest11]\x0cevil = evil_plugin\n"),
        BY_PYTEST,
        _BACK,
    ),
    Attack(
        "a plug-in of the image's pytest",
        append(f"{SITE}/pluggy-*.dist-info/entry_points.txt".replace("pluggy-*", "pluggy-0"), _PLUGIN)
        + f"\n{plant(f'{SITE}/evil_plugin.py', FORGE_PY)}",
        BY_PYTEST,
        _BACK,
    ),
    Attack(
        "a plug-in in the working directory", plugin("/app/evil-1.dist-info", "/app/evil_plugin.py"), BY_MODULE, _HIDDEN
    ),
    Attack(
        "a plug-in in the working directory behind a link",
        f"{plugin('/app/meta', '/app/evil_plugin.py')}; ln -s /app/meta /app/evil-1.dist-info",
        BY_MODULE,
        _HIDDEN,
    ),
    Attack(
        "a plug-in in a folder that a path file adds",
        f"{plugin('/app/more/evil-1.dist-info', '/app/more/evil_plugin.py')}\n{plant(f'{SITE}/more.pth', '/app/more')}",
        BY_PYTEST,
    ),
    Attack(
        "a plug-in in a folder of the system that a path file adds",
        f"{plugin('/usr/share/more/evil-1.dist-info', '/usr/share/more/evil_plugin.py')}\n{plant(f'{SITE}/more.pth', '/usr/share/more')}",
        BY_PYTEST,
    ),
    Attack(
        "a plug-in in an archive that a path file adds",
        f"{plugin('/app/more/evil-1.dist-info', '/app/more/evil_plugin.py')}\ncd /app/more; /usr/bin/python3 -Im zipfile -c "
        f"/app/more.zip *; rm -r /app/more; echo /app/more.zip > {SITE}/more.pth",
        BY_PYTEST,
    ),
    Attack(
        "an egg that a path file adds",
        f"{plugin('/app/more.egg/EGG-INFO', '/app/more.egg/evil_plugin.py')}\n{plant('/app/more.egg/EGG-INFO/PKG-INFO', 'Name: evil')}"
        f"\n{plant(f'{SITE}/more.pth', '/app/more.egg')}",
        BY_PYTEST,
    ),
)

BESIDE = (
    Attack("a module beside", plant("/app/json.py", FORGE_PY), BY_MODULE, _HIDDEN, hidden=("/app/json.py",)),
    Attack(
        "a package beside", plant("/app/argparse/__init__.py", FORGE_PY), BY_MODULE, _HIDDEN, hidden=("/app/argparse",)
    ),
    Attack("a linked module beside", f"{plant('/app/x', FORGE_PY)}; ln -s x /app/json.py", BY_MODULE, _HIDDEN),
    Attack(
        "a linked package beside", f"{plant('/app/x/__init__.py', FORGE_PY)}; ln -s x /app/json", BY_MODULE, _HIDDEN
    ),
    Attack("a compiled module beside", compiled(FORGE_PY, "/app/json.pyc"), BY_MODULE, _HIDDEN),
    Attack("a compiled package beside", compiled(FORGE_PY, "/app/json/__init__.pyc"), BY_MODULE, _HIDDEN),
    Attack("a pytest beside", plant("/app/pytest.py", FORGE_PY), BY_MODULE, _HIDDEN),
    Attack("a part of pytest beside", plant("/app/_pytest/__init__.py", FORGE_PY), BY_MODULE, _HIDDEN),
    Attack("a module for another Python beside", plant("/app/org/python/core.py", FORGE_PY), BY_MODULE, _HIDDEN),
    Attack(
        "a module where the verifier goes",
        plant("/app/sub/json.py", FORGE_PY),
        judged_by("cd /app/sub && python3 -m pytest /tests/test_outputs.py"),
        _HIDDEN,
    ),
    Attack(
        "a module on a path of the verifier's own",
        plant("/srv/lib/json.py", FORGE_PY),
        judged_by("PYTHONPATH=/srv/lib python3 -m pytest /tests/test_outputs.py"),
        _HIDDEN,
    ),
    Attack(
        "a module where the verifier starts",
        plant("/srv/job/json.py", FORGE_PY),
        BY_MODULE,
        _HIDDEN,
        toml='[verifier]\nworkdir = "/srv/job"\n',
    ),
    Attack(
        "settings of pytest in the root",
        f"{plant('/conftest.py', FORGE_PY)}\n{plant('/pytest.ini', '[pytest]')}",
        judged_by("cd /tests; pytest -q"),
        _BACK,
    ),
)
