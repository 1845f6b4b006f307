"""What an image has where tools look for things."""

import importlib.metadata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.sandbox.api import Image, ImageConfig
from seatrial.verify.facts import (
    announces_plugins,
    distribution_name,
    find_named,
    find_needs,
    first_to_list,
    folders_in_python,
    imported_modules,
    is_harmless_git_config,
    is_harmless_path_file,
    make_facts,
    more_to_list,
    path_folders,
    program_folders,
    python_folders_of,
    startup_files,
    system_folders,
)

IMAGE = Image("x", config=ImageConfig(env={"PATH": "/opt/venv/bin:/app/bin:/root/conda/bin:/usr/bin:relative"}))


def test_programs_are_looked_for_where_the_image_says_and_where_they_usually_are():
    assert program_folders(IMAGE)[:4] == ("/opt/venv/bin", "/app/bin", "/root/conda/bin", "/usr/bin")
    assert "/usr/local/sbin" in program_folders(IMAGE)


def test_a_folder_of_programs_stands_for_what_it_belongs_to_unless_people_work_there():
    assert system_folders(IMAGE, "/app") == ("/app/bin", "/root/conda")


def test_what_was_listed_says_what_to_list_next():
    first = first_to_list(("/usr/bin", "/opt/venv/bin"))
    assert {"/usr/bin", "/opt/venv/lib", "/etc"} <= first
    more = more_to_list({"/usr/lib": frozenset({"python3.11", "x86_64-linux-gnu"}), "/usr/share": frozenset({"perl5"})})
    assert {"/usr/lib/python3.11/lib-dynload", "/usr/lib/x86_64-linux-gnu", "/usr/share/perl5"} <= more


def test_facts_of_listed_folders():
    facts = make_facts(
        ("/usr/bin",),
        {
            "/usr/bin": frozenset({"grep"}),
            "/usr/lib": frozenset({"libz.so.1", "python3.11"}),
            "/usr/lib/python3.11": frozenset({"json", "os.py"}),
            "/etc": frozenset({"passwd"}),
        },
    )
    assert facts.programs == {"grep"}
    assert facts.libraries == {"libz.so.1"}
    assert facts.settings == {"passwd"}
    assert facts.python_modules == {"json", "os"}


@pytest.mark.parametrize(
    ("entry", "name"),
    [("Evil_X-1.0.dist-info", "evil-x"), ("evil.EGG-INFO", "evil"), ("a.b-2-py3.11.egg", "a-b"), ("json", None)],
)
def test_distributions_in_any_letters(entry, name):
    assert distribution_name(entry) == name


def test_pythons_in_odd_places_are_found_by_what_was_changed_there():
    home = "/srv/pythons/3.11/lib/python3.11"
    changed = [f"{home}/site-packages/x.pth", f"{home}/json/x.py", "/usr/share/x"]
    assert python_folders_of(changed) == {f"{home}/site-packages", home}


def test_what_python_runs_at_its_start():
    site = "/opt/venv/lib/python3.11/site-packages"
    files = startup_files({site: frozenset({"x.pth", "sitecustomize.py", "y.py"}), "/usr/lib/python3.11": frozenset()})
    assert files >= {f"{site}/x.pth", f"{site}/sitecustomize.py", "/etc/python3.11/sitecustomize.py"}
    assert f"{site}/y.py" not in files


def test_files_folders_and_words():
    named = find_named(["Edit `/etc/nginx/nginx.conf`, ~/.vimrc and $HOME/x; configure Postgres."])
    assert named.has_file("/etc/nginx/nginx.conf")
    assert named.has_file("/root/.vimrc")
    assert named.has_file("/root/x")
    assert named.has_word("POSTGRES")
    assert not named.has_file("/etc/nginx")


def test_a_folder_means_what_is_in_it_unless_it_is_too_wide():
    named = find_named(["Put files into /etc/nginx/ and programs into /usr/local/bin."])
    assert named.has_folder_of("/etc/nginx/conf.d/x.conf")
    assert not named.has_folder_of("/usr/local/bin/grep")


@pytest.mark.parametrize(
    ("text", "named", "other"),
    [
        ("Install jq and use it.", "jq", "it"),
        ("Go on. The package `nc` is missing.", "nc", "go"),
        ("`apt-get install -y bc`", "bc", "an"),
        ("python3-pip must be installed.", "pip", "be"),
        ("Add the Python package foo.", "foo", "jq"),
    ],
)
def test_programs_and_packages_of_short_and_long_names(text, named, other):
    found = find_named([text])
    assert found.has_program(named)
    assert not found.has_program(other)


def test_a_short_word_names_a_program_only_where_packages_are_talked_about():
    assert not find_named(["Write what `jq` prints."]).has_program("jq")


@given(st.text(max_size=200), st.text("/abc.~*", min_size=1, max_size=20))
def test_any_text_can_be_asked(text, path):
    named = find_named([text])
    named.has_file(path)
    named.has_folder_of(f"/{path}")
    assert not named.has_folder_of("/x")


