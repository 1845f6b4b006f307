"""One folder to one task: what the wild brings is accepted, what is broken is reported whole, and nothing raises."""

import os
import shutil
import stat
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import DatasetNotFoundError, TaskFormatError
from seatrial.model.base import to_json
from seatrial.model.job import TaskLabels
from seatrial.model.loaded_task import BrokenTask, SkippedFolder, Task
from seatrial.model.task import StepSpec, TaskConfig
from seatrial.tasks.layout import list_files
from seatrial.tasks.load import labels_of, load_dataset, load_task, read_folder, scan

TEST_SH = "#!/bin/sh\n"


def broken(root):
    """`file: key: message` of each problem of a folder that must not load."""
    found = read_folder(root, "some/id")
    assert isinstance(found, BrokenTask)
    assert (found.id, found.root) == ("some/id", root)
    return [str(problem) for problem in found.problems]


def test_a_task_has_its_folders_name_as_id_and_its_packages_name(make_task):
    task = load_task(make_task("pump", toml='[task]\nname = "acme/pump-selection"'))
    assert (task.id, task.name, task.root.name) == ("pump", "acme/pump-selection", "pump")
    assert read_folder(task.root, "sets/a/pump").id == "sets/a/pump"


def test_wild_4_a_task_without_a_name_is_called_like_its_folder(make_task):
    assert load_task(make_task("Übung 1")).name == "Übung 1"


def test_a_task_survives_the_round_trip_through_json(make_task):
    task = load_task(make_task(toml='odd = 1\n[[steps]]\nname = "a"', files={"steps/a/instruction.md": "Go."}))
    assert Task.model_validate_json(to_json(task)) == task


@pytest.mark.parametrize(
    ("toml", "dockerfile", "image"),
    [
        ('environment.docker_image = "busybox"', None, "busybox"),
        ("", "FROM busybox", None),
        ("", None, None),
        ('environment.docker_image = "busybox"', "FROM debian", "busybox"),
    ],
    ids=["image only", "Dockerfile only", "neither", "both"],
)
def test_wild_5_image_and_dockerfile_in_every_combination(make_task, toml, dockerfile, image):
    task = load_task(make_task(toml=toml, files={"environment/Dockerfile": dockerfile} if dockerfile else None))
    assert task.config.environment.docker_image == image
    assert task.layout.dockerfile == ("environment/Dockerfile" if dockerfile else None)
    assert task.problems == ()


def test_wild_7_solutions_may_be_missing_or_python_and_scripts_need_no_executable_bit(make_task):
    task = load_task(make_task("bare"))
    assert task.layout.solution_script is None
    assert not (task.root / "tests/test.sh").stat().st_mode & 0o111
    files = {"solution/solve.py": "", "tests/data/a/b/c.txt": ""}
    assert load_task(make_task("python", files=files)).layout.solution_script == "solution/solve.py"


def test_wild_8_steps_need_no_instruction_or_tests_at_the_root(make_task):
    root = make_task(
        toml='[[steps]]\nname = "1_core"\nmin_reward = 1.0\n[[steps]]\nname = "2_more"\ndependencies = ["1_core"]',
        instruction=None,
        files={
            "steps/1_core/instruction.md": "Write /workspace/a.json",
            "steps/1_core/tests/test.sh": TEST_SH,
            "steps/2_more/instruction.md": "# canary 1\nWrite /workspace/b.json",
            "steps/2_more/tests/test.sh": TEST_SH,
        },
    )
    shutil.rmtree(root / "tests")
    task = load_task(root)
    assert [step.spec for step in task.steps] == [StepSpec(name="1_core", min_reward=1.0), StepSpec(name="2_more")]
    assert [step.output.path for step in task.steps] == ["/workspace/a.json", "/workspace/b.json"]
    assert [step.verifier.script for step in task.steps] == [f"steps/{n}/tests/test.sh" for n in ("1_core", "2_more")]
    assert (task.output, task.verifier) == (task.steps[-1].output, task.steps[-1].verifier)


