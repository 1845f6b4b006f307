"""Whole trials in containers: honest work counts, and what an agent plants or leaves running forges nothing."""

import shutil
import tarfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any, get_args

import pytest

from seatrial.agents.files import lock_files
from seatrial.gateway.access import ModelAccess
from seatrial.gateway.prices import PriceTable
from seatrial.gateway.session import SessionOptions
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.images.resolver import ImageResolver
from seatrial.images.sources import EngineSource
from seatrial.model.job import AgentFiles
from seatrial.sandbox.engine.backend import EngineBackend
from seatrial.sandbox.engine.client import Engine
from tests.attacks.attack import program
from tests.attacks.classic import PLANTED
from tests.docker_daemon import IMAGE, busybox_archive, needs
from tests.sandbox.engine.support import open_engine_desk
from tests.trial.support import ANSWER, SHELL_TEST, Desk, Ran, run_in_image, trial_spec, write_task
from tests.trial.test_kept import CHANGE, LOOK, again

pytestmark = needs("docker")

FOLDERS = "/logs/agent\n/logs/artifacts\n/logs/verifier\n"
FORGE = "echo 1 > /logs/verifier/reward.txt"
STEPS = """
artifacts = ["/app/seen"]
[environment]
network_mode = "no-network"
[[steps]]
name = "one"
[[steps]]
name = "two"
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root file system to make an image of."""
    root = tmp_path_factory.mktemp("image") / "root"
    with tarfile.open(fileobj=BytesIO(busybox_archive())) as tar:
        tar.extractall(root)  # noqa: S202 - it is our own
    return root


def play(desk: Desk, image: Path, agent: str | None, task: Path | None = None, **options: Any) -> Ran:
    """Run a trial in the image."""
    spec = trial_spec(task or write_task(desk.new_folder() / "task"), agent, **options)
    return desk.run_spec(replace(spec, options=spec.options.model_copy(update={"image": str(image)})))


def test_an_honest_answer_counts_and_the_record_says_where_it_was_judged(desk, image):
    ran = play(desk, image, f"echo right > {ANSWER}")
    assert (ran.reward, ran.run.isolation, ran.tags) == (1.0, "kill", set())
    assert (ran.record.sandbox.backend, ran.record.sandbox.reproducible) == ("docker", True)
    assert ran.changes.added == (ANSWER,)


def test_an_agent_s_files_and_the_user_s_certificates_are_there_and_the_verifier_has_its_own(desk, image, tmp_path):
    (tmp_path / "words.sh").write_text("WORD=right\n")
    certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    (tmp_path / "ca.pem").write_text(certificate)
    test = f'{SHELL_TEST}cat "$SSL_CERT_FILE" > /logs/verifier/seen.pem\n'
    task = write_task(desk.new_folder() / "task", files={"tests/test.sh": test})
    command = f'. /agent/words.sh; echo $WORD > {ANSWER}; echo forged | tee "$SSL_CERT_FILE" /tests/.ca.pem'
    spec = trial_spec(task, command, ca_file=str(tmp_path / "ca.pem"))
    files = (lock_files(AgentFiles(source=str(tmp_path / "words.sh"))),)
    options = spec.options.model_copy(update={"image": str(image)})
    agent = spec.agent.model_copy(update={"files": files})
    ran = desk.run_spec(replace(spec, options=options, agent=agent))
    assert (ran.reward, ran.text("verifier/files/seen.pem")) == (1.0, certificate)
    assert not [path for path in ran.changes.added if path.startswith("/agent")]


def test_oracle_and_noop(desk, image):
    task = write_task(desk.new_folder() / "task", files={"solution/solve.sh": f"#!/bin/sh\necho right > {ANSWER}\n"})
    assert play(desk, image, "oracle", task).reward == 1.0
    assert play(desk, image, None, task).reward == 0.0


@pytest.mark.parametrize("attack", [each for each in PLANTED if "python" not in str(each.against)], ids=str)
def test_what_lies_where_the_verifier_works_is_not_there_for_it(desk, image, attack):
    task = write_task(desk.new_folder() / "task", files=attack.against)
    ran = play(desk, image, f"echo wrong > {ANSWER}\n{attack.command}", task)
    assert ran.agent.exit_code == 0, ran.text("agent/stderr.txt")
    assert ran.reward == 0.0
    assert ran.tags >= attack.tags


