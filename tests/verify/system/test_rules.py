"""Which changes to the system a verifier does not get to see."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.verify.system.facts import SystemFacts
from seatrial.verify.system.named import find_named
from seatrial.verify.system.rules import why_not, why_not_at_home
from seatrial.verify.system.surroundings import Change, Surroundings
from seatrial.verify.system.verifier_needs import VerifierNeeds

STDLIB, SITE = "/usr/lib/python3.11", "/opt/venv/lib/python3.11/site-packages"
FACTS = SystemFacts(
    program_folders=("/opt/venv/bin", "/usr/local/bin", "/usr/bin", "/bin", "/root/.cargo/bin"),
    programs=frozenset({"python3", "bash", "grep", "git", "cargo", "gcc"}),
    libraries=frozenset({"libc.so.6", "libz.so.1"}),
    python={STDLIB: frozenset({"json", "os.py"}), SITE: frozenset({"requests", "requests-2.0.dist-info"})},
    modules=frozenset({"strict.pm", "File"}),
    settings=frozenset({"passwd", "ssl", "ssh"}),
    asked_for=frozenset({"apport_python_hook"}),
)
AROUND = Surroundings(FACTS)


def added(path: str, around: Surroundings = AROUND) -> str | None:
    return why_not(Change(path, "added"), around)


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/usr/bin/grep",
            "/usr/lib/libfoo.so",
            "/opt/venv/bin/python3",
            f"{STDLIB}/json/decoder.py",
            f"{SITE}/requests/x.py",
        ),
        *("/etc/ssl/openssl.cnf", "/root/.bashrc", "/root/.cargo/registry/x", "/lib/x", "/usr/share/x/y"),
    ],
)
@pytest.mark.parametrize("kind", ["modified", "removed"])
def test_files_of_the_image_are_the_images(path, kind):
    assert why_not(Change(path, kind), AROUND) is not None


@pytest.mark.parametrize(
    "path",
    [
        *("/usr/local/bin/grep", "/usr/local/bin/uv", "/root/.local/bin/python3.12", "/usr/lib/python311.zip/json.py"),
        *(f"{SITE}/sitecustomize.py", f"{SITE}/json.py", f"{SITE}/org/python/core.py", f"{SITE}/apport_python_hook.py"),
        *(f"{STDLIB}/msvcrt.py", f"{SITE}/x.pth", f"{SITE}/evil-1.dist-info", f"{STDLIB}/__pycache__/os.pyc"),
        *("/usr/local/lib/libz.so.1", "/usr/lib/glibc-hwcaps/x86-64-v3/libc.so.6", "/usr/lib/libnss_systemd.so.2"),
        *("/etc/perl/strict.pm", "/usr/share/perl5/File/Temp.pm", "/usr/bin/pyvenv.cfg", "/opt/venv/pyvenv.cfg"),
        *(
            "/usr/lib/gcc/x86_64-linux-gnu/12/specs",
            "/usr/lib/bfd-plugins/x.so",
            "/etc/ld.so.preload",
            "/etc/gitconfig",
        ),
        *(
            "/root/.gitconfig",
            "/root/.sqliterc",
            "/root/.config/go/env",
            "/root/.cargo/config.toml",
            "/root/.ssh/config",
        ),
        *("/conftest.py", "/.npmrc", "/.cargo/config.toml", "/node_modules/x/index.js", "/usr/local", STDLIB),
    ],
)
def test_what_is_loaded_by_itself_or_stands_in_front_is_not_there(path):
    assert added(path) is not None


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/usr/local/bin/mytool",
            f"{SITE}/flask/__init__.py",
            f"{SITE}/flask-3.dist-info/METADATA",
            f"{STDLIB}/tkinter/x.py",
        ),
        *(
            "/usr/local/lib/libmine.so",
            "/usr/share/mine/data",
            "/etc/mine/mine.conf",
            "/etc/hosts",
            "/opt/mine/bin/run",
        ),
        *("/root/.ssh/authorized_keys", "/root/.cache/mine/x", "/root/.cargo/registry/src/x.rs", "/root/.mine/config"),
        *("/etc/init.d/mine", "/etc/cron.d/mine", "/var/lib/dpkg/status"),
    ],
)
def test_other_work_is_as_the_agent_left_it(path):
    assert added(path) is None


def test_a_plug_in_folder_of_the_image_takes_no_more_from_the_agent():
    around = replace(AROUND, folders=frozenset({"/usr/lib/sasl2", "/usr/share/x/runtime.d", "/usr/lib"}))
    assert added("/usr/lib/sasl2/x.so", around) == "loaded by itself"
    assert added("/usr/share/x/runtime.d/y", around) == "loaded by itself"
    assert added("/usr/lib/libmine.so", around) is None
    assert added("/usr/lib/sasl2/x.so") is None, "a folder of the agent's own"


def test_what_shadows_a_file_of_the_image_is_not_there():
    around = replace(AROUND, shadows=frozenset({"/usr/local/include/stdio.h"}))
    assert added("/usr/local/include/stdio.h", around) == "in front of the image's"
    assert added("/usr/local/include/mine.h", around) is None


def test_homes_of_other_verifiers_count_like_roots():
    around = replace(AROUND, homes=("/root", "/home/al"))
    assert added("/home/al/.bashrc", around) == "not named"
    assert added("/home/al/.bashrc") is None


@pytest.mark.parametrize(
    ("path", "instruction", "answer"),
    [
        ("/root/.ssh/id_rsa", "Mend the ssh keys.", None),
        ("/root/.ssh/id_rsa", "Mend the keys.", "of the image"),
        ("/root/.local/share/x", "Keep it local.", "of the image"),
    ],
)
def test_files_of_a_tool_at_home_are_the_agents_where_the_task_talks_about_it(path, instruction, answer):
    around = replace(AROUND, named=find_named([instruction]))
    assert why_not(Change(path, "modified"), around) == answer


def test_what_the_task_names_is_the_agents():
    named = find_named(["Write /etc/ssl/openssl.cnf and `/usr/bin/mytool`; put hello.txt in the root folder."])
    around = replace(AROUND, named=named)
    assert why_not(Change("/etc/ssl/openssl.cnf", "modified"), around) is None
    assert why_not(Change("/usr/bin/mytool", "modified"), around) is None
    assert added("/hello.txt", around) is None


def test_what_the_verifier_installs_is_not_the_agents_to_bring():
    around = replace(AROUND, needs=VerifierNeeds(frozenset({"hurl", "flask"})))
    assert added("/usr/local/bin/hurl", around) == "a tool of the verifier"
    assert added(f"{SITE}/flask/__init__.py", around) == "a tool of the verifier"


paths = st.lists(st.text("abc._-/0 \xff", min_size=1, max_size=8), min_size=1, max_size=6).map(
    lambda parts: "/" + "/".join(parts)
)
tops = st.sampled_from(
    ["", "/usr/bin", "/usr/lib", "/etc", "/opt/venv/bin", "/root", "/root/.local", STDLIB, SITE, "/var/lib"]
)


@given(tops, paths, st.sampled_from(["added", "modified", "removed"]))
def test_every_path_has_an_answer(top, path, kind):
    why_not(Change(top + path, kind), AROUND)


@given(paths)
def test_nothing_of_the_image_s_programs_is_ever_the_agents_unless_named(path):
    assert why_not(Change(f"/usr/bin{path}", "modified"), AROUND) is not None


@pytest.mark.parametrize(
    ("path", "kind", "is_of_system"),
    [
        *(
            ("/root/.bashrc", "modified", True),
            ("/root/.curlrc", "added", True),
            ("/root/.config/git/x", "added", True),
        ),
        *(("/root/.local/bin/grep", "added", True), ("/root/.ssh/config", "added", True)),
        *(
            ("/root/.git/config", "added", False),
            ("/root/.env", "added", False),
            ("/root/.eslintrc", "modified", False),
        ),
        *(("/root/.github/workflows/x.yml", "modified", False), ("/root/.bashrc", "removed", False)),
        *(("/root/work/.bashrc", "added", False), ("/app/.bashrc", "added", False), ("/root/x.py", "added", False)),
    ],
)
def test_where_people_work_at_home_settings_of_tools_are_the_system_s_and_projects_are_not(path, kind, is_of_system):
    around = replace(AROUND, workdir="/root", homes=("/root",))
    assert bool(why_not_at_home(Change(path, kind), around)) is is_of_system


def test_a_home_that_is_named_means_no_settings_in_it():
    around = replace(AROUND, workdir="/home/al", homes=("/root", "/home/al"), named=find_named(["Work in /home/al."]))
    assert why_not_at_home(Change("/home/al/.bashrc", "added"), around)
    named = replace(around, named=find_named(["Add an alias to ~/.profile and /home/al/.bashrc."]))
    assert why_not_at_home(Change("/home/al/.bashrc", "added"), named) is None
