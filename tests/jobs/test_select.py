"""Choosing tasks."""

import pytest

from seatrial.analysis.summary import planned_trials
from seatrial.errors import DatasetNotFoundError, JobError
from seatrial.jobs.prepare import prepare_job
from seatrial.jobs.resume import prepare_resume
from seatrial.jobs.select import select_tasks
from seatrial.model.job import AgentOptions, ModelOptions, RunOptions, TrialOptions
from seatrial.store.job_store import JobStore
from tests.jobs.samples import NOOP, FakeTrials, job_spec
from tests.jobs.test_carry_out import run


def chosen(*paths, **changes):
    return list(select_tasks(job_spec(tasks=tuple(map(str, paths)), **changes)).tasks)


def test_everything_by_default(tasks):
    assert chosen(tasks) == ["add", "merge", "sort"]


@pytest.mark.parametrize(
    ("globs", "ids"),
    [
        ({"include": ("a*", "sort")}, ["add", "sort"]),
        ({"exclude": ("*r*",)}, ["add"]),
        ({"include": ("*d*", "m*"), "exclude": ("add",)}, ["merge"]),
    ],
)
def test_globs(tasks, globs, ids):
    assert chosen(tasks, **globs) == ids


def test_only_so_many_of_those_that_were_chosen(tasks):
    assert chosen(tasks, max_tasks=2) == ["add", "merge"]
    assert chosen(tasks, exclude=("add",), max_tasks=1) == ["merge"]
    assert chosen(tasks, max_tasks=99) == ["add", "merge", "sort"]


def test_globs_also_know_the_name(tasks, make_task):
    make_task("tasks/x1", toml='[task]\nname = "acme/weld"\n')
    assert chosen(tasks, include=("acme/*",)) == ["x1"]


def test_the_same_folder_twice_is_one_task(tasks):
    assert chosen(tasks, tasks / "add", tasks) == ["add", "merge", "sort"]


def test_the_same_id_in_two_datasets_gets_the_folder_in_front(tasks, make_task, tmp_path):
    make_task("more/add")
    make_task("more/weld")
    assert chosen(tasks, tmp_path / "more") == ["tasks/add", "merge", "sort", "more/add", "weld"]


def test_single_tasks_of_the_same_name_are_told_apart_too(make_task):
    paths = [make_task(f"{folder}/tasks/add") for folder in ("one", "two")]
    assert chosen(*paths) == ["one/tasks/add", "two/tasks/add"]


def test_a_task_that_had_an_id_keeps_it(tasks, make_task, tmp_path):
    make_task("more/add")
    spec = job_spec(tasks=(str(tasks), str(tmp_path / "more")))
    assert list(select_tasks(spec, {tasks / "add": "add"}).tasks) == ["add", "merge", "sort", "more/add"]


def test_broken_tasks_are_told_and_left_out(tasks, make_task):
    make_task("tasks/bad", toml="agent = 1\n[[x")
    selection = select_tasks(job_spec(tasks=(str(tasks),)))
    assert "bad" not in selection.tasks
    assert selection.notices[0].startswith("task bad is left out, it cannot be read: task.toml")
    assert not select_tasks(job_spec(tasks=(str(tasks),), exclude=("bad",))).notices


def test_a_glob_without_effect_is_told_with_what_is_similar(tasks):
    notices = select_tasks(job_spec(tasks=(str(tasks),), include=("add", "srot"))).notices
    assert notices == ["include 'srot' matches no task; similar: sort"]


def test_nothing_left(tasks):
    with pytest.raises(JobError, match=r"3 usable tasks.*\n.*'srot' matches no task; similar: sort"):
        chosen(tasks, include=("srot",))
    with pytest.raises(JobError, match="none is left to run"):
        chosen(tasks, exclude=("*",))


def test_nothing_there(tmp_path):
    with pytest.raises(DatasetNotFoundError):
        chosen(tmp_path / "nowhere")


ORACLE = AgentOptions(name="oracle")
SOLVED = {"solution/solve.sh": "#!/bin/sh\n"}
GPU = "[environment]\ngpus = 1\n"
TYPO = {"tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/rewards.txt\n"}
FORCED = TrialOptions(unfit="run")