def test_steps_share_the_tests_of_the_root(make_task):
    task = load_task(make_task(toml='[[steps]]\nname = "a"', files={"steps/a/instruction.md": "Go."}))
    assert task.steps[0].verifier.script == "tests/test.sh"


def test_a_step_without_a_folder_is_reported(make_task):
    root = make_task(toml='[[steps]]\nname = "a"\n[[steps]]\nname = "b"', files={"steps/a/instruction.md": "Go."})
    assert broken(root) == ["steps/b/instruction.md: the file is missing"]


def test_wild_12_a_variable_that_is_not_set_does_not_stop_loading(make_task):
    task = load_task(make_task(toml='[verifier.env]\nKEY = "${SEATRIAL_UNSET}"'))
    assert task.config.verifier.env == {"KEY": "${SEATRIAL_UNSET}"}


def test_wild_13_a_contradiction_about_the_network_is_a_warning(make_task):
    task = load_task(make_task(toml='[environment]\nnetwork_mode = "public"\nallow_internet = false'))
    assert task.config.environment.network.mode == "public"
    assert [(p.code, p.severity) for p in task.problems] == [("contradiction", "warning")]


def test_wild_15_a_separate_verifier_may_bring_its_tests_in_an_image(make_task):
    root = make_task(toml='verifier.environment_mode = "separate"', files={"tests/Dockerfile": "FROM busybox"})
    (root / "tests/test.sh").unlink()
    task = load_task(root)
    assert task.config.verifier.environment_mode == "separate"
    assert (task.layout.verifier_dockerfile, task.layout.test_script) == ("tests/Dockerfile", None)


@pytest.mark.parametrize("text", ["\ufeffsource = 'x'\r\n", "\ufeff\nsource = 'x'\n"], ids=["CRLF and BOM", "BOM"])
def test_a_task_toml_from_windows_is_read(make_task, text):
    assert load_task(make_task(toml=text)).config.source == "x"


def test_an_empty_instruction_is_an_instruction(make_task):
    assert load_task(make_task(instruction="")).layout.instruction == "instruction.md"


@pytest.mark.parametrize(
    ("toml", "dockerfile", "path"),
    [
        ('environment.workdir = "/srv"', "WORKDIR /root", "/srv/out.json"),
        ("", "FROM a\nWORKDIR /root\n", "/root/out.json"),
        ("", "FROM a\nworkdir /opt\nRUN x\n  WORKDIR 'sub'\n", "/opt/sub/out.json"),
        ("", 'FROM a\r\nWORKDIR "/data"\r\n', "/data/out.json"),
        ("", "FROM a\n# WORKDIR /root\nRUN echo WORKDIR /etc\n", "/app/out.json"),
        ("", "FROM a AS build\nWORKDIR /build\nFROM b\nWORKDIR /root\n", "/root/out.json"),
        ("", "ARG PLACE\nFROM a\nWORKDIR $PLACE\n", "/app/out.json"),
        ("", None, "/app/out.json"),
    ],
    ids=["task.toml", "Dockerfile", "relative", "quoted, CRLF", "commented", "stages", "variable", "default"],
)
def test_outputs_are_looked_for_below_the_workdir(make_task, toml, dockerfile, path):
    root = make_task(
        toml=toml,
        instruction=f"Write {path}",
        files={"environment/Dockerfile": dockerfile} if dockerfile else None,
    )
    assert load_task(root).verifier.expected_output_path == path


def test_a_dockerfile_in_another_encoding_does_not_break_the_task(make_task):
    root = make_task(instruction="Write /root/out.json", files={"environment/Dockerfile": ""})
    (root / "environment/Dockerfile").write_bytes(b"# Gr\xf6\xdfe\nFROM busybox\nWORKDIR /root\n")
    assert load_task(root).output.path == "/root/out.json"


