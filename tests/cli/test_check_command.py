"""`seatrial check`: the table, findings that can be reproduced, exit codes, reports, and going on after a stop."""

import json
import shlex
import signal
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import click
import pytest

from seatrial.cli.check_command import check_options, chosen_checks, words_for_cases
from seatrial.errors import UsageError
from tests.check.worlds import GOLDEN, SOLUTION
from tests.cli.conftest import PLAIN_ENVIRONMENT, SEATRIAL, Seatrial, cells
from tests.trial.support import ANSWER, write_task

OPTIONS = ("--image", "host", "--only", "V1,V2,V3")
ANY_CONTENT = f"#!/bin/sh\nif [ -s {ANSWER} ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n"


@pytest.fixture(autouse=True)
def at_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def good() -> Path:
    return write_task(Path("tasks/good"), files={**SOLUTION, **GOLDEN})


@pytest.fixture
def weak() -> Path:
    return write_task(Path("tasks/weak one"), files={**SOLUTION, **GOLDEN, "tests/test.sh": ANY_CONTENT})


def results(folder) -> dict[str, Path]:
    return {json.loads(path.read_text())["task"]: path for path in Path(folder, "tasks").glob("*.json")}


def test_a_dataset_has_a_table_findings_and_reports(seatrial: Seatrial, good: Path, weak: Path):
    shown = seatrial(
        "check", "tasks", *OPTIONS, "-o", "out", "--json", "r.json", "--junit", "r.xml", "--sarif", "r.sarif"
    )
    assert shown.code == 1
    rows = [cells(line)[:2] for line in shown.out.splitlines() if line.startswith(("good  ", "weak one  "))]
    assert rows == [["good", "A"], ["weak one", "F"]]
    assert "weak one: critical[V2/reward-for-nothing:junk] the verifier gives 1 for an output of junk text" in shown.out
    assert '    accept: add "V2/reward-for-nothing:junk" to `accept` in [check] of task.toml' in shown.out
    assert "18 verifications in " in shown.err
    assert " from 8 end states" in shown.err
    report = json.loads(Path("r.json").read_text())
    assert [task["grade"] for task in report["tasks"]] == ["A", "F"]
    suites = ET.parse("r.xml").getroot()  # noqa: S314 - our own
    assert [(suite.get("name"), suite.get("failures")) for suite in suites] == [("good", "0"), ("weak one", "2")]
    uris = {
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for result in json.loads(Path("r.sarif").read_text())["runs"][0]["results"]
    }
    assert uris == {"tasks/weak%20one/tests/test.sh"}

    line = next(line for line in shown.out.splitlines() if "reproduce:" in line and "V2/junk" in line)
    _, *command = shlex.split(line.partition("reproduce: ")[2])
    assert command == ["check", "tasks/weak one", "--image", "host", "--case", "V2/junk"]
    again = seatrial(*command, "-o", "case")
    assert again.code == 0
    assert "V2/junk: reward 1 (pass)" in again.out
    assert list(Path("case/case").glob("*/verifier/stdout.txt"))

    known = seatrial("check", "tasks", *OPTIONS, "-o", "out", "--write-baseline", "known.json")
    assert (known.code, "known findings" in known.err) == (1, True)
    assert " from 0 end states; 2 tasks done before" in known.err
    quiet = seatrial("check", "tasks", *OPTIONS, "-o", "out", "--baseline", "known.json", "-q")
    assert quiet.code == 0
    assert "(known)" in quiet.out


def test_a_report_that_is_printed_stands_alone(seatrial: Seatrial, good: Path):
    shown = seatrial("check", "tasks", "--image", "host", "--only", "V1", "--json", "-")
    assert json.loads(shown.out)["tasks"][0]["grade"] == "A"
    assert "good  A" in shown.err


@pytest.mark.whole
def test_only_what_has_no_result_is_done_again(seatrial: Seatrial, good: Path, weak: Path):
    seatrial("check", "tasks", *OPTIONS, "-o", "out")
    before = {task: path.stat().st_mtime_ns for task, path in results("out").items()}
    assert before.keys() == {"good", "weak one"}
    (weak / "tests/test.sh").write_text((good / "tests/test.sh").read_text())
    shown = seatrial("check", "tasks", *OPTIONS, "-o", "out")
    assert shown.code == 0
    after = {task: path.stat().st_mtime_ns for task, path in results("out").items()}
    assert {task for task in after if after[task] != before[task]} == {"weak one"}


