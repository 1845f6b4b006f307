"""Which files a task has, which links and special files it must not have, and how its text files are read."""

import os
import stat

import pytest

from seatrial.errors import OversizeError
from seatrial.model.task import TaskLayout
from seatrial.tasks.layout import Bounds, TaskFiles, list_files, read_layout, read_text, walk


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "task"
    (root / "tests").mkdir(parents=True)
    (root / "tests/test.sh").write_text("")
    (tmp_path / "outside.txt").write_text("secret")
    return root


def files_of(*names):
    return TaskFiles(frozenset(names), frozenset(), (), ())


def test_files_of_any_depth_and_name_are_listed(folder):
    (folder / "tests/data/deep er").mkdir(parents=True)
    (folder / "tests/data/deep er/größe.csv").write_text("")
    assert list_files(folder).regular == {"tests/test.sh", "tests/data/deep er/größe.csv"}


@pytest.mark.parametrize("name", [".git", "__pycache__", ".pytest_cache", ".venv", "node_modules"])
def test_folders_that_tools_leave_behind_are_not_looked_into(folder, name):
    (folder / "tests" / name).mkdir()
    (folder / "tests" / name / "file").write_text("")
    (folder / "tests" / f"{name}.txt").write_text("")
    assert list_files(folder).regular == {"tests/test.sh", f"tests/{name}.txt"}


@pytest.mark.parametrize(
    "target",
    ["test.sh", "../tests/test.sh", "..", ".", "not-there", "../not-there"],
    ids=["file", "through ..", "the task", "its own folder", "dangling", "dangling above"],
)
def test_a_link_that_stays_inside_is_fine(folder, target):
    (folder / "tests/link").symlink_to(target)
    files = list_files(folder)
    assert files.has("tests/link")
    assert files.escaping == ()


@pytest.mark.parametrize(
    "target",
    ["../../outside.txt", "/etc/passwd", "/etc", "../..", "/not-there", "../../task-2", "../../task/../outside.txt"],
    ids=["file", "absolute", "folder", "parent", "dangling", "namesake", "through .."],
)
def test_a_link_that_leads_out_is_told_apart(folder, target):
    (folder / "tests/link").symlink_to(target)
    assert list_files(folder).escaping == ("tests/link",)


def test_a_link_that_leads_out_through_another_one_is_told_apart(folder):
    (folder / "up").symlink_to("..")
    (folder / "file").symlink_to("up/outside.txt")
    assert list_files(folder).escaping == ("file", "up")


def test_a_link_to_itself_leads_nowhere(folder):
    (folder / "loop").symlink_to("loop")
    files = list_files(folder)
    assert files.has("loop")
    assert files.escaping == ()


def test_a_linked_folder_is_not_walked(folder):
    (folder / "again").symlink_to(folder)
    assert list_files(folder).regular == {"tests/test.sh"}


@pytest.mark.parametrize("kind", [stat.S_IFIFO, stat.S_IFSOCK], ids=["pipe", "socket"])
def test_special_files_are_told_apart(folder, kind):
    os.mknod(folder / "tests/odd", kind | 0o600)
    assert list_files(folder).special == ("tests/odd",)
    assert not list_files(folder).has("tests/odd")


def test_a_folder_that_is_not_there_raises(tmp_path):
    with pytest.raises(FileNotFoundError):
        list_files(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"", ""), ("Maß\r\n".encode(), "Maß\r\n"), (b"\xef\xbb\xbfhello", "hello"), (b"12345678", "12345678")],
    ids=["empty", "as it stands", "without BOM", "at the limit"],
)
def test_text_is_read(tmp_path, data, text):
    (tmp_path / "file").write_bytes(data)
    assert read_text(tmp_path / "file", 8) == text


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"123456789", "it has more than 8 bytes"),
        (b"abc\xff", "it is not UTF-8 text: byte 0xff at offset 3"),
        (b"\xed\xa0\x80", "it is not UTF-8 text: byte 0xed at offset 0"),
    ],
    ids=["too large", "not UTF-8", "surrogate"],
)
def test_text_that_cannot_be_read_is_explained(tmp_path, data, reason):
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(ValueError, match=f"^{reason}$"):
        read_text(tmp_path / "file", 8)


def test_a_huge_file_is_refused_by_its_size_alone(tmp_path):
    with (tmp_path / "file").open("wb") as file:
        file.truncate(2**33)
    with pytest.raises(ValueError, match="more than 1,000 bytes"):
        read_text(tmp_path / "file", 1000)


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ValueError, match="it is not a regular file"):
            read_text(path, 8)