def test_everything_wrong_with_a_folder_is_reported_at_once(make_task):
    toml = '[agent]\ntimeout_sec = "long"\n[environment]\ncpus = -1\nhue = 1\n[output]\nschema = "no.json"\n'
    root = make_task(toml=toml, instruction=None)
    (root / "tests/link").symlink_to("/etc/passwd")
    os.mkfifo(root / "tests/pipe")
    assert broken(root) == [
        "tests/link: a symbolic link that leads out of the task",
        "tests/pipe: a device, socket or pipe",
        "task.toml: agent.timeout_sec: found 'long', expected a number above 0",
        "task.toml: environment.cpus: found -1, expected a number above 0",
        "task.toml: environment.hue: unknown key, kept but not used",
        "task.toml: output.schema: no.json cannot be used: No such file or directory",
        "instruction.md: the file is missing",
    ]


def test_load_task_raises_one_error_that_lists_every_reason(make_task):
    root = make_task(toml="hue = 1\nsource = 2", instruction=None)
    with pytest.raises(TaskFormatError) as caught:
        load_task(root)
    assert str(caught.value).splitlines() == [
        f"{root} is not a usable task:",
        "  task.toml: source: found 2, expected text",
        "  instruction.md: the file is missing",
    ]


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("task.toml", b"x = \xff", "task.toml: found byte 0xff, expected UTF-8 text (line 1, column 5)"),
        ("task.toml", b"#" * (2**20 + 1), "task.toml: it has 1,048,577 bytes, expected 1,048,576 at most"),
        ("task.toml", b"x", "task.toml: not TOML: Expected '=' after a key in a key/value pair (at end of document)"),
        (
            "instruction.md",
            b"\xff\xfeD\x00o\x00",
            "instruction.md: found UTF-16 text, expected UTF-8 (line 1, column 1)",
        ),
    ],
    ids=["not UTF-8", "too large", "not TOML", "UTF-16"],
)
def test_a_file_that_cannot_be_read_is_explained(make_task, name, data, reason):
    root = make_task()
    (root / name).write_bytes(data)
    assert broken(root) == [reason]


@pytest.mark.parametrize("name", ["task.toml", "instruction.md", "environment/Dockerfile"])
@pytest.mark.parametrize("kind", ["folder", "pipe", "socket", "link out"])
def test_no_kind_of_file_hangs_or_fools_the_loader(make_task, name, kind):
    root = make_task(files={"environment/Dockerfile": "FROM a"})
    (root / name).unlink()
    if kind == "folder":
        (root / name).mkdir()
    elif kind == "link out":
        (root / name).symlink_to("/etc/hostname")
    else:
        os.mknod(root / name, 0o600 | (stat.S_IFIFO if kind == "pipe" else stat.S_IFSOCK))
    if (name, kind) == ("environment/Dockerfile", "folder"):
        assert load_task(root).layout.dockerfile is None
    else:
        assert broken(root)[0].startswith(f"{name}: ")


@pytest.mark.parametrize("name", ["task.toml", "instruction.md", "environment/Dockerfile"])
def test_a_link_to_a_pipe_does_not_hang_the_loader(make_task, name):
    root = make_task(files={"environment/Dockerfile": "FROM a"})
    os.mkfifo(root / "pipe")
    (root / name).unlink()
    (root / name).symlink_to(root / "pipe")
    assert broken(root)[0] == "pipe: a device, socket or pipe"


def test_a_folder_that_is_not_there_is_reported(tmp_path):
    assert broken(tmp_path / "nothing")[0].endswith("nothing: No such file or directory")


def test_a_problem_with_a_name_that_is_not_utf8_can_still_be_stored(make_task):
    root = make_task()
    os.mkfifo(os.fsencode(root) + b"/tests/\xff")
    found = read_folder(root, "task")
    assert isinstance(found, BrokenTask)
    assert BrokenTask.model_validate_json(to_json(found)) == found


def test_folders_nested_a_thousand_deep_do_not_stop_the_loader(make_task, nest):
    root = make_task()
    nest(root / "tests")
    assert read_folder(root, "task").id == "task"