@pytest.fixture
def mixed(make_task, tmp_path):
    """Tasks with and without a solution, and one that wants a GPU."""
    make_task("mixed/add", files=SOLVED)
    make_task("mixed/bare")
    make_task("mixed/gpu", toml=GPU, files=SOLVED)
    make_task("mixed/sort", files=SOLVED)
    return tmp_path / "mixed"


def ids(job):
    return [plan.trial_id for plan in job.trials]


def left_out(job):
    return [(entry.kind, entry.task, entry.agent) for entry in JobStore.open(job.store.path).file.left_out]


def prepared(path, folder, **changes):
    return prepare_job(job_spec(tasks=(str(path),), **changes), folder)


def test_what_the_oracle_cannot_attempt_is_left_out_for_it_alone(mixed, tmp_path):
    job = prepared(mixed, tmp_path / "job", agents=(ORACLE, NOOP), attempts=2)
    assert [name for name in ids(job) if name.endswith("1")] == [
        *("add.oracle.1", "add.noop.1", "bare.noop.1"),
        *("sort.oracle.1", "sort.noop.1"),
    ]
    assert left_out(job) == [("refused", "gpu", None), ("declined", "bare", "oracle")]
    assert job.notices[:2] == [
        "1 task refused: no sandbox here has GPUs (gpu)",
        "1 task left out for oracle: no solution (bare)",
    ]
    assert job.notices[2].startswith(
        "gpu asks for a GPU (environment.gpus): run it elsewhere, or without them with --allow"
    )
    outcome = run(job, FakeTrials())
    assert outcome.planned == outcome.finished == sum(planned_trials(job.store.file).values()) == 10
    assert prepare_resume(job.store.path).trials == []


def test_a_job_that_goes_on_plans_the_same(mixed, tmp_path):
    job = prepared(mixed, tmp_path / "job", agents=(ORACLE, NOOP), run=RunOptions(max_trials=2, concurrent=1))
    outcome = run(job, FakeTrials())
    assert (outcome.planned, outcome.finished) == (5, 2)
    again = prepare_resume(job.store.path)
    assert sorted(ids(again)) == ["bare.noop.1", "sort.noop.1", "sort.oracle.1"]
    assert run(again, FakeTrials()).planned == 5
    assert left_out(again) == left_out(job)


def test_an_agent_that_is_added_is_asked_and_may_attempt_what_another_declined(mixed, make_task, tmp_path):
    job = prepared(mixed, tmp_path / "job", agents=(ORACLE,))
    assert ids(job) == ["add.oracle.1", "sort.oracle.1"]
    run(job, FakeTrials())
    make_task("mixed/late")
    make_task("mixed/later", toml=GPU)
    second = AgentOptions(name="oracle", label="second")
    spec = job.store.file.spec.model_copy(update={"agents": (ORACLE, NOOP, second)})
    more = prepare_resume(job.store.path, spec=spec, extend=True)
    assert sorted(ids(more)) == [
        *("add.noop.1", "add.second.1", "bare.noop.1", "late.noop.1"),
        *("sort.noop.1", "sort.second.1"),
    ]
    assert sorted(left_out(more), key=str) == [
        *(("declined", "bare", "oracle"), ("declined", "bare", "second")),
        *(("declined", "late", "oracle"), ("declined", "late", "second")),
        *(("refused", "gpu", None), ("refused", "later", None)),
    ]
    assert run(more, FakeTrials()).planned == 8
    assert prepare_resume(job.store.path).trials == []


def test_a_task_that_was_refused_may_join_when_it_is_mended(mixed, tmp_path):
    job = prepared(mixed, tmp_path / "job")
    (mixed / "gpu" / "task.toml").write_text("")
    assert "gpu" not in {plan.task_id for plan in prepare_resume(job.store.path).trials}
    spec = job.store.file.spec.model_copy(update={"attempts": 2})
    more = prepare_resume(job.store.path, spec=spec, extend=True)
    assert "gpu" in {plan.task_id for plan in more.trials}
    assert left_out(more) == []


