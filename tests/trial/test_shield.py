"""Survivors that wait with their attack until the verifier is at work, and what honest ones still can do meanwhile."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from seatrial.model.record import FileChanges
from seatrial.sandbox.api import ExecResult, ExecSpec
from seatrial.testing.fake import ALL_POWERFUL, FakeBackend, FakeSandbox, answer
from seatrial.trial.work import listening
from tests.attacks.attack import FORGE_PY, FORGE_SH
from tests.conftest import sampled
from tests.sandbox.embedded.support import MODES, needs_python, needs_root
from tests.system_python import SITE_HOOK, STDLIB
from tests.trial.support import ANSWER, PYTHON_FILES, PYTHON_TEST, Desk, open_desk, python_command
from tests.trial.test_survivors import LEAVE_BEHIND, leave
from tests.trial.test_work import TABLES

pytestmark = [needs_root, needs_python]
ROUNDS = 6
PACKAGES = "/usr/lib/python3/dist-packages"


@pytest.fixture(scope="module", params=sampled(MODES))
def desk(request, tmp_path_factory) -> Iterator[Desk]:
    with open_desk(tmp_path_factory.mktemp("desk"), request.param) as opened:
        yield opened


# They plant nothing that could be found beforehand, and take it away again before anybody looks afterwards.
TOOLS = f"""
import ctypes, random
libc = ctypes.CDLL(None)
HOOK = "{SITE_HOOK}"
SHADOW = "/usr/local/bin/python3"
def watch(*paths):
    number = libc.inotify_init1(0)
    for path in paths:
        libc.inotify_add_watch(number, path.encode(), 0x20)
    return number
def plant(path, text):
    with open(path + "~", "w") as file:
        file.write(text)
    os.chmod(path + "~", 0o755)
    os.rename(path + "~", path)
def plant_hook():
    plant(HOOK, '''{FORGE_PY}''')
def plant_shadow():
    plant(SHADOW, '''#!/bin/sh\\n{FORGE_SH}\\n''')
def plant_both_for_a_while():
    plant_hook()
    plant_shadow()
    time.sleep(0.5)
    remove()
def remove():
    for path in (HOOK, SHADOW):
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
"""
# Told by the first use of the shell or the interpreter that a verifier is at work.
WATCHER = f"""{TOOLS}
eyes = watch("/usr/bin/dash", "{STDLIB}/encodings")
def work():
    os.read(eyes, 65536)
    plant_both_for_a_while()
"""
# Told by the first look at what is shared, which comes too late for the first interpreter but not for the next.
READER = f"""{TOOLS}
eyes = watch("{ANSWER}")
def work():
    os.read(eyes, 65536)
    plant_both_for_a_while()
"""
# Knows nothing, and bets on a moment: plants for a while and removes, over and over.
GAMBLER = f"""{TOOLS}
def work():
    time.sleep(random.uniform(0, 0.1))
    random.choice([plant_hook, plant_shadow])()
    time.sleep(random.uniform(0, 0.05))
    remove()
"""
READ_TWICE = {**PYTHON_FILES, "tests/test.sh": PYTHON_TEST.replace("exec", f"cat {ANSWER}; sleep 0.1\nexec")}


@pytest.mark.whole
@pytest.mark.parametrize("work", [WATCHER, READER, GAMBLER], ids=["watcher", "reader", "gambler"])
def test_a_survivor_that_waits_for_its_moment_forges_nothing(desk, work):
    runs = [desk.attack(leave(work), files=READ_TWICE) for _ in range(ROUNDS)]
    assert [ran.reward for ran in runs] == [0.0] * ROUNDS
    assert all(ran.run.exit_code == 0 for ran in runs)
    # Either it had planted nothing yet, and could not any more; or it had, and was ended.
    assert all(ran.run.shielded == (ran.run.isolation == "guarded") for ran in runs)
    assert work is not WATCHER or all(ran.run.shielded for ran in runs)


def test_a_tool_the_verifier_installs_for_itself_is_out_of_reach(desk):
    """As most verifiers do: into root's home, and from there it is run."""
    install = "mkdir -p ~/.local/bin; echo 'grep -qx right $1' > ~/.local/bin/tool"
    use = f"if sh ~/.local/bin/tool {ANSWER}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt"
    work = """
def work():
    os.makedirs("/root/.local/bin", exist_ok=True)
    with open("/root/.local/bin/tool", "w") as file:
        file.write("exit 0")
"""
    ran = desk.attack(leave(work), files={"tests/test.sh": f"#!/bin/sh\n{install}; sleep 0.3; {use}\n"})
    assert (ran.reward, ran.run.shielded) == (0.0, True)