@pytest.mark.parametrize(
    "place", ["tests/data.bin", "solution/x", "environment/y", "steps/a/workdir/z", "instruction.md"]
)
def test_a_task_that_is_too_large_says_so_and_nothing_of_it_is_read(make_task, place):
    root = make_task(files={place: ""})
    os.truncate(root / place, 50 * 2**30)
    (problem,) = broken(root)
    assert f"50.0 GiB, the limit is 4.0 GiB; the largest: {place}" in problem


def test_a_task_toml_that_leads_out_of_the_task_is_not_read(make_task, tmp_path):
    root = make_task()
    (tmp_path / "secret").write_text("password = hunter2 is not TOML")
    (root / "task.toml").unlink()
    (root / "task.toml").symlink_to(tmp_path / "secret")
    assert broken(root) == ["task.toml: a symbolic link that leads out of the task"]


@pytest.mark.parametrize(
    "place", ["tests", "solution", "environment", "steps/a/tests", "steps/a/workdir", "steps/a/solution"]
)
def test_what_is_laid_into_sandboxes_may_be_less_large(make_task, place):
    root = make_task(toml='[[steps]]\nname = "a"', files={f"{place}/x/data": "", "steps/a/instruction.md": "Go."})
    os.truncate(root / place / "x/data", 2**30 - 100)
    load_task(root)
    (root / place / "more").write_text("x" * 200)
    (problem,) = broken(root)
    assert problem == f".: {place}/ has 1.0 GiB, and a folder that is copied into a sandbox may have 1.0 GiB at most"


def test_an_image_may_be_built_from_more(make_task):
    root = make_task(files={"environment/data": "", "environment/Dockerfile": "FROM scratch\n"})
    os.truncate(root / "environment/data", 3 * 2**30)
    load_task(root)


def ids(path):
    return [task.id for task in load_dataset(path).tasks]


def reasons(path):
    return {folder.path.name: folder.reason for folder in load_dataset(path).skipped}


def test_wild_6_tasks_are_found_at_any_depth_in_the_order_of_their_paths(make_task, tmp_path):
    for name in ("tasks/b", "tasks/a/x/y/z", "zeta", "datasets/one/B", "datasets/one/a", "tasks/a1"):
        make_task(name)
    assert ids(tmp_path) == ["datasets/one/B", "datasets/one/a", "tasks/a/x/y/z", "tasks/a1", "tasks/b", "zeta"]


def test_wild_4_repeated_folder_names_have_ids_of_their_own(make_task, tmp_path):
    for place in ("a", "b", "c/d"):
        make_task(f"{place}/hello-world")
    assert ids(tmp_path) == ["a/hello-world", "b/hello-world", "c/d/hello-world"]
    assert {task.name for task in load_dataset(tmp_path).tasks} == {"hello-world"}


def test_names_with_spaces_and_of_any_language_are_kept(make_task, tmp_path):
    for name in ("hello world", "größe", "任务"):
        make_task(name)
    assert ids(tmp_path) == ["größe", "hello world", "任务"]


@pytest.mark.parametrize("path", ["set/one", "set/one/task.toml", "set/one/", "link"])
def test_one_task_may_be_named_by_its_folder_its_file_or_a_link(make_task, tmp_path, path):
    make_task("set/one")
    (tmp_path / "link").symlink_to("set/one")
    assert ids(f"{tmp_path}/{path}") == ["one"]


def test_a_relative_path_is_fine(make_task, tmp_path, monkeypatch):
    make_task("set/one")
    monkeypatch.chdir(tmp_path / "set")
    assert ids(".") == ["one"]
    monkeypatch.chdir(tmp_path / "set/one")
    assert ids(".") == ["one"]


@pytest.mark.parametrize(
    "name", ["template", "Templates", "_template", "task-template", "TASK_TEMPLATE", "draft", "drafts", "_drafts_"]
)
def test_wild_6_templates_and_drafts_are_skipped_unless_asked_for(make_task, tmp_path, name):
    make_task("good")
    make_task(f"set/{name}/one")
    assert ids(tmp_path) == ["good"]
    assert reasons(tmp_path) == {name: "named like a template or draft; pass its path to load it"}
    assert ids(tmp_path / "set" / name) == ["one"]