def test_when_nothing_is_left_the_error_says_why(mixed, tmp_path):
    with pytest.raises(JobError, match=r"can be run:\n  1 task left out for oracle: no solution \(bare\)"):
        prepared(mixed / "bare", tmp_path / "job", agents=(ORACLE,))
    with pytest.raises(JobError, match=r"1 task refused: .* GPUs \(gpu\)\n  gpu asks for a GPU \(environment.gpus\)"):
        prepared(mixed / "gpu", tmp_path / "job")
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize("options", [TrialOptions(enforcement="partial"), FORCED], ids=["partial", "forced"])
def test_a_run_may_do_without(mixed, tmp_path, options):
    job = prepared(mixed / "gpu", tmp_path / "job", trial=options)
    assert (ids(job), left_out(job)) == (["gpu.noop.1"], [])


def test_a_task_that_cannot_be_read_is_kept_among_those_left_out(mixed, make_task, tmp_path):
    make_task("mixed/broken", toml="[agent")
    job = prepared(mixed, tmp_path / "job")
    assert left_out(job) == [("unreadable", "broken", None), ("refused", "gpu", None)]
    assert sum(notice.startswith("task broken is left out") for notice in job.notices) == 1


def test_a_task_in_which_lint_finds_an_error_stops_the_job(mixed, make_task, tmp_path):
    for number in range(12):
        make_task(f"mixed/typo-{number:02}", files=TYPO)
    with pytest.raises(JobError) as caught:
        prepared(mixed, tmp_path / "job")
    first, *lines, more, advice = str(caught.value).splitlines()
    assert first == "lint finds errors in 12 of the chosen tasks, so their rewards would say nothing:"
    assert lines[0] == "  typo-00: [reward-near-miss] tests/test.sh: names rewards.txt, which is never read"
    assert (len(lines), more) == (10, "  … and 2 more tasks")
    assert f"`seatrial lint {mixed}/typo-00`" in advice
    assert "--force" in advice
    assert not (tmp_path / "job").exists()


def test_a_forced_job_is_forced_when_it_goes_on(mixed, make_task, tmp_path):
    make_task("mixed/typo", files=TYPO)
    job = prepared(mixed, tmp_path / "job", trial=FORCED)
    assert "typo.noop.1" in ids(job)
    assert "typo.noop.1" in ids(prepare_resume(job.store.path))
    make_task("mixed/worse", files=TYPO)
    spec = job.store.file.spec.model_copy(update={"attempts": 2})
    assert "worse.noop.2" in ids(prepare_resume(job.store.path, spec=spec, extend=True))


def test_errors_matter_only_in_tasks_that_are_chosen_and_run(mixed, make_task, tmp_path):
    make_task("mixed/typo", files=TYPO)
    assert "typo.oracle.1" not in ids(prepared(mixed, tmp_path / "oracle", agents=(ORACLE,)))
    assert prepared(mixed, tmp_path / "excluded", exclude=("typo",)).trials


def test_what_joins_a_job_must_be_sound(mixed, make_task, tmp_path):
    job = prepared(mixed, tmp_path / "job")
    make_task("mixed/typo", files=TYPO)
    spec = job.store.file.spec.model_copy(update={"attempts": 2})
    with pytest.raises(JobError, match=r"typo: \[reward-near-miss\]"):
        prepare_resume(job.store.path, spec=spec, extend=True)
    assert JobStore.open(job.store.path).file == job.store.file


def test_a_task_that_nobody_attempted_is_judged_when_somebody_is_to(mixed, make_task, tmp_path):
    make_task("mixed/typo", files=TYPO)
    job = prepared(mixed, tmp_path / "job", agents=(ORACLE,))
    more = job.store.file.spec.model_copy(update={"attempts": 2})
    assert "typo" not in {plan.task_id for plan in prepare_resume(job.store.path, spec=more, extend=True).trials}
    with pytest.raises(JobError, match=r"typo: \[reward-near-miss\]"):
        prepare_resume(job.store.path, spec=more.model_copy(update={"agents": (ORACLE, NOOP)}), extend=True)


