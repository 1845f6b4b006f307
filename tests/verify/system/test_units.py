"""Units of a system that the task's own solution changes, and what an agent may leave in their place."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.record import FileChanges
from seatrial.verify.guard import Fingerprint
from seatrial.verify.system.named import find_named
from seatrial.verify.system.surroundings import Reason
from seatrial.verify.system.units import Expected, expected_among, find_units, package_lists
from tests.verify.system.test_rules import AROUND, SITE

LIST = "/var/lib/dpkg/info/tool.list"
LISTED = "/.\n/usr\n/usr/bin\n/usr/bin/tool\n/usr/share\n/usr/share/tool\n/bin/old\n"
OF_IMAGE: Reason = "of the image"
NONE: frozenset[str] = frozenset()


def units_of(*paths: str, lists: tuple[str, ...] = ()):
    return find_units(FileChanges(modified=paths), lists, {})


def stays(
    path: str, *changed: str, reason: Reason = OF_IMAGE, says: str = "", same: frozenset[str] = frozenset()
) -> bool:
    """Whether an agent may leave a file as it likes where the solution changes some."""
    around = replace(AROUND, named=find_named([says]))
    return path in expected_among(Expected(units_of(*changed), same), {path: reason}, around)


def test_a_package_of_the_distribution_is_all_that_its_list_has():
    changes = FileChanges(added=(LIST, "/var/lib/dpkg/info/tool.postinst"), modified=("/usr/bin/other",))
    assert package_lists(changes) == (LIST,)
    units = find_units(changes, [LISTED], {})
    assert all(map(units.has, ("/usr/bin/tool", "/usr/bin/other", "/usr/bin/old", "/bin/old")))


@pytest.mark.parametrize("path", ["/usr", "/usr/bin", "/usr/share", "/usr/bin/more", "/", "/bin", "/."])
def test_a_folder_in_a_list_is_no_part_of_the_package(path):
    assert not units_of(LIST, "/usr/share/more/x", lists=(LISTED,)).has(path)


def test_a_package_of_python_is_its_modules_and_its_metadata_in_any_version_and_place():
    units = units_of(f"{SITE}/my_kit/__init__.py")
    assert units.has(f"{SITE}/my_kit/more/part.py")
    assert units.has("/root/.local/lib/python3.9/site-packages/My.Kit-2.0.dist-info/METADATA")
    assert not units.has(f"{SITE}/your_kit/__init__.py")
    assert not units.has(f"{SITE}/my_kit.pth")


@pytest.mark.parametrize(
    "path",
    [
        "/etc/ld.so.cache",
        "/etc/ld.so.preload",
        "/etc/passwd",
        "/usr/lib/python3.11/__pycache__/json.cpython-311.pyc",
        f"{SITE}/easy-install.pth",
        f"{SITE}/kit/__pycache__/x.pyc",
        "/var/lib/dpkg/status",
        "/var/lib/dpkg/info/tool.postinst",
    ],
)
def test_what_many_units_write_into_belongs_to_none(path):
    assert not stays(path, path, f"{SITE}/kit/x.py")
    assert stays(path, path, same=frozenset({path}))


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/usr/bin/oldtool", ""),
        ("/etc/environment", ""),
        ("/root/.bashrc", ""),
        ("/usr/bin/grep", "Mend grep."),
        ("/usr/local/bin/python", "Another python is wanted."),
        (f"{SITE}/pip/__init__.py", "Repair pip."),
        ("/usr/lib/libz.so.1", "Replace /usr/lib/libz.so.1."),
        ("/data.txt", ""),
    ],
)
def test_a_unit_of_the_solutions_may_be_otherwise(path, says):
    assert stays(path, path, says=says)
    assert not stays(path, "/usr/bin/another", says=says)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/usr/bin/grep", ""),
        ("/usr/local/bin/python3", ""),
        ("/usr/lib/libz.so.1", ""),
        ("/usr/lib/python3.11/json/__init__.py", ""),
        (f"{SITE}/pip/__init__.py", ""),
        (f"{SITE}/pytest/__init__.py", "Install pytest."),
        (f"{SITE}/_pytest/main.py", "Install pytest."),
        (f"{SITE}/pytest_kit/main.py", "Install pytest-kit."),
    ],
)
def test_what_verifiers_are_made_of_is_the_solutions_own_or_the_images(path, says):
    assert not stays(path, path, says=says)
    assert stays(path, path, says=says, same=frozenset({path}))


@pytest.mark.parametrize("name", ["sitecustomize.py", "kit-1.dist-info/entry_points.txt"])
def test_what_is_loaded_by_itself_is_the_solutions_own_or_not_there(name):
    path = f"{SITE}/{name}"
    assert not stays(path, path, f"{SITE}/kit/x.py", reason="loaded by itself")
    assert stays(path, path, reason="loaded by itself", same=frozenset({path}))


def test_a_package_that_is_the_solutions_in_part_only_is_the_images():
    one, other = f"{SITE}/pip/one.py", f"{SITE}/pip/other.py"
    expected = Expected(units_of(one, other), frozenset({one}))
    assert expected_among(expected, {one: OF_IMAGE, other: OF_IMAGE}, AROUND) == frozenset()
    cached = f"{SITE}/pip/__pycache__/one.cpython-311.pyc"
    both = Expected(units_of(one, other), frozenset({one, other}))
    assert expected_among(both, dict.fromkeys((one, other, cached), OF_IMAGE), AROUND) == {one, other}


def test_the_same_content_is_the_same_unit_or_not():
    contents = {"/usr/bin/jq": Fingerprint("755 abc")}
    assert find_units(FileChanges(added=("/usr/bin/jq",)), (), contents).contents == contents


def test_a_package_beside_the_work_is_its_folder():
    assert units_of("/app/kit/__init__.py").has("/app/kit")
    assert not units_of("/app/kit/data.txt").has("/app/kit")


@given(st.lists(st.text("/abc.\n ", max_size=20), max_size=5), st.text("/abc.~", max_size=20))
def test_lists_of_strangers_add_only_what_they_list(lists, path):
    units = find_units(FileChanges(), lists, {})
    lines = {line for text in lists for line in text.splitlines()}
    known = lines | {f"/usr{line}" for line in lines} | {line.removeprefix("/usr") for line in lines}
    assert not units.has(path) or path in known