@pytest.mark.parametrize("name", ["template-engine", "drafting", "my-draft"])
def test_a_name_that_only_resembles_a_template_is_a_task(make_task, tmp_path, name):
    make_task(name)
    assert ids(tmp_path) == [name]


def test_a_linked_folder_is_skipped_with_the_way_to_load_it(make_task, tmp_path):
    make_task("set/good")
    make_task("elsewhere/far")
    (tmp_path / "set/near").symlink_to("../elsewhere")
    (tmp_path / "set/around").symlink_to(".")
    assert ids(tmp_path / "set") == ["good"]
    reason = "a symbolic link to a folder; pass its target to load it"
    assert reasons(tmp_path / "set") == {"around": reason, "near": reason}


@pytest.mark.parametrize("target", ["loop", "nothing"])
def test_a_link_that_leads_nowhere_stops_nobody(make_task, tmp_path, target):
    make_task("good")
    (tmp_path / "loop").symlink_to(target)
    assert ids(tmp_path) == ["good"]


def test_a_folder_whose_name_is_not_utf8_is_skipped_and_shown(make_task, tmp_path):
    make_task("good")
    make_task("odd").rename(os.fsdecode(os.fsencode(tmp_path) + b"/odd-\xff"))
    assert ids(tmp_path) == ["good"]
    assert reasons(tmp_path) == {"odd-\\xff": "its name is not UTF-8; rename it"}


@pytest.mark.parametrize("name", [".hidden", ".git", "__pycache__", "node_modules", ".venv"])
def test_folders_of_tools_are_passed_over_in_silence(make_task, tmp_path, name):
    make_task("good")
    make_task(f"{name}/one")
    dataset = load_dataset(tmp_path)
    assert ([task.id for task in dataset.tasks], dataset.skipped) == (["good"], ())


def test_a_task_inside_a_task_is_part_of_it(make_task, tmp_path):
    make_task("outer")
    make_task("outer/environment/inner")
    assert ids(tmp_path) == ["outer"]


def test_tasks_inside_a_task_are_named(make_task, tmp_path):
    make_task("outer")
    make_task("outer/tests/fixture")
    assert load_dataset(tmp_path).outlines[0].problems == (), "what its own parts hold is its business"
    make_task("outer/tasks/one")
    (problem,) = load_dataset(tmp_path).outlines[0].problems
    assert (problem.code, problem.severity, problem.file) == ("nested-task", "warning", "tasks/one")
    assert problem.fix == f"move it out, or name it: {tmp_path}/outer/tasks/one"
    for name in ("two", "three", "four"):
        make_task(f"outer/tasks/{name}")
    (problem,) = load_dataset(tmp_path).outlines[0].problems
    assert problem.message.startswith("4 tasks lie inside this task's folder (tasks/four, tasks/one, tasks/three, …)")


def test_wild_6_a_broken_task_is_reported_beside_the_good_ones(make_task, tmp_path):
    make_task("a")
    make_task("b/broken", toml="[agent")
    make_task("c")
    dataset = load_dataset(tmp_path)
    assert [task.id for task in dataset.tasks] == ["a", "c"]
    assert dataset.files == {tmp_path / name: list_files(tmp_path / name) for name in ("a", "c")}
    assert [(task.id, task.root) for task in dataset.broken] == [("b/broken", tmp_path / "b/broken")]
    assert dataset.broken[0].problems[0].code == "bad-toml"


@pytest.mark.parametrize("part", ["tests", "solution", "environment"])
def test_a_folder_that_looks_like_a_task_without_a_task_toml_is_broken(make_task, tmp_path, part):
    root = make_task("nearly", files={f"{part}/file": ""})
    (root / "task.toml").unlink()
    if part != "tests":
        (root / "tests").rename(tmp_path / "moved")
    (found,) = load_dataset(tmp_path).broken
    assert found.id == "nearly"
    assert [(p.code, p.file) for p in found.problems] == [("no-task-toml", "task.toml")]