@pytest.mark.parametrize("path", ["/bin/grep", "/bin/sh", "/bin/cat"])
def test_programs_that_were_replaced_are_those_of_the_image_again(desk, image, path):
    own = "cp /bin/busybox /app/sh"
    ran = play(desk, image, f"echo wrong > {ANSWER}\n{own}\n{program(path, '/app/sh')}")
    assert ran.reward == 0.0
    assert ran.run.restored == (path,)
    assert "verifier_tools_restored" in ran.tags


@pytest.mark.parametrize("answer", ["wrong", "right"])
def test_what_is_left_running_is_ended_before_the_verifier_starts(desk, image, answer):
    """It writes rewards and rewrites the test for as long as it lives, and survives all but SIGKILL."""
    rewrite = "mkdir -p /tests /logs/verifier; echo 'exit 0' > /tests/test.sh"
    writer = f"trap '' TERM HUP INT; while :; do {rewrite}; {FORGE}; done 2>/dev/null"
    test = f"{SHELL_TEST}\nps | grep -c '[t]rap' > /logs/verifier/left.txt"
    task = write_task(desk.new_folder() / "task", files={"tests/test.sh": test})
    ran = play(desk, image, f'echo {answer} > {ANSWER}; setsid sh -c "{writer}" >/dev/null 2>&1 & sleep 0.2', task)
    assert ran.reward == (1.0 if answer == "right" else 0.0)
    assert (ran.run.isolation, ran.text("verifier/files/left.txt")) == ("kill", "0\n")
    assert "processes_left_running" in ran.tags


def test_who_wants_services_to_run_on_says_so_and_so_does_the_record(desk, image):
    test = "#!/bin/sh\nps | grep -c '[s]leep 1000' > /logs/verifier/left.txt; echo 1 > /logs/verifier/reward.txt"
    task = write_task(desk.new_folder() / "task", files={"tests/test.sh": test})
    ran = play(desk, image, "setsid sleep 1000 >/dev/null 2>&1 &", task, isolation="keep")
    assert (ran.run.isolation, ran.text("verifier/files/left.txt")) == ("exposed", "1\n")