def test_what_is_found_fails_from_a_weight_on(seatrial: Seatrial):
    test = f"#!/bin/sh\n[ -s {ANSWER} ] || exit 1\ngrep -cx right {ANSWER} > /logs/verifier/reward.txt\n"
    write_task(Path("tasks/one"), files={**SOLUTION, "tests/test.sh": test})
    assert seatrial("check", "tasks/one", *OPTIONS, "-o", "a").code == 0
    shown = seatrial("check", "tasks/one", *OPTIONS, "-o", "a", "--fail-on", "minor")
    assert (shown.code, "minor[V2/no-verdict]" in shown.out) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "nowhere"),
        (["tasks", "--only", "V99"], "there is no check 'V99'"),
        (["tasks", "--only", "V1", "--skip", "V1"], "leave no check"),
        (["tasks", "--only", "V12"], "with --runs"),
        (["tasks", "--baseline", "none.json"], "--write-baseline"),
        (["tasks", "--case", "V2/nonsense", "--image", "host"], "for example V2/"),
        (["tasks", "--budget", "soon"], "no length of time"),
        (["tasks", "-e", "local", "--network", "task"], "use embedded, docker or podman"),
        ([], "Missing argument"),
    ],
)
def test_what_cannot_be_is_refused(seatrial: Seatrial, good: Path, arguments, said):
    shown = seatrial("check", *arguments)
    assert shown.code == 2
    assert said in shown.err


def test_a_case_is_about_one_task(seatrial: Seatrial, good: Path, weak: Path):
    shown = seatrial("check", "tasks", "--case", "V1/oracle", "--image", "host")
    assert (shown.code, "2 were named" in shown.err) == (2, True)


def test_what_a_run_refuses_is_refused(seatrial: Seatrial):
    write_task(Path("tasks/one"), toml='[verifier.env]\nKEY = "${A_SECRET}"\n')
    shown = seatrial("check", "tasks", *OPTIONS)
    assert (shown.code, "--allow-env A_SECRET" in shown.err) == (2, True)
    assert not Path("checks").exists()


@pytest.mark.whole
def test_an_interrupted_check_keeps_what_was_done_and_says_how_to_go_on(good: Path):
    write_task(Path("tasks/slow"), files={**SOLUTION, "tests/test.sh": "#!/bin/sh\nexec sleep 1000\n"})
    command = [*SEATRIAL, "check", "tasks", *OPTIONS, "-n", "1"]
    with subprocess.Popen(command, env=PLAIN_ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("[1/2] A  good: ")
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
    assert process.returncode == 130
    (folder,) = Path("checks").iterdir()
    assert f"Interrupted. Results of 1 of 2 tasks are kept in {folder}." in said
    again = ["-m", "seatrial", "check", "tasks", *OPTIONS, "-n", "1", "-o", str(folder)]
    assert said.rstrip().endswith(shlex.join(again))
    assert results(folder).keys() == {"good"}


def words(*arguments: str) -> tuple[str, ...]:
    said: list[tuple[str, ...]] = []

    @click.command()
    @check_options
    @click.pass_context
    def command(context: click.Context, /, **_: object) -> None:
        said.append(words_for_cases(context))

    command.main(["tasks", *arguments], standalone_mode=False)
    return said[0]


@pytest.mark.parametrize(
    "given",
    [
        (),
        ("--image", "host"),
        ("--backend", "docker", "--image-map", "a:1=host", "--image-map", "b=c:2"),
        ("--trust", "as-left", "--pass-threshold", "0.5"),
        ("--memory", "512M", "--timeout", "90s", "--cpus", "2.0"),
        ("--use-proxy", "--allow-env", "A", "--allow-env", "B"),
        ("--force",),
        ("--repeats", "9"),
    ],
)
def test_what_was_said_of_trials_is_said_again(given):
    again = words(*given)
    assert sorted(again) == sorted(given)
    assert words(*again) == again


def test_what_a_case_does_not_need_is_not_said_again():
    others = ("--only", "V1", "-n", "3", "--budget", "5m", "-o", "x", "--junit", "y", "--fail-on", "minor", "-q")
    assert words(*others) == ()


def test_checks_are_chosen_by_name_in_any_letters():
    chosen: list[tuple[str, ...]] = []

    @click.command()
    @check_options
    def command(only: tuple[str, ...], **_: object) -> None:
        chosen.append(only)

    command.main(["tasks", "--only", "v4, V5,", "--only", "V5"], standalone_mode=False)
    assert chosen == [("V4", "V5")]
    assert chosen_checks(("V4", "V5"), ("V5",)) == {"V4"}
    assert len(chosen_checks((), ("V5",))) == 11
    with pytest.raises(UsageError, match="leave no check"):
        chosen_checks(("V5",), ("V5",))
