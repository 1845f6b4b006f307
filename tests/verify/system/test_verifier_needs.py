"""What a verifier's scripts install, and where they have Python look."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.verify.system.verifier_needs import find_needs, folders_in_python


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
