"""End states: made once each, with their own verdicts; services, steps, and what cannot be made."""

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from seatrial.check.battery import CHECKS, BatteryPlan
from seatrial.check.cases import ORACLE, UNTOUCHED, CheckResult, Subject
from seatrial.check.examiner import CheckTools, Examiner
from seatrial.check.run import AGENTS, choose
from seatrial.check.states import TaskStates, make_states, small_files
from seatrial.errors import JobError, SandboxError
from seatrial.jobs.admission import Admission
from seatrial.model.check import CheckOutcome
from seatrial.model.job import AgentOptions, JobSpec, TrialOptions
from seatrial.tasks.layout import digest_folder
from seatrial.tasks.load import load_task
from seatrial.trial.spec import Machinery
from tests.check.worlds import RIGHT, World, ids, make_task
from tests.trial.support import ANSWER, INSTRUCTION, write_task

PLAN = BatteryPlan(checks=tuple(check for check in CHECKS if check.CHECK in ("V1", "V2", "V3")))
STEPS = '[environment]\nnetwork_mode = "no-network"\n[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'


def states_of(world: World, root, folder) -> TaskStates:
    tools = CheckTools(Machinery(world.backend()), Admission(4, 4096), TrialOptions(image="host"))
    return asyncio.run(make_states(Examiner(load_task(root), digest_folder(root), tools, folder / "files")))


def test_every_state_has_its_own_verdict_in_a_fixed_order(tmp_path):
    states = states_of(World(), make_task(tmp_path), tmp_path)
    assert {name: state.verdict.reward for name, state in states.made.items()} == {
        "oracle": 1.0,
        "golden/fail": 0.0,
        "golden/pass": 1.0,
        "untouched": 0.0,
    }
    assert list(states.made) == ["oracle", "golden/fail", "golden/pass", "untouched"]
    assert [state.verdict.case for state in states.made.values()] == [
        "V1/oracle",
        "V3/golden/fail",
        "V3/golden/pass",
        "V2/untouched",
    ]
    assert states.made[ORACLE].verdict.log == "judged\n"


def test_the_same_answer_of_the_solution_and_a_golden_one_is_one_answer(tmp_path):
    states = states_of(World(), make_task(tmp_path), tmp_path)
    assert [(each.state, each.path, each.content) for each in states.answers] == [(ORACLE, ANSWER, RIGHT)]
    other = states_of(World(), make_task(tmp_path, {"golden/pass/app/answer.txt": " right"}), tmp_path / "other")
    assert [each.content for each in other.answers] == [RIGHT, b" right"]


def test_an_answer_that_is_not_accepted_is_none(tmp_path):
    states = states_of(World(lambda _: "0.4"), make_task(tmp_path), tmp_path)
    assert states.answers == ()
    assert states.why_no_answer == "no golden answer passes, and no solution"


def test_a_golden_service_is_started_and_judged_while_it_runs(tmp_path):
    def start(sandbox) -> None:
        assert sandbox.files["/app/answer.txt"] == RIGHT
        sandbox.running.append("service")
        sandbox.files["/app/answers"] = b"1"

    world = World(lambda files: "1" if "/app/answers" in files else "0", agents={"start.sh": start})
    files = {"golden/pass/start.sh": "./service\n", "golden/pass/app/answer.txt": "right\n"}
    states = states_of(world, write_task(tmp_path / "one", files=files), tmp_path)
    assert states.made["golden/pass"].verdict.reward == 1.0


def test_a_state_that_cannot_be_made_is_missing_and_the_others_are_there(tmp_path):
    def fall(_: object) -> None:
        raise SandboxError("no more room")

    states = states_of(World(agents={"start.sh": fall}), make_task(tmp_path, {"golden/pass/start.sh": ""}), tmp_path)
    assert states.made.keys() == {ORACLE, UNTOUCHED, "golden/fail"}
    assert "no more room" in states.missing["golden/pass"]


def test_a_verifier_that_is_silent_on_the_untouched_environment_was_silenced_by_nobody(tmp_path):
    world = World(lambda files: "1" if files.get(ANSWER) == RIGHT else None)
    states = states_of(world, make_task(tmp_path), tmp_path)
    assert [states.made[name].verdict.outcome for name in (UNTOUCHED, "golden/fail")] == ["verifier_error"] * 2


def test_of_a_task_with_steps_whole_trials_are_judged_and_the_last_step(tmp_path):
    solved = {f"steps/{name}/solution/solve.sh": "#!/bin/sh\n" for name in ("one", "two")}
    files = {**solved, "steps/one/instruction.md": "First.\n", "steps/two/instruction.md": INSTRUCTION}
    root = write_task(tmp_path / "one", toml=STEPS, files=files, instruction=None)
    world = World()
    seen: list[Subject] = []
    spy = replace(PLAN, checks=(*PLAN.checks, _watching(seen)))
    check = world.check(root, tmp_path, spy)
    assert (check.grade, ids(check), check.oracle_reward) == ("A", set(), 1.0)
    (subject,) = seen
    assert subject.instruction == INSTRUCTION.partition("\n")[2]
    assert subject.trials.keys() == {ORACLE, UNTOUCHED}
    assert {name: verdict.reward for name, verdict in subject.states.items()} == {ORACLE: 1.0, UNTOUCHED: 0.0}


