"""Agents as a job stores them: files pinned down, and what is wrong with them said before the start."""

import asyncio

import pytest

from seatrial.agents.api import with_own_setup
from seatrial.errors import HostUnsupportedError, JobError, UsageError
from seatrial.jobs.api import run_job, run_prepared, run_trial
from seatrial.jobs.checks import (
    agent_notices,
    changed_agents,
    check_images,
    check_variables,
    locked_agent,
    with_locked_agents,
)
from seatrial.jobs.prepare import prepare_job
from seatrial.model.job import AgentFiles, AgentLayer, AgentOptions, JobSpec, LayerRecipe, TrialOptions
from seatrial.model.preset import Preset
from seatrial.sandbox.api import Capabilities
from seatrial.tasks.load import load_task, read_folder
from seatrial.tasks.outline import TaskOutline
from seatrial.testing.fake import FakeBackend, answer
from tests.agents.presets_made import options, preset
from tests.backends.stand_ins import stand_in
from tests.cli.test_gc_command import why_no_sandbox
from tests.installed import install
from tests.jobs.samples import job_spec
from tests.trial.support import write_task


def command(*files: AgentFiles, text: str = "true") -> AgentOptions:
    return AgentOptions(name="command", command=text, files=files)


def test_files_get_a_whole_path_and_a_digest_once(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("1")
    monkeypatch.chdir(tmp_path)
    agent = locked_agent(command(AgentFiles(source="a.py")))
    assert agent.files[0].source == str(tmp_path / "a.py")
    assert changed_agents([agent]) == []
    (tmp_path / "a.py").write_text("2")
    assert locked_agent(agent) == agent
    assert changed_agents([agent]) == [f"agents.command.files: {tmp_path}/a.py has changed, or is not there any more"]


def test_two_folders_cannot_lie_in_one_place_but_files_can(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.py").write_text(name)
    files = [AgentFiles(source=str(tmp_path / name)) for name in ("one.py", "two.py", "one")]
    assert len(locked_agent(command(*files)).files) == 3
    with pytest.raises(JobError, match=r"more than one folder goes to /agent; .*two:/agent-2"):
        locked_agent(command(*files, AgentFiles(source=str(tmp_path / "two"))))


def test_commands_of_this_machine_are_fine_where_they_run_on_it(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("")
    monkeypatch.chdir(tmp_path)
    spec = JobSpec(name="j", tasks=("/t",), agents=(command(text="python3 a.py"),))
    with pytest.raises(JobError, match=r"a\.py is on this machine"):
        with_locked_agents(spec)
    assert with_locked_agents(spec.model_copy(update={"trial": TrialOptions(backend="local")})).agents


def test_where_there_are_no_images_no_tree_can_be_laid_over_one():
    preset = AgentOptions(name="claude-code", model="m")
    spec = JobSpec(name="j", tasks=("/t",), agents=(preset,), trial=TrialOptions(backend="local"))
    with pytest.raises(JobError, match=r"'claude-code' runs from a tree .* the local backend has no images"):
        with_locked_agents(spec)


TOOLS = '[environment]\nmemory_mb = 256\nskills_dir = "/s"\nmcp_servers = [{name = "m", url = "http://m"}]\n'


def said(make_task, *agents: Preset | str, **trial) -> list[str]:
    read = (read_folder(make_task(name, toml=TOOLS), name) for name in ("one", "two"))
    tasks = [task for task in read if isinstance(task, TaskOutline)]
    made = [with_own_setup(AgentOptions(name=each)) if isinstance(each, str) else options(each) for each in agents]
    return agent_notices(made, tasks, TrialOptions(**trial))


def test_agents_that_have_no_preset_are_not_judged(make_task):
    assert said(make_task, "oracle", "noop") == []


def test_little_memory_is_said_with_the_way_out(make_task):
    short = preset(least_memory_mb=512, mcp={"style": "usual", "file": "m.json"}, skills="s")
    (line,) = said(make_task, short)
    assert "takes 512 MB of memory, and one and 1 more gives it 256 MB; --memory 512M" in line
    assert said(make_task, short, memory_mb=512) == []


def test_tools_that_it_cannot_use_are_named(make_task):
    assert said(make_task, preset()) == [
        "the agent 'fake' cannot use MCP servers, and works without 'm' of one (and 1 more)",
        "the agent 'fake' knows no skills, and works without those of one and 1 more",
    ]
    only = preset(mcp={"style": "codex", "file": "m.toml", "transports": ("stdio",)}, skills="s")
    assert "cannot use MCP servers by sse" in said(make_task, only)[0]


def test_one_of_the_users_own_in_the_place_of_ours_is_said(make_task):
    own = preset(name="codex", source="/mine/codex.toml", mcp={"style": "usual", "file": "m.json"}, skills="s")
    assert said(make_task, own) == [
        "the agent 'codex' is that of /mine/codex.toml, before the one that comes with Seatrial"
    ]


def test_a_layer_that_verifiers_would_use_too_is_said(tmp_path):
    (tmp_path / "opt/mine").mkdir(parents=True)
    (tmp_path / "opt/mine/agent").touch()
    agent = AgentOptions(name="command", command="x", layer=AgentLayer(source=str(tmp_path)))
    assert agent_notices([agent], [], TrialOptions()) == []
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/python3").touch()
    (tmp_path / "usr/bin/sh").symlink_to("/opt/mine/agent")
    (line,) = agent_notices([agent], [], TrialOptions())
    assert "the layer of the agent 'command' brings '/usr/bin/python3' and 1 more outside of /opt" in line


NOOP = AgentOptions(name="noop")
ORACLE = AgentOptions(name="oracle")
HOST = {"TOKEN": "t", "OTHER": "o", "OPENAI_API_KEY": "k"}


@pytest.fixture
def check(make_task):
    def check(toml, *agents, allow=(), upstream=None, host=HOST, **options):
        config, trial = load_task(make_task("one", toml=toml)).config, TrialOptions(allow_env=allow, **options)
        return check_variables({"one": config}, agents or [NOOP], trial, upstream, host)

    return check


def test_what_was_not_allowed_is_refused_with_the_task_and_the_way(check):
    with pytest.raises(JobError) as refused:
        check('environment.env.A = "${TOKEN}"\nverifier.env.B = "${UNSET}"\n')
    assert str(refused.value).splitlines()[1:] == [
        "  TOKEN (for one): it is not allowed; --allow-env TOKEN lets tasks have it",
        "  UNSET (for one): it is not set; export it, and let tasks have it with --allow-env UNSET",
    ]


def test_what_was_allowed_and_is_set_is_fine(check):
    assert check('environment.env.A = "${TOKEN}"\n', allow=("TOKEN",)) == []
    with pytest.raises(JobError, match=r"UNSET \(for one\): it is not set; export it$"):
        check('environment.env.A = "${UNSET}"\n', allow=("UNSET",))


def test_a_default_is_used_instead_and_told(check):
    (notice,) = check('environment.env.A = "${TOKEN:-none}"\nverifier.env.B = "${UNSET:-none}"\n')
    assert notice.startswith(
        "TOKEN (for one): it is set here, tasks use their own default: it is not allowed; --allow-env"
    )


def test_no_task_gets_a_providers_key_allowed_or_not(check):
    with pytest.raises(JobError, match="OPENAI_API_KEY is the key of a model provider, which no task gets"):
        check('environment.env.A = "${OPENAI_API_KEY}"\n')
    with pytest.raises(JobError, match="no task gets the key of a provider; --verifier-upstream"):
        check('verifier.env.A = "${OPENAI_API_KEY}"\n')
    with pytest.raises(JobError, match="cannot be allowed:\n  OPENAI_API_KEY is the key"):
        check("", allow=("OPENAI_API_KEY",))
    with pytest.raises(JobError, match="cannot be allowed:\n  TOKEN is the key"):
        check("", allow=("TOKEN",), upstream="https://models.example/v1,key=TOKEN")
    with pytest.raises(JobError, match="cannot be allowed:\n  TOKEN is the key"):
        check("", allow=("TOKEN",), verifier_upstream="https://models.example/v1,key=TOKEN")
    (notice,) = check('verifier.env.A = "${OPENAI_API_KEY:-}"\n')
    assert "--allow-env" not in notice


def test_an_agents_own_variables_are_the_users_word(check):
    agent = AgentOptions(name="command", command="true", env={"KEY": "${OPENAI_API_KEY}", "T": "${TOKEN}"})
    assert check("", agent) == []
    with pytest.raises(JobError, match=r"TOKEN \(for one\): it is not set; export it$"):
        check("", agent, host={"OPENAI_API_KEY": "k"})


def test_what_the_solution_takes_is_the_tasks_word(check):
    toml = 'solution.env.A = "${TOKEN}"\n'
    assert check(toml, NOOP) == []
    with pytest.raises(JobError, match=r"TOKEN .*it is not allowed"):
        check(toml, ORACLE)
    assert check(toml, ORACLE, allow=("TOKEN",)) == []
    # The same words on the command line are the user's, whatever the task says.
    assert check(toml, AgentOptions(name="command", command="true", env={"A": "${TOKEN}"})) == []


@pytest.mark.parametrize("name", ["*", "TOK*", "A=B", "A B", "", "1A", "A\n"])
def test_only_whole_names_can_be_allowed(name):
    with pytest.raises(ValueError, match="allow_env"):
        TrialOptions(allow_env=(name,))


OPTIONS = TrialOptions()


@pytest.mark.parametrize(
    ("toml", "files", "place"),
    [
        ('environment.docker_image = "/etc"', {}, "task.toml: environment.docker_image: '/etc'"),
        ('environment.image = "host"', {}, "task.toml: environment.docker_image: 'host'"),
        ('verifier.environment.docker_image = "/x"', {}, "task.toml: verifier.environment.docker_image: '/x'"),
        (
            '[[steps]]\nname = "a"\nverifier.environment.docker_image = "./x"',
            {"steps/a/instruction.md": "Go."},
            "task.toml: steps.a.verifier.environment.docker_image: './x'",
        ),
        ("", {"environment/Dockerfile": "FROM /etc\n"}, "environment/Dockerfile:1: FROM: '/etc'"),
        ("", {"environment/Dockerfile": "FROM a\nCOPY --from=host / /\n"}, "environment/Dockerfile:2: COPY: 'host'"),
        ("", {"tests/Dockerfile": "ARG B=oci:/x\nFROM $B\n"}, "tests/Dockerfile:2: FROM: 'oci:/x'"),
    ],
)
def test_a_task_that_names_a_place_of_this_machine_is_refused_by_name(make_task, tmp_path, toml, files, place):
    make_task("set/honest", toml='environment.docker_image = "python:3.11"')
    task = make_task("set/nosy", toml=toml, files=files)
    with pytest.raises(JobError) as refused:
        prepare_job(job_spec(tasks=(str(tmp_path / "set"),)), tmp_path / "job")
    assert f"task nosy: {task}/{place}" in str(refused.value) or f"task nosy: {place}" in str(refused.value)
    assert "--image-map" in str(refused.value)
    assert "honest" not in str(refused.value)
    assert not (tmp_path / "job").exists()
    with pytest.raises(JobError, match="no task may name"):
        run_trial(task)


@pytest.mark.parametrize(
    "options", [{"image": "host"}, {"image_map": {"/etc": "python:3.11"}}, {"image_map": {"/e*": "/folder"}}]
)
def test_what_the_run_says_instead_is_the_users_own_word(make_task, options):
    task = load_task(make_task(toml='environment.docker_image = "/etc"'))
    check_images([task], TrialOptions(**options))


def test_a_dockerfile_that_is_not_built_is_not_looked_at(make_task):
    task = load_task(make_task(toml='environment.docker_image = "a:1"', files={"environment/Dockerfile": "FROM /etc"}))
    check_images([task], OPTIONS)
    with pytest.raises(JobError, match="FROM: '/etc'"):
        check_images([task], TrialOptions(build="always"))


def test_a_file_that_is_no_dockerfile_is_left_to_the_build(make_task):
    check_images([load_task(make_task(files={"environment/Dockerfile": "\0"}))], OPTIONS)


USER = Capabilities(
    backend="fake",
    isolation="namespaces",
    mode="user",
    limits=frozenset({"storage_mb"}),
    networks=frozenset({"none", "public", "allowlist", "host"}),
    guarded_phases=True,
    own_system=True,
    missing={"memory_mb": "no control group for memory; run as root", "cpus": "no control group; run as root"},
)


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A job of three tasks, two of which want limits, on a machine that has none of them."""
    made: list[FakeBackend] = []

    def make() -> FakeBackend:
        backend = FakeBackend(lambda *_: answer(), files={"/logs/verifier/reward.txt": b"1"}, capabilities=USER)
        made.append(backend)
        return backend

    stand_in(monkeypatch, make)
    write_task(tmp_path / "tasks/a", toml="[environment]\nmemory_mb = 512\ncpus = 1\n")
    write_task(tmp_path / "tasks/b", toml="[environment]\n[verifier.environment]\nmemory_mb = 512\n")
    write_task(tmp_path / "tasks/c", toml="[environment]\nstorage_mb = 100\n")

    def run(folder="job", **options):
        spec = JobSpec(
            name="j",
            tasks=(str(tmp_path / "tasks"),),
            agents=(AgentOptions(name="noop"),),
            trial=TrialOptions(image="host", **options),
        )
        return asyncio.run(run_prepared(prepare_job(spec, tmp_path / folder)))

    return run, made


def test_one_message_before_the_start_with_the_choice(job, tmp_path):
    run, made = job
    with pytest.raises(HostUnsupportedError) as refused:
        run()
    head, *lines, choice, way = str(refused.value).splitlines()
    assert "nothing has been run" in head
    assert lines == [
        "  cpus (a): no control group",
        "  memory_mb (2 tasks, such as a): no control group for memory",
    ]
    assert "--allow-partial-limits" in choice
    assert way == "  run as root"
    assert made[0].sandboxes == []
    assert not (tmp_path / "job").exists()


def test_the_choice_works(job):
    run, _ = job
    assert run(enforcement="partial").finished == 3


def test_networks_count_as_well(job, monkeypatch):
    run, _ = job
    closed = Capabilities(backend="fake", isolation="none", mode="x", networks=frozenset({"host"}))
    stand_in(monkeypatch, lambda: FakeBackend(lambda *_: answer(), capabilities=closed))
    with pytest.raises(HostUnsupportedError, match=r"network 'public' \(3 tasks, such as a\)"):
        run()


PARROT = """
from pathlib import Path

from seatrial.agents.api import AgentLaunch, AgentSetup
from seatrial.model.job import AgentFiles
from seatrial.model.record import AgentRef


class Parrot:
    setup = AgentSetup(
        "tr A-Z a-z </parrot/words >/usr/local/share/words",
        (AgentFiles(source=str(Path(__file__).parent / "words"), target="/parrot"),),
    )

    def __init__(self, options):
        self.ref = AgentRef(name=options.title)

    def templates(self, config):
        return {}

    def prepare(self, context):
        return AgentLaunch(("cp", "/usr/local/share/words", "/app/answer.txt"))


class Odd(Parrot):
    setup = "pip install odd"


class Carried(Parrot):
    setup = AgentSetup(files=Parrot.setup.files)
"""

BAKED = """
from seatrial.agents.api import AgentSetup
from seatrial.agents.builtin import NoopAgent
from seatrial.model.job import LayerRecipe


class Baked(NoopAgent):
    setup = AgentSetup(recipe=LayerRecipe(name="baked", version="1.0"))
"""


@pytest.fixture
def site(monkeypatch, tmp_path):
    folder = tmp_path / "site"
    agents = "parrot = Parrot\nodd = Odd\ncarried = Carried"
    install(monkeypatch, folder, "parrot", PARROT, agents=agents)
    (folder / "words").write_text("RIGHT\n")
    return folder


def test_it_is_installed_by_itself(site, tmp_path, monkeypatch):
    if reason := why_no_sandbox():
        pytest.skip(f"embedded sandbox: {reason}")
    monkeypatch.setenv("SEATRIAL_CACHE", str(tmp_path / "cache"))
    write_task(tmp_path / "task")
    outcome = run_job(tmp_path / "task", "parrot", folder=tmp_path / "job", options=TrialOptions(image="host"))
    (entry,) = outcome.store.entries()
    assert entry.reward == 1.0, outcome.store.record(entry.trial_id).failure
    (stored,) = outcome.store.file.spec.agents
    assert stored.setup == "tr A-Z a-z </parrot/words >/usr/local/share/words"
    assert stored.files[0].digest is not None


def test_a_user_s_own_set_up_goes_before_all_of_it(site):
    mine = AgentOptions(name="parrot", setup="apt-get install parrot")
    assert with_own_setup(mine) == mine


def test_a_recipe_of_its_own_is_taken_unless_the_user_brings_a_layer(monkeypatch, tmp_path):
    (tmp_path / "tree/opt").mkdir(parents=True)
    install(monkeypatch, tmp_path / "site", "baked", BAKED, agents="baked = Baked")
    assert with_own_setup(AgentOptions(name="baked")).recipe == LayerRecipe(name="baked", version="1.0")
    mine = locked_agent(AgentOptions(name="baked", layer=AgentLayer(source=str(tmp_path / "tree"))))
    assert mine.recipe is None
    assert mine.layer is not None
    assert mine.layer.digest is not None
    assert changed_agents([mine]) == []
    (tmp_path / "tree/opt/more").touch()
    assert changed_agents([mine]) == [f"agents.baked.layer: {tmp_path}/tree has changed, or is not there any more"]


def test_a_user_s_files_come_along_with_its_own(site):
    mine = AgentFiles(source="/my/seeds", target="/seeds")
    found = with_own_setup(AgentOptions(name="parrot", files=(mine,)))
    assert [each.target for each in found.files] == ["/seeds", "/parrot"]


def test_files_alone_are_brought_once(site):
    once = locked_agent(AgentOptions(name="carried"))
    assert (once.setup, len(once.files)) == (None, 1)
    assert locked_agent(once) == once


def test_what_is_no_set_up_is_refused(site):
    with pytest.raises(UsageError, match="the agent 'odd' is set up by 'pip install odd', expected a seatrial"):
        with_own_setup(AgentOptions(name="odd"))


def test_those_that_say_nothing_stay_as_they_are():
    assert with_own_setup(AgentOptions(name="noop")) == AgentOptions(name="noop")
