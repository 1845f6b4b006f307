"""Honest work in containers, where files are put back in place: it keeps its reward there, too."""

import tarfile
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from tests.docker_daemon import busybox_archive, needs
from tests.honest.support import TEST, Case, parametrized
from tests.sandbox.engine.support import open_engine_desk
from tests.trial.support import Desk, Ran, trial_spec, write_task

pytestmark = needs("docker")

PROGRAM = "printf '#!/bin/sh\\necho {0}\\n' > {1} && chmod 755 {1}"
INSTALL = "mkdir -p /usr/local/bin; " + PROGRAM.format("made", "/usr/local/bin/maketool")

CASES = [
    Case("program", "Build a tool.", INSTALL, "[ $(/usr/local/bin/maketool) = made ]"),
    Case(
        "rebuilt",
        "Make the reporter say new.",
        PROGRAM.format("new", "/usr/local/bin/reporter"),
        "[ $(/usr/local/bin/reporter) = new ]",
    ),
    Case("named-setting", "Set it in /etc/app.conf.", "echo a=2 > /etc/app.conf", "grep -q a=2 /etc/app.conf"),
    Case("new-setting", "Set it up.", "mkdir -p /etc/new; echo a=2 > /etc/new/x", "grep -q a=2 /etc/new/x"),
    Case("user", "Add the user al.", "echo al:x:7:7::/:/bin/sh >> /etc/passwd", "id al; grep -q '^al:' /etc/passwd"),
    Case("in-opt", "Mend the model.", "echo 2 > /opt/model.txt", "grep -q 2 /opt/model.txt"),
    Case(
        "home",
        "Install it for this user.",
        f"mkdir -p ~/.local/bin; {PROGRAM.format('home', '~/.local/bin/athome')}; echo 'alias a=b' >> ~/.profile",
        "[ $(~/.local/bin/athome) = home ]",
    ),
    Case("beside-a-change", "Write x to /app/x.", "echo '# mine' >> /etc/profile; echo x > /app/x", "grep -q x /app/x"),
]
UNNAMED = Case(
    "", "Make it say new.", PROGRAM.format("new", "/usr/local/bin/reporter"), "[ $(/usr/local/bin/reporter) = new ]"
)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A desk that runs trials in containers."""
    with open_engine_desk("docker", tmp_path_factory.mktemp("desk")) as desk:
        yield desk


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a program and settings of its own."""
    root = tmp_path_factory.mktemp("image") / "root"
    with tarfile.open(fileobj=BytesIO(busybox_archive())) as tar:
        tar.extractall(root)  # noqa: S202 - it is our own
    files = {"usr/local/bin/reporter": "#!/bin/sh\necho old\n", "etc/app.conf": "a=1\n", "opt/model.txt": "1\n"}
    accounts = {"etc/passwd": "root:x:0:0::/root:/bin/sh\n", "etc/group": "root:x:0:\n", "etc/profile": "\n"}
    for path, text in {**files, **accounts}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "usr/local/bin/reporter").chmod(0o755)
    return root


def play(desk: Desk, image: Path, case: Case, command: str) -> Ran:
    files = {"tests/test.sh": TEST.replace("bash", "sh"), "tests/check.sh": case.check}
    root = write_task(desk.new_folder() / "task", files=files, instruction=case.says)
    spec = trial_spec(root, command)
    return desk.run_spec(replace(spec, options=spec.options.model_copy(update={"image": str(image)})))


@parametrized(CASES)
def test_honest_work_in_containers_keeps_its_reward(desk, image, case):
    wrong, honest = play(desk, image, case, "true"), play(desk, image, case, case.does)
    assert (wrong.reward, wrong.record.disputed_reward) == (0.0, None)
    assert (honest.reward, honest.record.disputed_reward) == (1.0, None), honest.run.restored


def test_a_program_that_nobody_named_is_disputed_in_containers(desk, image):
    ran = play(desk, image, UNNAMED, UNNAMED.does)
    assert (ran.reward, ran.record.disputed_reward) == (0.0, 1.0)
