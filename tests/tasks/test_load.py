"""One folder to one task: what the wild brings is accepted, what is broken is reported whole, and nothing raises."""

import os
import shutil
import stat

import pytest

from seatrial.errors import TaskFormatError
from seatrial.model.base import to_json
from seatrial.model.config import StepSpec
from seatrial.model.task import BrokenTask, Task
from seatrial.tasks.load import load_task, read_folder

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
        ("task.toml", b"x = \xff", "task.toml: it is not UTF-8 text: byte 0xff at offset 4"),
        ("task.toml", b"#" * (2**20 + 1), "task.toml: it has more than 1,048,576 bytes"),
        ("task.toml", b"x", "task.toml: not TOML: Expected '=' after a key in a key/value pair (at end of document)"),
        ("instruction.md", b"\xff\xfeD\x00o\x00", "instruction.md: it is not UTF-8 text: byte 0xff at offset 0"),
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
