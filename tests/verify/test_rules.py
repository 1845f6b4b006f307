"""Which changes to the system a verifier does not get to see."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.verify.facts import ACCOUNTS, Change, Surroundings, SystemFacts, VerifierNeeds, find_named, find_needs
from seatrial.verify.rules import (
    covered_by,
    hidden_in,
    is_home_setting,
    may_announce_plugins,
    may_be_links,
    module_folders,
    why_not,
    why_not_at_home,
    why_not_elsewhere,
    why_not_home_setting,
    why_not_setting,
)

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


SETTINGS_RULES_FACTS = SystemFacts(
    programs=frozenset({"git", "curl", "nginx"}), settings=frozenset({"ssl", "apt", "nginx", "passwd"})
)
SETTINGS_RULES_AROUND = Surroundings(SETTINGS_RULES_FACTS, texts={ACCOUNTS: ""})


def judged(path: str, kind: str = "added", instruction: str = "") -> str | None:
    around = Surroundings(SETTINGS_RULES_FACTS, find_named([instruction]), texts={ACCOUNTS: ""})
    return why_not_setting(Change(path, kind), around)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "path",
    [ACCOUNTS, "/etc/shadow", "/etc/hosts", "/etc/crontab", "/etc/cron.d/job", "/etc/sudoers.d/x", "/etc/init.d/own"],
)
def test_accounts_names_and_services_are_the_agents(path):
    assert judged(path) is None


def test_a_service_of_the_image_is_not():
    assert judged("/etc/init.d/cron", "modified") == "not named"


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/etc/ld.so.preload",
            "/etc/nsswitch.conf",
            "/etc/profile.d/x.sh",
            "/etc/apt/apt.conf.d/99x",
            "/etc/pip.conf",
        ),
        *("/etc/gitconfig", "/etc/ssl/openssl.cnf", "/etc/environment", "/etc/uv/uv.toml", "/etc/curlrc"),
    ],
)
@pytest.mark.parametrize("kind", ["added", "modified", "removed"])
def test_what_tools_read_is_the_images(path, kind):
    assert judged(path, kind) == "not named"


@pytest.mark.parametrize(
    ("path", "instruction"),
    [
        ("/etc/nginx/nginx.conf", "Configure nginx."),
        ("/etc/nginx/conf.d/site.conf", "Write to /etc/nginx/conf.d."),
        ("/etc/ssl/openssl.cnf", "Mend `/etc/ssl/openssl.cnf`."),
        ("/etc/motd.conf", "Edit motd.conf."),
    ],
)
def test_what_the_task_names_is_the_agents_in_settings_rules(path, instruction):
    assert judged(path, "modified", instruction) is None


def test_a_word_opens_no_settings_that_everybody_reads():
    assert judged("/etc/ssl/openssl.cnf", "modified", "Make an SSL certificate with openssl.") == "not named"


def test_settings_of_a_program_that_the_image_does_not_have_come_with_it():
    assert judged("/etc/redis/redis.conf") is None
    assert judged("/etc/gitweb.conf") == "not named"


def test_a_hook_is_one_wherever_it_is():
    assert judged("/etc/redis/sitecustomize.py") == "loaded by itself"


@pytest.mark.parametrize(("inside", "is_setting"), [(".bashrc", True), (".env", True), (".config/git/config", True)])
def test_dot_files_at_home_are_settings(inside, is_setting):
    assert is_home_setting(inside, "/root", SETTINGS_RULES_AROUND) is is_setting


def test_where_people_work_at_home_other_dot_files_are_their_work():
    at_home = Surroundings(SETTINGS_RULES_FACTS, workdir="/root")
    assert not is_home_setting(".env", "/root", at_home)
    assert is_home_setting(".bashrc", "/root", at_home)


def test_settings_of_git_that_run_nothing_stay():
    harmless = Surroundings(SETTINGS_RULES_FACTS, texts={"/root/.gitconfig": "[user]\nname = me\n"})
    harmful = Surroundings(SETTINGS_RULES_FACTS, texts={"/root/.gitconfig": "[core]\nfsmonitor = /app/x\n"})
    change = Change("/root/.gitconfig", "added")
    assert why_not_home_setting(change, harmless) is None
    assert why_not_home_setting(change, harmful) == "not named"
    assert why_not_home_setting(change, SETTINGS_RULES_AROUND) == "not named"


def test_settings_beside_local_programs_have_to_be_named():
    change = Change("/usr/local/etc/npmrc", "added")
    assert why_not_elsewhere(change, SETTINGS_RULES_AROUND) == "not named"
    assert (
        why_not_elsewhere(change, Surroundings(SETTINGS_RULES_FACTS, find_named(["See /usr/local/etc/npmrc."]))) is None
    )


APP = frozenset({"/app"})


def hidden(path: str, kind="added", around: Surroundings | None = None) -> list[str]:
    return list(hidden_in([Change(path, kind)], APP, around or Surroundings()))


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/app/json.py", "/app/json.py"),
        ("/app/json/__init__.py", "/app/json"),
        ("/app/json/__init__.pyc", "/app/json"),
        ("/app/json", "/app/json"),
        ("/app/json.cpython-311-x86_64-linux-gnu.so", "/app/json.cpython-311-x86_64-linux-gnu.so"),
        ("/app/_pytest/__init__.py", "/app/_pytest"),
        ("/app/org/python/core.py", "/app/org"),
        ("/app/msvcrt.py", "/app/msvcrt.py"),
        ("/srv/x/sitecustomize.py", "/srv/x/sitecustomize.py"),
        ("/app/evil-1.dist-info", "/app/evil-1.dist-info"),
        ("/app/evil-1.dist-info/entry_points.txt", "/app/evil-1.dist-info/entry_points.txt"),
    ],
)
def test_what_python_and_pytest_would_take_for_their_own(path, place):
    assert hidden(path) == [place]


@pytest.mark.parametrize(
    "path",
    [
        "/app/main.py",
        "/app/json.txt",
        "/app/src/json.py",
        "/app/json/decoder.py",
        "/app/tests/__init__.py",
        "/srv/json.py",
        "/app/organ.py",
    ],
)
def test_everything_else_is_honest_work(path):
    assert hidden(path) == []


def test_what_the_task_asks_for_is_there():
    around = Surroundings(named=find_named(["Write /app/json.py and calendar.py."]))
    assert hidden("/app/json.py", around=around) == []
    assert hidden("/app/calendar.py", around=around) == []


@pytest.mark.parametrize(
    "instruction", ["Write a `calendar` module.", "Create a Python package called calendar in /app."]
)
def test_so_is_a_module_that_somebody_is_asked_to_write(instruction):
    assert hidden("/app/calendar/__init__.py", around=Surroundings(named=find_named([instruction]))) == []


@pytest.mark.parametrize("instruction", ["Write a program that uses the calendar module.", "Mind calendar packages."])
def test_one_that_is_to_be_used_is_not(instruction):
    assert hidden("/app/calendar.py", around=Surroundings(named=find_named([instruction]))) == ["/app/calendar.py"]


def test_modules_of_the_image_s_interpreters_and_those_that_the_verifier_installs():
    around = Surroundings(importable={"yaml"}, needs=find_needs(["pip install Flask"]))
    assert hidden("/app/yaml.py", around=around) == ["/app/yaml.py"]
    assert hidden("/app/yaml/__init__.py", around=around) == ["/app/yaml"]
    assert hidden("/app/flask.py", around=around) == ["/app/flask.py"]
    assert hidden("/app/yaml.txt", around=around) == hidden("/app/click.py", around=around) == []


def test_a_program_that_is_no_link_may_be_called_as_a_module_is():
    around = Surroundings(plain_files=frozenset({"/app/token"}))
    assert hidden("/app/token", around=around) == []
    assert hidden("/app/select", around=around) == ["/app/select"]
    changes = [Change("/app/token", "added"), Change("/app/json.py", "added"), Change("/srv/select", "added")]
    assert may_be_links(changes, APP) == ("/app/token",)


def test_plug_ins_of_an_egg_and_of_metadata_that_the_image_has():
    around = Surroundings(texts={"/app/x.egg-info/entry_points.txt": "[console_scripts]\n"})
    assert hidden("/app/x.egg-info/entry_points.txt", "modified", around=around) == []
    around = replace(around, texts={"/app/x.egg-info/entry_points.txt": "[pytest11]\n"})
    assert hidden("/app/x.egg-info/entry_points.txt", "modified", around=around) != []
    assert may_announce_plugins("/app/x.egg/EGG-INFO/entry_points.txt", {"/app/x.egg"})


def test_folders_of_modules():
    assert module_folders(["/app", "relative"], ["/srv/lib/:x", None]) == {"/app", "/srv/lib"}


@pytest.mark.parametrize(
    ("path", "other"),
    [
        ("/usr/local/include/stdio.h", "/usr/include/stdio.h"),
        ("/usr/local/lib/pkgconfig/zlib.pc", "/usr/lib/pkgconfig/zlib.pc"),
        ("/usr/lib/gcc/x86_64-linux-gnu/12/as", "/usr/bin/as"),
        ("/usr/lib/gcc/x86_64-linux-gnu/12/crt1.o", "/usr/lib/x86_64-linux-gnu/crt1.o"),
        ("/usr/lib/gcc/x86_64-linux-gnu/12/include/stdio.h", "/usr/include/stdio.h"),
        ("/usr/x86_64-linux-gnu/bin/as", "/usr/bin/as"),
        ("/usr/include/x86_64-linux-gnu/stdio.h", "/usr/include/stdio.h"),
        ("/usr/lib/x86_64-linux-gnu/perl/x", "/usr/lib/perl/x"),
    ],
)
def test_the_same_name_where_tools_look_later(path, other):
    assert other in covered_by(path)
    assert path not in covered_by(path)


@pytest.mark.parametrize("path", ["/usr/local/share/man/man1/git.1", "/etc/hosts", "/opt/x/include/stdio.h", "/app/x"])
def test_nothing_else(path):
    assert covered_by(path) == ()