SERVICE = """
import http.server, pathlib
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open("/workspace/log", "a") as log:
            log.write(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(pathlib.Path("/workspace/question").read_bytes())
    def log_message(self, *arguments):
        pass
os.makedirs("/workspace", exist_ok=True)
server = http.server.HTTPServer(("127.0.0.1", 8765), Handler)
leave_behind(server.handle_request)
"""
# The service sees what the verifier writes, the verifier sees what the service writes, and an installed program runs.
ASK = """#!/bin/sh
echo question > /workspace/question
answer=$(python3 -c 'import urllib.request as u; print(u.urlopen("http://127.0.0.1:8765/asked").read().decode())')
mkdir -p /usr/local/bin && echo 'echo mine' > /usr/local/bin/own && chmod 755 /usr/local/bin/own
found="$answer $(cat /workspace/log) $(installed) $(own)"
if [ "$found" = "question /asked honest mine" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


def test_honest_services_and_programs_serve_the_verifier_as_before(desk):
    install = "printf '#!/bin/sh\\necho honest\\n' > /usr/local/bin/installed; chmod 755 /usr/local/bin/installed"
    command = f"echo done > {ANSWER}; {install}\n" + python_command(f"{LEAVE_BEHIND}\n{SERVICE}")
    ran = desk.attack(command, files={"tests/test.sh": ASK})
    assert ran.reward == 1.0, ran.text("verifier/stderr.txt")
    assert (ran.run.isolation, ran.run.shielded, ran.run.survivors) == ("guarded", True, ("python3",))


def test_without_survivors_nobody_needs_a_shield(desk):
    ran = desk.attack(f"echo right > {ANSWER}")
    assert (ran.reward, ran.run.isolation, ran.run.shielded) == (1.0, "guarded", False)


def test_where_too_much_was_changed_the_verifier_works_with_the_image_alone(desk):
    ran = desk.attack("truncate -s 5G /usr/huge; echo >> /usr/bin/grep\n" + leave(WATCHER), files=PYTHON_FILES)
    assert (ran.reward, ran.run.isolation, ran.run.shielded) == (0.0, "guarded", True)
    assert ran.run.survivors == ("python3",)
    assert "changes_truncated" in ran.tags


@pytest.mark.parametrize("folder", sampled([PACKAGES, f"{STDLIB}/encodings", "/root/.local"]))
def test_a_link_out_of_the_system_is_no_way_around_the_shield(desk, folder):
    """The folder it leads to is shared, so the link is not there for the verifier."""
    move = f"mkdir -p {folder}; cp -a {folder} /app/away; rm -rf {folder}; ln -s /app/away {folder}"
    ran = desk.attack(f"{move}\n" + leave(WATCHER), files=PYTHON_FILES)
    assert (ran.reward, ran.run.shielded) == (0.0, True)
    assert folder in ran.run.restored
    assert "system_folder_replaced" in ran.tags


# Moves on to a new process faster than anybody can look at the old one.
HOPPER = f"""{TOOLS}
def work():
    while True:
        if os.fork():
            os._exit(0)
