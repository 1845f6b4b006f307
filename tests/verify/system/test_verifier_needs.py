"""What a verifier's scripts install, and where they have Python look."""

from hypothesis import given
from hypothesis import strategies as st

from seatrial.verify.system.verifier_needs import find_needs


def test_programs_and_packages():
    needs = find_needs(
        ["apt-get update && apt-get install -y \\\n  curl hurl\nuvx -p 3.13 -w pytest==8.4.1 pytest /tests\n"]
    )
    assert needs.installs >= {"curl", "hurl", "pytest"}
    assert needs.uses_packages


def test_installers_of_uv():
    assert find_needs(["curl -LsSf https://astral.sh/uv/0.9.5/install.sh | sh"]).installs == {"uv", "uvx"}


def test_where_scripts_go_and_point():
    needs = find_needs(['cd "/app/sub" && PYTHONPATH=/srv/lib:/x/./y pytest\ncd /\ncd relative\npushd /work'])
    assert needs.folders == {"/app/sub", "/srv/lib", "/x/y", "/work"}


@given(st.lists(st.text(max_size=100), max_size=3))
def test_any_script_can_be_read(scripts):
    assert all(folder.startswith("/") for folder in find_needs(scripts).folders)