def test_programs_and_packages():
    needs = find_needs(
        ["apt-get update && apt-get install -y \\\n  curl hurl\nuvx -p 3.13 -w pytest==8.4.1 pytest /tests\n"]
    )
    assert needs.installs >= {"curl", "hurl", "pytest"}
    assert needs.uses_packages
    assert needs.modules == {"pytest"}


def test_modules_are_what_installers_of_python_get():
    needs = find_needs(["pip install -q Ruamel.yaml\napt-get install -y tree\nuv run solve\nuv pip install numpy"])
    assert needs.modules == {"ruamel-yaml", "numpy"}


def test_installers_of_uv():
    assert find_needs(["curl -LsSf https://astral.sh/uv/0.9.5/install.sh | sh"]).installs == {"uv", "uvx"}


def test_where_scripts_go_and_point():
    needs = find_needs(['cd "/app/sub" && PYTHONPATH=/srv/lib:/x/./y pytest\ncd /\ncd relative\npushd /work'])
    assert needs.folders == {"/app/sub", "/srv/lib", "/x/y", "/relative", "/work"}


@pytest.mark.parametrize(
    ("script", "folders"),
    [
        ('export PLACE=/srv/work\ncd "$PLACE" && pytest', {"/srv/work"}),
        ('TOP="/srv"\nSUB=$TOP/deep\ncd "${SUB}/er"', {"/srv/deep/er"}),
        ("cd ${WHERE:-/srv/usual}", {"/srv/usual"}),
        ("cd sub\ncd ../other; cd -- deep", {"sub", "other", "other/deep"}),
        ('cd "$1"; cd $(mktemp -d); cd "$NOBODY_KNOWS/x"', set()),
    ],
)
def test_where_scripts_go_by_variables_and_step_by_step(script, folders):
    assert find_needs([script]).folders == folders


@pytest.mark.parametrize(
    ("code", "folders"),
    [
        ("subprocess.run(['x'], cwd='/srv/work')", {"/srv/work"}),
        ("TOP = Path('/srv')\nrun(cwd=str(TOP / 'a' / 'b'))", {"/srv/a/b"}),
        ("def test(monkeypatch):\n    monkeypatch.chdir('sub')\n    os.chdir(UNKNOWN)", {"sub"}),
        ("run(cwd=tmp_path)\nrun(cwd=Path(where) / 'x')\nrun(cwd=None)", set()),
        ("not python (", set()),
        ("\0", set()),
    ],
)
def test_where_python_starts_programs(code, folders):
    assert folders_in_python(code) == folders


@given(st.lists(st.one_of(st.text(max_size=100), st.text("cd $={}:-/ab\n\"'", max_size=40)), max_size=3))
def test_any_script_can_be_read(scripts):
    assert all("$" not in folder for folder in find_needs(scripts).folders)
    assert all(isinstance(folder, str) for script in scripts for folder in folders_in_python(script))


@pytest.mark.parametrize("text", ["", "# note\n/app/src\n", "/opt/x-1.0/lib\n\n"])
def test_path_files_that_only_add_folders(text):
    assert is_harmless_path_file(text)


@pytest.mark.parametrize("text", [None, "import os", "import\tos", "/app\nimport x", "/app\x0cimport x", "relative"])
def test_path_files_that_do_more(text):
    assert not is_harmless_path_file(text)


def test_the_folders_that_they_add():
    assert path_folders("# x\n/app/./src/\nimport os\n") == {"/app/src"}
    assert path_folders(None) == frozenset()


@pytest.mark.parametrize(
    "text", [None, "[pytest11]\n", " [ pytest11 ]", "[[pytest11]]", "[x]\n\x0c[pytest11]\x0c", "[distutils.commands]"]
)
def test_plug_ins_are_announced_in_any_brackets(text):
    assert announces_plugins(text)


@given(st.text(alphabet="[]pytes1 \n\x0c\x1cx=", max_size=60))
def test_what_importlib_takes_for_plug_ins_is_seen(text):
    found = importlib.metadata.EntryPoints._from_text(text)  # type: ignore[attr-defined]
    try:
        groups = {point.group for point in found}
    except (AttributeError, ValueError, TypeError):
        return
    if "pytest11" in groups:
        assert announces_plugins(text)


def test_scripts_are_no_plug_ins():
    assert not announces_plugins("[console_scripts]\nx = x:main\n")


def test_modules_that_code_asks_for():
    text = "try:\n    import apport_python_hook\nexcept ImportError: pass\nimport os; import more\nfrom a.b import c\n"
    assert imported_modules(text) == {"apport_python_hook", "os", "more", "a"}


@pytest.mark.parametrize("text", ["[user]\nname = A\n", "[safe]\n\tdirectory = *\n# x\n"])
def test_git_settings_about_people_and_folders(text):
    assert is_harmless_git_config(text)


@pytest.mark.parametrize(
    "text", [None, "[core]\nfsmonitor = x", "[include]\npath = x", "[user]\nname = x\\\n", "[alias] x = !y"]
)
def test_git_settings_that_name_programs_or_files(text):
    assert not is_harmless_git_config(text)