def test_a_solution_that_does_not_reach_the_last_step_is_rejected(tmp_path):
    solved = {f"steps/{name}/solution/solve.sh": "#!/bin/sh\n" for name in ("one", "two")}
    files = {**solved, "steps/one/instruction.md": "First.\n", "steps/two/instruction.md": INSTRUCTION}
    toml = STEPS.replace('name = "one"\n', 'name = "one"\nmin_reward = 1.0\n')
    root = write_task(tmp_path / "one", toml=toml, files=files, instruction=None)
    check = World(lambda _: "0").check(root, tmp_path, PLAN)
    assert "V1/solution-rejected" in ids(check)


def test_a_step_without_a_solution_is_a_reason_to_skip_it(tmp_path):
    files = {"steps/one/instruction.md": "First.\n", "steps/two/instruction.md": INSTRUCTION}
    root = write_task(tmp_path / "one", toml=STEPS, files=files, instruction=None)
    check = World().check(root, tmp_path, PLAN)
    assert check.outcomes[0].reason == "a step has no solution"


def _watching(seen: list[Subject]):
    def findings(subject, _):
        seen.append(subject)
        return CheckResult(CheckOutcome(check="V5", status="passed"))

    return SimpleNamespace(CHECK="V5", TITLE="a test", cases=lambda _: (), findings=findings)


def test_an_end_state_with_a_service_is_judged_while_it_runs_and_its_files_are_no_answers(tmp_path):
    world = World(lambda files: "1" if "/running/service" in files else "0")
    root = write_task(tmp_path / "one", files={"solution/solve.sh": "#!/bin/sh\n./service\n"})
    world.agents = {"solve.sh": _serve}
    states = states_of(world, root, tmp_path)
    state = states.made[ORACLE]
    assert (state.verdict.reward, state.accepted, state.answers) == (1.0, True, ())
    assert state.end is not None
    assert state.end.live is not None
    assert states.why_no_answer == "it is a running service, and there is no golden answer that is to fail"


def _serve(sandbox) -> None:
    sandbox.running.append("service")
    sandbox.files["/app/port"] = b"4711"


def test_later_folders_lie_over_earlier_ones_and_large_files_are_left_out(tmp_path):
    for path, content in {"a/x.py": "1", "a/deep/y.py": "2", "b/x.py": "3", "b/large": "x" * 600_000}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    (tmp_path / "a/link.py").symlink_to("/etc/passwd")
    assert small_files([tmp_path / "a", tmp_path / "b"]) == {"x.py": b"3", "deep/y.py": b"2"}


def test_there_is_an_end_to_them(tmp_path):
    for number in range(20):
        (tmp_path / f"{number:02}").write_bytes(b"x" * 500_000)
    assert len(small_files([tmp_path])) == 16


def spec(*paths: Path, **others) -> JobSpec:
    agents = tuple(AgentOptions(name=name) for name in AGENTS)
    tasks = tuple(str(path.absolute()) for path in paths)
    return JobSpec(name="check", tasks=tasks, agents=agents, trial=TrialOptions(image="host"), **others)


@pytest.mark.parametrize(
    ("given", "name"),
    [("sets", "sets/deep/one"), ("./sets/deep", "sets/deep/one"), ("sets/deep/one/", "sets/deep/one")],
)
def test_a_task_is_called_by_what_the_user_wrote(tmp_path, monkeypatch, given, name):
    monkeypatch.chdir(tmp_path)
    write_task(Path("sets/deep/one"))
    assert [task.name for task in choose(spec(Path(given)), [given]).tasks] == [name]


@pytest.mark.parametrize("given", [".", "./-one"])
def test_no_task_is_called_like_an_option(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    write_task(Path("-one"))
    assert [task.name for task in choose(spec(Path(given)), [given]).tasks] == ["./-one"]


def test_tasks_without_a_solution_are_checked_and_those_that_cannot_be_are_told(tmp_path):
    write_task(tmp_path / "one")
    write_task(tmp_path / "broken", toml="[agent]\ntimeout_sec = 'soon'\n")
    write_task(tmp_path / "windows", toml='[environment]\nos = "windows"\nnetwork_mode = "no-network"\n')
    chosen = choose(spec(tmp_path), [str(tmp_path)])
    assert [task.outline.id for task in chosen.tasks] == ["one"]
    assert {each.task: each.kind for each in chosen.left_out} == {"broken": "unreadable", "windows": "refused"}
    assert len(chosen.notices) >= 2


def test_tasks_that_ask_for_a_providers_key_are_told_and_the_others_checked(tmp_path):
    write_task(tmp_path / "one")
    solved = {"solution/solve.sh": "#!/bin/sh\n"}
    write_task(tmp_path / "judged", toml='[verifier.env]\nJUDGE = "${OPENAI_API_KEY}"\n')
    write_task(tmp_path / "solved", toml='[solution.env]\nJUDGE = "${OPENAI_API_KEY}"\n', files=solved)
    chosen = choose(spec(tmp_path), [str(tmp_path)])
    assert [task.outline.id for task in chosen.tasks] == ["one"]
    assert {each.task for each in chosen.left_out} == {"judged", "solved"}


def test_nothing_to_check_is_refused(tmp_path):
    write_task(tmp_path / "one", toml='[environment]\nos = "windows"\nnetwork_mode = "no-network"\n')
    with pytest.raises(JobError, match="none of the chosen tasks can be run"):
        choose(spec(tmp_path), [str(tmp_path)])
