"""The decision about a whole system."""

from dataclasses import replace

from seatrial.model.record import FileChanges
from seatrial.verify.system.curate import decide
from tests.verify.system.test_rules import AROUND, SITE

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
