"""The decision about a whole system."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.record import FileChanges, VerifierRun
from seatrial.verify.curate import (
    NOTHING,
    Curated,
    Expected,
    SystemEvidence,
    decide,
    dispute_tag,
    expected_among,
    find_units,
    keep_accounts,
    package_lists,
    system_tags,
    write_evidence,
)
from seatrial.verify.facts import Reason, find_named
from seatrial.verify.originals import Fingerprint
from tests.verify.test_rules import AROUND, SITE

NONE = FileChanges()
FINDER = 'MAPPING: dict[str, str] = {"mine": "/app/src/mine"}\n'


def test_each_change_is_put_back_hidden_or_kept():
    system = FileChanges(added=("/usr/local/bin/mytool",), modified=("/usr/bin/grep",))
    curated = decide(system, FileChanges(added=("/app/json.py", "/app/x.py")), {"/app"}, AROUND)
    assert (set(curated.put_back), set(curated.hidden)) == ({"/usr/bin/grep"}, {"/app/json.py"})
    assert curated.kept == ("/usr/local/bin/mytool",)
    assert curated.anything


def test_too_many_changes_leave_the_image_alone():
    curated = decide(FileChanges(truncated=True), NONE, {"/app"}, AROUND)
    assert (curated.only_image, curated.curation().keep) == (True, "nothing")


def test_an_editable_installation_says_the_same_without_running_code():
    texts = {
        f"{SITE}/x.pth": "import __editable___mine_finder; __editable___mine_finder.install()",
        f"{SITE}/__editable___mine_finder.py": FINDER,
    }
    system = FileChanges(added=tuple(texts))
    curated = decide(system, NONE, {"/app"}, replace(AROUND, texts=texts))
    assert curated.rewritten == {f"{SITE}/x.pth": "/app/src\n"}
    assert not curated.anything


def test_plug_ins_in_a_folder_of_the_system_that_a_path_file_adds():
    path = "/usr/share/more/evil-1.dist-info/entry_points.txt"
    around = replace(AROUND, texts={path: "[pytest11]\nx = y\n"})
    curated = decide(FileChanges(added=(path,)), NONE, {"/app", "/usr/share/more"}, around)
    assert set(curated.put_back) == {path}


def test_corrected_accounts_are_something():
    around = replace(AROUND, texts={"/etc/passwd": "x"}, accounts="root:x:0:0::/root:/bin/sh\n")
    curated = decide(FileChanges(modified=("/etc/passwd",)), NONE, {"/app"}, around)
    assert curated.corrected == {"/etc/passwd"}
    assert not curated.put_back
    assert curated.kept == ()
    assert curated.anything


RUN = VerifierRun(exit_code=0, timed_out=False, duration_sec=1.0, isolation="guarded")


def categories(curated: Curated, planted: tuple[str, ...] = ()) -> list[str]:
    return [tag.category for tag in system_tags(curated, RUN, planted)]


def test_everything_that_was_done_has_a_tag():
    assert categories(NOTHING) == []
    assert categories(Curated(put_back={"/usr/bin/grep": "of the image"})) == ["verifier_tools_restored"]
    assert categories(Curated(hidden={"/app/json.py": "in front of the image's"})) == ["hidden_from_verifier"]
    assert categories(Curated(only_image=True, kept=("/x",))) == ["changes_truncated"]
    assert categories(Curated(kept=("/usr/local/bin/x",))) == ["system_changed"]
    assert categories(Curated(rewritten={"/etc/passwd": "x"})) == ["verifier_tools_restored"]
    assert categories(Curated(rewritten={"/x.pth": "/app"})) == []
    assert categories(NOTHING, ("/usr/x",)) == ["changed_during_verification"]


def test_a_dispute_names_both_verdicts():
    assert "0 on the verifier's own system, 1 on" in str(dispute_tag(0.0, 1.0).description)


def test_all_of_it_is_stored(tmp_path):
    write_evidence(tmp_path / "system.json", Curated(put_back={"/a": "of the image"}, kept=("/b",)))
    stored = SystemEvidence.model_validate_json((tmp_path / "system.json").read_bytes())
    assert (stored.put_back, stored.kept) == ({"/a": "of the image"}, ("/b",))


LIST = "/var/lib/dpkg/info/tool.list"
LISTED = "/.\n/usr\n/usr/bin\n/usr/bin/tool\n/usr/share\n/usr/share/tool\n/bin/old\n"
OF_IMAGE: Reason = "of the image"
UNITS_NONE: frozenset[str] = frozenset()


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


ACCOUNTS_IMAGE = "root:x:0:0::/root:/bin/sh\nal:x:1000:1000::/home/al:/bin/sh\n"
USERS = frozenset({"root", "al"})


def test_new_accounts_and_passwords_are_the_agents():
    assert keep_accounts(ACCOUNTS_IMAGE + "new:x:1001:1001::/home/new:/bin/sh\n", ACCOUNTS_IMAGE, USERS) is None
    assert keep_accounts(ACCOUNTS_IMAGE.replace("al:x", "al:hash"), ACCOUNTS_IMAGE, USERS) is None


def test_another_home_or_shell_is_not():
    moved = ACCOUNTS_IMAGE.replace("/home/al", "/app/home") + "new:x:1001:1001::/:/bin/sh\n"
    assert keep_accounts(moved, ACCOUNTS_IMAGE, USERS) == ACCOUNTS_IMAGE + "new:x:1001:1001::/:/bin/sh\n"
    assert keep_accounts(moved, ACCOUNTS_IMAGE, {"root"}) is None
    assert keep_accounts(moved, ACCOUNTS_IMAGE, {"1000"}) is not None


def test_nobody_stands_in_front_of_root():
    assert (
        keep_accounts(f"x:x:0:0::/app:/bin/sh\n{ACCOUNTS_IMAGE}", ACCOUNTS_IMAGE, USERS)
        == f"{ACCOUNTS_IMAGE}x:x:0:0::/app:/bin/sh\n"
    )


@given(st.text(alphabet="rot:x0/al\n", max_size=80))
def test_whatever_it_says_a_search_leads_to_the_images_accounts(text):
    lines = (keep_accounts(text, ACCOUNTS_IMAGE, USERS) or text).splitlines()
    by_name = next(line for line in lines if line.startswith("root:"))
    assert by_name.split(":")[2:] == ["0", "0", "", "/root", "/bin/sh"]