def test_an_instruction_alone_does_not_look_like_a_task(make_task, tmp_path):
    make_task("docs/example")
    (tmp_path / "docs/instruction.md").write_text("How to write tasks.")
    assert ids(tmp_path) == ["docs/example"]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("nothing", "no such file or folder"),
        ("empty", "no folder with a task.toml at any depth"),
        ("empty/notes.txt", "found a file, expected a task folder"),
        ("skipped", "no folder with a task.toml at any depth"),
    ],
)
def test_a_path_without_tasks_raises_with_the_path_and_the_reason(make_task, tmp_path, path, reason):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/notes.txt").write_text("")
    make_task("skipped/drafts/one")
    with pytest.raises(DatasetNotFoundError) as caught:
        load_dataset(tmp_path / path)
    assert str(caught.value).startswith(f"{tmp_path / path}: {reason}")


@pytest.mark.whole
def test_folders_nested_a_thousand_deep_stop_nobody(make_task, tmp_path, nest):
    make_task("good")
    (tmp_path / "deep").mkdir()
    nest(tmp_path / "deep")
    assert ids(tmp_path) == ["good"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
def test_a_folder_that_may_not_be_read_is_skipped(make_task, tmp_path):
    make_task("good")
    (tmp_path / "locked").mkdir(mode=0)
    assert ids(tmp_path) == ["good"]
    assert reasons(tmp_path) == {"locked": "cannot be read: Permission denied"}


def test_scan_yields_each_kind_in_the_order_of_the_paths(make_task, tmp_path):
    make_task("a")
    make_task("b", toml="?")
    make_task("drafts/x")
    make_task("z")
    assert [type(entry) for entry in scan(tmp_path)] == [Task, BrokenTask, SkippedFolder, Task]


def test_scan_looks_at_a_task_only_when_asked_for_it(make_task, tmp_path):
    make_task("a")
    late = make_task("b")
    entries = scan(tmp_path)
    next(entries)
    (late / "task.toml").write_text('[task]\nname = "written/meanwhile"')
    found = next(entries)
    assert isinstance(found, Task)
    assert found.name == "written/meanwhile"


def test_two_processes_find_the_same_problems_in_the_same_order(make_task):
    root = make_task(toml="".join(f"key_{letter} = 1\n" for letter in "qwertyuiop"))
    code = "import sys; from seatrial.tasks.load import load_task; print(*load_task(sys.argv[1]).problems, sep='\\n')"
    runs = [
        subprocess.run(
            [sys.executable, "-c", code, root],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("place", ["", "set"])
def test_a_path_that_is_not_utf8_is_refused_because_no_record_could_hold_it(make_task, tmp_path, place):
    odd = tmp_path / os.fsdecode(b"odd-\xff")
    (odd / place).mkdir(parents=True)
    make_task("good").rename(odd / place / "good")
    with pytest.raises(DatasetNotFoundError, match="not UTF-8"):
        load_dataset(odd / place)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=200),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values, max_size=3),
    max_leaves=5,
)
KEYS = ("category", "difficulty", "family", "template", "tags", "keywords")


def labels(**metadata):
    return labels_of(TaskConfig(metadata=metadata))


def test_what_most_tasks_write():
    assert labels(category="beams", difficulty="easy", tags=["steel", "steel", "static"], family="b-12") == TaskLabels(
        category="beams", difficulty="easy", family="b-12", tags=("steel", "static")
    )


def test_numbers_and_single_words_are_labels_too():
    assert labels(difficulty=3, tags="one", template=7) == TaskLabels(difficulty="3", family="7", tags=("one",))


def test_what_is_no_label_is_left_out():
    assert labels(category={"a": 1}, difficulty=True, tags=[["x"], None, " "], family=["y"]) == TaskLabels()


@given(st.dictionaries(st.sampled_from(KEYS), VALUES))
def test_anything_goes(metadata):
    found = labels(**metadata)
    assert all(len(tag) <= 100 and tag.strip() for tag in found.tags)
