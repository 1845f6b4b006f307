"""What an image has where tools look for things."""

import pytest

from seatrial.sandbox.api import Image, ImageConfig
from seatrial.verify.system.facts import (
    distribution_name,
    first_to_list,
    make_facts,
    more_to_list,
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