@pytest.mark.parametrize("kind", ["missing", "socket", "loop"])
def test_what_cannot_be_opened_is_explained_in_the_words_of_the_system(tmp_path, kind):
    if kind == "socket":
        os.mknod(tmp_path / kind, stat.S_IFSOCK | 0o600)
    elif kind == "loop":
        (tmp_path / kind).symlink_to(kind)
    reason = {"missing": "No such file", "socket": "No such device", "loop": "Too many levels"}[kind]
    with pytest.raises(ValueError, match=reason):
        read_text(tmp_path / kind, 8)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], {}),
        (["instruction.md", "trajectory.json"], {"instruction": "instruction.md", "trajectory": "trajectory.json"}),
        (["environment/Dockerfile"], {"dockerfile": "environment/Dockerfile", "environment_files": True}),
        (["environment/data/x.csv"], {"environment_files": True}),
        (["environment/compose.yml", "environment/docker-compose.yaml"],
         {"compose_file": "environment/docker-compose.yaml", "environment_files": True}),
        (["tests/test.sh", "tests/Dockerfile"],
         {"test_script": "tests/test.sh", "verifier_dockerfile": "tests/Dockerfile"}),
        (["tests/docker-compose.yml"], {"verifier_compose_file": "tests/docker-compose.yml"}),
        (["solution/solve.sh", "solution/solve.py"], {"solution_script": "solution/solve.sh"}),
        (["solution/solve.py"], {"solution_script": "solution/solve.py"}),
        (["tests/test.bat", "solution/solve.bat", "test.sh"], {}),
    ],
    ids=["nothing", "texts", "Dockerfile", "loose files", "compose", "tests", "tests compose", "solution",
         "wild 7: solve.py", "not for Linux"],
)  # fmt: skip
def test_the_layout_of_a_linux_task(names, expected):
    assert read_layout(files_of(*names), "linux") == TaskLayout(**expected)


def test_a_windows_task_sees_batch_files_only():
    files = files_of("tests/test.sh", "tests/test.bat", "solution/solve.sh", "solution/solve.bat")
    expected = TaskLayout(test_script="tests/test.bat", solution_script="solution/solve.bat")
    assert read_layout(files, "windows") == expected


def test_a_step_has_its_own_files_and_shares_the_root_tests():
    files = files_of(
        "instruction.md", "solution/solve.sh", "tests/test.sh", "steps/a/instruction.md", "steps/b/tests/test.sh",
        "steps/b/tests/Dockerfile", "steps/b/solution/solve.sh", "steps/b/trajectory.json",
    )  # fmt: skip
    assert read_layout(files, "linux", "steps/a/") == TaskLayout(
        instruction="steps/a/instruction.md", test_script="tests/test.sh"
    )
    assert read_layout(files, "linux", "steps/b/") == TaskLayout(
        test_script="steps/b/tests/test.sh",
        verifier_dockerfile="steps/b/tests/Dockerfile",
        solution_script="steps/b/solution/solve.sh",
        trajectory="steps/b/trajectory.json",
    )


def sparse(path, size):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


def test_a_folder_of_many_gigabytes_is_refused_by_its_sizes_alone(folder):
    sparse(folder / "tests/data.bin", 50 * 2**30)
    with pytest.raises(OversizeError, match=r"50\.0 GiB, the limit is 4\.0 GiB; the largest: tests/data\.bin \(50"):
        list_files(folder)


def test_many_small_files_count_together(folder):
    for number in range(4):
        sparse(folder / f"tests/{number}", 2**20)
    assert len(walk(str(folder), Bounds(max_bytes=4 * 2**20))[0]) == 5
    with pytest.raises(OversizeError, match=r"4\.0 MiB, the limit is 3\.0 MiB"):
        walk(str(folder), Bounds(max_bytes=3 * 2**20))


def test_more_entries_than_any_task_has_are_not_counted_to_the_end(folder):
    for number in range(20):
        (folder / f"{number}").mkdir()
    with pytest.raises(OversizeError, match="more than 10 files and directories"):
        walk(str(folder), Bounds(entries=10))


def test_directories_nested_without_end_are_refused(folder):
    deep = folder.joinpath(*["d"] * 101)
    deep.mkdir(parents=True)
    assert list_files(folder).regular == {"tests/test.sh"}
    (deep / "file").write_text("")
    with pytest.raises(OversizeError, match="nested more than 100 deep"):
        list_files(folder)


def test_what_tools_leave_behind_does_not_count_unless_asked_for(folder):
    sparse(folder / "node_modules/x", 50 * 2**30)
    list_files(folder)
    with pytest.raises(OversizeError):
        walk(str(folder), Bounds(), ignored=())