def test_an_end_state_that_was_kept_is_judged_again(desk, image, tmp_path):
    root = Path(shutil.copytree(image, tmp_path / "root", symlinks=True))
    for name in ("data/gone", "data/old/inside", "data/turned/inside", "data/kept"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("of the image\n")
    task = write_task(tmp_path / "task", files={"tests/test.sh": LOOK})
    spec = trial_spec(task, CHANGE, keep="snapshot")
    spec = replace(spec, options=spec.options.model_copy(update={"image": str(root)}))
    ran = desk.run_spec(spec)
    assert again(desk, spec, ran, tmp_path).verdict.value == 1.0
    seen = ran.text("verifier/files/seen.txt")
    assert not {"gone", "inside"} & set(seen.split())
    assert (tmp_path / "verifier/files/seen.txt").read_text() == seen


def test_an_agent_whose_time_is_over_has_nothing_left(desk, image):
    task = write_task(desk.new_folder() / "task", toml="[agent]\ntimeout_sec = 1.0\n")
    ran = play(desk, image, f"echo right > {ANSWER}; (trap '' TERM; sleep 1000) & sleep 1000", task)
    assert (ran.agent.status, ran.reward, ran.run.survivors) == ("timed_out", 1.0, ())


def test_the_tests_of_one_step_are_not_there_for_the_agent_of_the_next(desk, image):
    files = {f"steps/{name}/instruction.md": "Do it.\n" for name in ("one", "two")}
    files |= {f"steps/{name}/tests/test.sh": SHELL_TEST for name in ("one", "two")}
    task = write_task(desk.new_folder() / "task", toml=STEPS, files=files)
    look = "ls -d /tests /tests/* /logs/* /logs/*/* >> /app/seen 2>/dev/null; echo end >> /app/seen"
    command = f"echo right > {ANSWER}; {look}"
    ran = play(desk, image, command, task)
    assert ran.reward == 1.0
    kept = sorted(ran.folder.rglob("artifacts/app/seen"))
    assert [path.read_text() for path in kept] == [f"{FOLDERS}end\n", f"{FOLDERS}end\n" * 2]


def test_a_separate_verifier_gets_the_artifacts_and_a_container_of_its_own(desk, image):
    toml = f'artifacts = ["{ANSWER}"]\n[environment]\nnetwork_mode = "no-network"\n'
    task = write_task(desk.new_folder() / "task", toml=toml)
    ran = play(desk, image, f"echo right > {ANSWER}", task, isolation="separate")
    assert (ran.reward, ran.run.isolation) == (1.0, "separate")


def test_an_agent_reaches_its_model(desk, image):
    ask = """wget -q -O - --header "Authorization: Bearer $OPENAI_API_KEY" --header "Content-Type: application/json" \\
        --post-data '{"model": "m", "messages": []}' "$OPENAI_BASE_URL/chat/completions" | grep -o right | head -n 1"""
    spec = trial_spec(write_task(desk.new_folder() / "task"), f"{ask} > {ANSWER}")
    model = ModelAccess(ScriptedModel([{"text": "right"}]), SessionOptions(), PriceTable(models={}))
    options = spec.options.model_copy(update={"image": str(image)})
    ran = desk.run_spec(replace(spec, options=options), model=model)
    assert ran.reward == 1.0
    assert ran.record.model_usage is not None
    assert ran.record.model_usage.calls == 1


def test_the_host_image_is_refused_with_the_way_out(desk):
    ran = desk.attack("true")
    assert "-e embedded" in ran.failure.message


@pytest.mark.parametrize("engine", [pytest.param(name, marks=needs(name)) for name in get_args(Engine)])
@pytest.mark.parametrize(("last", "left"), [('exec "$@"', "0"), ('"$@"', "1"), ("echo no disk; exit 3", None)])
def test_the_entry_point_of_an_image_runs_before_the_agent(tmp_path, engine, last, left):
    lines = (f"FROM {IMAGE}", "WORKDIR /place", "USER 1000", 'ENTRYPOINT ["/start.sh", "$(it\'s)"]', "COPY start.sh /")
    begin = 'echo "$1 by $(id -u) in $(pwd)"; shift; echo broken > /tmp/state; sleep 2000 &\n'
    files = {
        "environment/Dockerfile": "\n".join(lines),
        "environment/start.sh": f"#!/bin/sh\n{begin}{last}\n",
        "tests/test.sh": "#!/bin/sh\nif grep -qx mended /tmp/state; then echo 1; fi > /logs/verifier/reward.txt\n",
    }
    root = write_task(tmp_path / "task", files=files)
    (root / "environment/start.sh").chmod(0o755)
    look = (
        'cat /tmp/state; for n in 2000 2147483647; do ps -o args | grep -c "^sleep $n"; done; echo mended > /tmp/state'
    )
    with open_engine_desk(engine, tmp_path) as desk:
        assert isinstance(desk.backend, EngineBackend)
        images = ImageResolver(EngineSource(desk.backend.client), lambda _: None)
        ran = run_in_image(desk, images, root, look, backend=engine)
    assert ran.text("entrypoint.txt").startswith("$(it's) by 1000 in /place\n")
    if left is None:
        assert (ran.failure.cause, ran.failure.message[-10:]) == ("EntrypointError", "3: no disk")
    else:
        assert ran.text("agent/stdout.txt").split() == ["broken", "1", left]
        assert ran.reward == 1.0


SERVED = """#!/bin/sh
wget -q -O - http://127.0.0.1:8000/answer > /tmp/said
if /bin/grep -qx right /tmp/said; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
SERVE = """mkdir -p /app/www; echo {} > /app/www/answer; cd /app/www
setsid httpd -f -p 127.0.0.1:8000 >/dev/null 2>&1 &
while ! wget -q -O - http://127.0.0.1:8000/answer >/dev/null 2>&1; do :; done
"""
# What a service does at the verifier's request: it looks for it, forges its verdict and ends it.
LOOK_AND_KILL = """mkdir -p /app/www/cgi-bin; cat > /app/www/cgi-bin/look <<'END'
#!/bin/sh
echo; mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt
cat /tests/secret /proc/[0-9]*/root/tests/secret 2>/dev/null
for each in /proc/[0-9]*; do
  if tr '\\0' ' ' < $each/cmdline | grep -q '[t]ests/test.sh'; then echo found; kill -9 ${each#/proc/}; fi
done
END
chmod 755 /app/www/cgi-bin/look
"""
ASK_TO_LOOK = """#!/bin/sh
wget -q -O /logs/verifier/found.txt http://127.0.0.1:8000/cgi-bin/look
echo 0 > /logs/verifier/reward.txt
"""


@pytest.mark.parametrize(("answer", "reward"), [("right", 1.0), ("wrong", 0.0)])
def test_a_service_that_the_agent_left_answers_the_verifier(desk, image, answer, reward):
    task = write_task(desk.new_folder() / "task", files={"tests/test.sh": SERVED})
    ran = play(desk, image, SERVE.format(answer), task)
    assert (ran.reward, ran.run.isolation, ran.run.shielded) == (reward, "guarded", True)
    assert (ran.run.survivors, ran.run.services) == (("httpd",), ("tcp:8000",))
    assert [warning.code for warning in ran.record.warnings] == ([] if reward else ["services_beside"])


@pytest.mark.parametrize(("isolation", "sees"), [("guarded", False), ("keep", True)])
def test_a_service_finds_nothing_of_the_verifier_that_it_answers(desk, image, isolation, sees):
    """The same service does find it, and ends it, where somebody says that nothing is to be shielded."""
    files = {"tests/test.sh": ASK_TO_LOOK, "tests/secret": "secret\n"}
    task = write_task(desk.new_folder() / "task", files=files)
    ran = play(desk, image, LOOK_AND_KILL + SERVE.format("x"), task, isolation=isolation)
    assert (ran.reward, "secret" in ran.text("verifier/files/found.txt")) == (1.0 if sees else 0.0, sees)


def test_beside_a_service_programs_that_were_replaced_are_those_of_the_image(desk, image):
    task = write_task(desk.new_folder() / "task", files={"tests/test.sh": SERVED})
    replace_grep = f"cp /bin/busybox /app/sh; {program('/bin/grep', '/app/sh')}"
    ran = play(desk, image, f"{SERVE.format('wrong')}\n{replace_grep}", task)
    assert (ran.reward, ran.run.isolation, ran.run.restored) == (0.0, "guarded", ("/bin/grep",))
    assert (ran.record.disputed_reward, ran.tags >= {"verifier_tools_restored", "disputed_verdict"}) == (1.0, True)


def test_a_service_beside_which_a_verifier_is_silent_ends_and_the_record_says_so(desk, image):
    test = f"{SERVED}wget -q -O - http://127.0.0.1:8000/answer && rm /logs/verifier/reward.txt"
    task = write_task(desk.new_folder() / "task", files={"tests/test.sh": test})
    ran = play(desk, image, SERVE.format("right"), task)
    assert (ran.reward, ran.run.isolation, ran.run.services) == (0.0, "kill", ("tcp:8000",))
    assert [warning.code for warning in ran.record.warnings] == ["services_ended"]


def test_a_service_runs_on_for_the_next_step_whose_agent_sees_nothing_of_the_verifier_before(desk, image):
    files = {f"steps/{name}/instruction.md": "Serve it.\n" for name in ("one", "two")}
    files |= {f"steps/{name}/tests/test.sh": SERVED for name in ("one", "two")}
    task = write_task(desk.new_folder() / "task", toml=STEPS, files=files)
    look = "(ls -d /tests; ls /logs/verifier; wget -q -O - http://127.0.0.1:8000/answer) >> /app/seen 2>/dev/null"
    ran = play(desk, image, f"{look}; [ -e /app/www ] || {{ {SERVE.format('right')} }}", task)
    assert (ran.reward, [run.isolation for run in ran.record.verifier_runs]) == (1.0, ["guarded", "guarded"])
    kept = sorted(ran.folder.rglob("artifacts/app/seen"))
    assert [path.read_text() for path in kept] == ["", "right\n"]