def test_variables_of_tasks_that_are_not_run_need_not_be_set(make_task, tmp_path):
    make_task("tasks/good", files=SOLVED)
    make_task("tasks/bare", toml='[environment.env]\nA = "${NO_SUCH_A}"\n')
    assert prepared(tmp_path / "tasks", tmp_path / "job", agents=(ORACLE,)).trials


KEYED = '[verifier.env]\nJUDGE = "${OPENAI_API_KEY}"\n'


def test_a_task_that_asks_for_a_providers_key_is_left_out_and_the_others_run(make_task, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("MY_KEY", "k")
    monkeypatch.setenv("JUDGE_TOKEN", "sk-0123456789abcdef0123")
    make_task("tasks/good", files=SOLVED)
    make_task("tasks/judged", files=SOLVED, toml=KEYED)
    make_task("tasks/by-value", files=SOLVED, toml='[environment.env]\nA = "${JUDGE_TOKEN}"\n')
    make_task("tasks/of-upstream", files=SOLVED, toml='[environment.env]\nA = "${MY_KEY}"\n')
    make_task("tasks/both", files=SOLVED, toml=f"{GPU}{KEYED}")
    make_task("tasks/optional", files=SOLVED, toml='[verifier.env]\nJUDGE = "${OPENAI_API_KEY:-}"\n')
    model = ModelOptions(upstream="https://models.example/v1,key=MY_KEY")
    options = {"model": model, "trial": TrialOptions(allow_env=("JUDGE_TOKEN",))}
    with pytest.raises(JobError, match="cannot be allowed:\n  JUDGE_TOKEN holds"):
        prepared(tmp_path / "tasks", tmp_path / "job", **options)
    job = prepared(tmp_path / "tasks", tmp_path / "job", model=model)
    assert ids(job) == ["good.noop.1", "optional.noop.1"]
    assert sorted(left_out(job)) == [("refused", name, None) for name in ("both", "by-value", "judged", "of-upstream")]
    assert "2 tasks refused: no task gets the key of a model provider (by-value, of-upstream)" in job.notices
    assert "1 task refused: its verifier asks a model that this run does not have (judged)" in job.notices
    (line,) = (line for line in job.notices if line.startswith("judged asks for ${OPENAI_API_KEY}: "))
    assert "--verifier-upstream" in line
    assert "--allow-env" not in line
    assert ids(prepare_resume(job.store.path)) == ids(job)


def test_a_key_for_the_solution_keeps_only_those_away_who_run_it(make_task, tmp_path):
    make_task("tasks/good", files=SOLVED)
    make_task("tasks/keyed", files=SOLVED, toml='[solution.env]\nJUDGE = "${ANTHROPIC_API_KEY}"\n')
    job = prepared(tmp_path / "tasks", tmp_path / "job", agents=(ORACLE, NOOP))
    assert ids(job) == ["good.oracle.1", "good.noop.1", "keyed.noop.1"]
    assert left_out(job) == [("declined", "keyed", "oracle")]
    with pytest.raises(JobError, match=r"for oracle: its solution asks for the key of a model provider.* \(keyed\)"):
        prepared(tmp_path / "tasks/keyed", tmp_path / "other", agents=(ORACLE,))


@pytest.mark.parametrize("options", [TrialOptions(), FORCED], ids=["as usual", "forced"])
def test_when_all_tasks_ask_for_a_key_it_is_an_error(make_task, tmp_path, options):
    make_task("tasks/judged", files=SOLVED, toml=KEYED)
    with pytest.raises(
        JobError, match=r"(?s)none of the chosen tasks can be run:.*judged asks for \$\{OPENAI_API_KEY\}"
    ):
        prepared(tmp_path / "tasks", tmp_path / "job", trial=options)


def test_tasks_inside_the_folder_of_another_are_said(make_task, tmp_path):
    make_task("tasks/outer")
    make_task("tasks/outer/inner")
    (notice,) = prepared(tmp_path / "tasks", tmp_path / "job").notices
    assert notice.startswith("in outer: inner: this task lies inside another task's folder")