"""


def test_a_survivor_that_moves_on_all_the_time_is_seen(desk):
    ran = desk.attack(leave(HOPPER), files=PYTHON_FILES)
    assert ran.reward == 0.0
    assert ran.run.survivors != ()


def play_on_fake(folder, changes: FileChanges, running: tuple[str, ...], monkeypatch) -> list[str]:
    """What a trial with such an agent asks of its sandbox, from the agent's end on."""

    async def found(sandbox: FakeSandbox) -> FileChanges:
        sandbox.journal.append("changes")
        return changes

    def command(spec: ExecSpec, sandbox: FakeSandbox) -> ExecResult:
        sandbox.running[:] = running
        if spec.phase == "verifier":
            sandbox.files["/logs/verifier/reward.txt"] = b"1"
        return answer()

    monkeypatch.setattr(FakeSandbox, "changes", found)
    backend = FakeBackend(command, capabilities=replace(ALL_POWERFUL, guarded_phases=True, own_system=True))
    with asyncio.Runner() as runner:
        Desk(runner, backend, folder).attack("work", keep="record")
    (sandbox,) = backend.sandboxes
    steps = ("renew_verifier", "kill_all", "changes")
    return [call for call in sandbox.journal if call.startswith(steps)]


FEW, MANY = FileChanges(added=("/app/x",)), FileChanges(added=("/app/x",), truncated=True)
LOOK, OWN, RENEW = "changes", "renew_verifier with its own system", "renew_verifier"


@pytest.mark.parametrize(
    ("changes", "running", "expected"),
    [
        (FEW, (), [LOOK, RENEW]),
        (FEW, ("sleep",), [LOOK, OWN, LOOK]),
        (MANY, (), [LOOK, OWN]),
        (FileChanges(added=("/conftest.py",)), (), [LOOK, OWN]),
        (FileChanges(added=("/app/json.py",)), (), [LOOK, OWN]),
        (FileChanges(modified=("/usr/bin/python3",)), (), [LOOK, OWN]),
        (FileChanges(added=("/etc/x",)), ("sleep",), [LOOK, OWN, LOOK]),
        (FileChanges(added=("/home/x/json.py", "/var/log/x", "/srv/usr/bin/python3")), (), [LOOK, RENEW]),
    ],
)
def test_a_system_of_its_own_is_for_when_something_of_it_was_changed_or_still_may_be(
    tmp_path, monkeypatch, changes, running, expected
):
    assert play_on_fake(tmp_path, changes, running, monkeypatch) == expected


def test_what_keeps_the_verifier_from_a_verdict_is_ended_and_the_verifier_asked_again(desk):
    """Nobody can turn a failure into a broken verifier by starving it."""
    test = "#!/bin/sh\ngrep -x sleep /proc/[0-9]*/comm && exit 1\nexec /bin/sh /tests/judge.sh\n"
    files = {"tests/test.sh": test, "tests/judge.sh": "echo 0 > /logs/verifier/reward.txt\n"}
    ran = desk.attack("sleep 1000 > /dev/null 2>&1 &", files=files)
    assert (ran.reward, ran.record.outcome) in [(0.0, "fail"), (0.0, "no_output")]
    assert ran.run.isolation == "kill"
    assert ran.run.survivors != ()


@pytest.mark.parametrize(("reward", "codes"), [(b"0", ["services_ended"]), (b"1", [])])
@pytest.mark.parametrize("printed", [TABLES, ""])
def test_where_there_can_be_no_copy_services_end_and_a_verdict_below_a_pass_says_so(tmp_path, reward, codes, printed):
    def command(spec: ExecSpec, sandbox: FakeSandbox) -> ExecResult:
        if spec.phase == "verifier":
            sandbox.files["/logs/verifier/reward.txt"] = reward
        elif spec.changes_from_here:
            sandbox.running.append("server")
        return answer(printed if "/proc/net" in spec.argv[-1] else "")

    backend = FakeBackend(command, capabilities=replace(ALL_POWERFUL, isolation="namespaces"))
    with asyncio.Runner() as runner:
        ran = Desk(runner, backend, tmp_path).attack("work", keep="record")
    assert (ran.run.isolation, ran.run.services) == ("kill", listening(printed))
    assert [warning.code for warning in ran.record.warnings] == (codes if printed else [])
    assert ("services_ended" in ran.tags) == bool(ran.record.warnings)
    assert all("unix:@abstract of server" in warning.message for warning in ran.record.warnings)
