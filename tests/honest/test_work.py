"""Honest work in homes, in folders of odd names, as other users, with services running, and over several steps."""

import pytest

from tests.honest.support import SYSTEM_PIP, Case, parametrized
from tests.sandbox.embedded.support import needs_python, needs_root
from tests.trial.support import python_command
from tests.trial.test_survivors import LEAVE_BEHIND

pytestmark = [needs_root, needs_python]

AT_HOME = '[environment]\nnetwork_mode = "no-network"\nworkdir = "/root"\n'
AS_USER = '[environment]\nnetwork_mode = "no-network"\n[verifier]\nuser = "nobody"\n'
# Answers with what an installed package and a file say that the verifier writes.
SERVICE = f"""
{LEAVE_BEHIND}
import http.server, pathlib, tablekit
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(tablekit.__version__.encode() + pathlib.Path("/app/question").read_bytes())
    def log_message(self, *arguments):
        pass
server = http.server.HTTPServer(("127.0.0.1", 8766), Handler)
leave_behind(server.handle_request)
"""
ASK = """
printf asked > /app/question
python3 -c 'import urllib.request as u; assert u.urlopen("http://127.0.0.1:8766/").read() == b"2.0.0asked"'
"""
SCRIPT = "printf '#!/bin/sh\\necho {0}\\n' > {1}; chmod 755 {1}"

CASES = [
    Case(
        "queue-when-asked-for",
        "Write a module `queue.py` with a class Line.",
        "echo 'class Line: size = 3' > /app/queue.py",
        "cd /app; python3 -c 'import queue; assert queue.Line.size == 3'",
    ),
    Case(
        "code-by-path",
        "Write the program to /app/code.py.",
        "echo 'print(7)' > /app/code.py",
        "[ $(python3 /app/code.py) = 7 ]",
    ),
    Case(
        "types-package-in-src",
        "Write a package with types in src.",
        "mkdir -p /app/src/types /app/src/core; echo 'A = 1' > /app/src/types/__init__.py\n"
        "echo 'from .types import A' > /app/src/__init__.py",
        "cd /app; python3 -c 'import src; assert src.A == 1'",
    ),
    Case(
        "tests-of-its-own",
        "Write a tested function.",
        "mkdir -p /app/tests; echo 'def test_x(): assert True' > /app/tests/test_x.py; echo > /app/tests/__init__.py\n"
        "printf '[pytest]\\ntestpaths = tests\\n' > /app/pytest.ini; echo > /app/conftest.py\n"
        "echo 'x = 1' > /app/lib.py",
        "cd /app; python3 -m pytest -q tests; python3 -c 'import lib; assert lib.x'; [ -e pytest.ini ]",
        image="aged",
    ),
    Case(
        "dot-files-as-work",
        "Write the settings.",
        "cd /root; echo A=1 > .env; mkdir -p .github/workflows; echo on > .github/workflows/ci.yml\n"
        "echo x > .gitignore",
        "cd /root; grep A=1 .env; grep on .github/workflows/ci.yml; grep x .gitignore",
        toml=AT_HOME,
    ),
    Case(
        "a-repository-at-home",
        "Commit the work.",
        "cd /root; git init -q .; git config user.name A; git config user.email a@b.c\n"
        "echo x > x; git add x; git commit -qm one",
        "[ $(git -C /root log --format=%s) = one ]",
        toml=AT_HOME,
    ),
    Case(
        "an-environment-at-home",
        "Make an environment.",
        "cd /root; python3 -m venv --without-pip .venv; cd .venv/lib/python3*/site-packages; echo 'X = 5' > five.py",
        "[ $(/root/.venv/bin/python -c 'import five; print(five.X)') = 5 ]",
        toml=AT_HOME,
    ),
    Case(
        "programs-called-as-modules-are",
        "Write two programs.",
        "cd /app; printf '#!/bin/sh\\necho 7\\n' > token; mkdir build; cp token build/select\n"
        "chmod 755 token build/select; ln -s build/select select",
        "cd /app; [ $(./token) = 7 ]; [ $(./select) = 7 ]",
    ),
    Case(
        "a-module-that-is-asked-for",
        "Write a `calendar` module with a function `week`.",
        "echo 'def week(): return 7' > /app/calendar.py",
        "cd /app; python3 -c 'import calendar; assert calendar.week() == 7'",
    ),
    Case(
        "a-module-called-as-people-call-theirs",
        "Write a program that prints 3.",
        "cd /app; echo 'three = 3' > utils.py; echo 'import utils; print(utils.three)' > main.py",
        "[ $(python3 /app/main.py) = 3 ]",
    ),
    Case(
        "miniconda-at-home",
        "Install conda.",
        f"mkdir -p /root/miniconda3/bin /root/miniconda3/lib; {SCRIPT.format('conda9', '/root/miniconda3/bin/conda')}",
        "[ $(/root/miniconda3/bin/conda) = conda9 ]",
    ),
    Case(
        "elan-at-home",
        "Install lean.",
        f"mkdir -p /root/.elan/bin; {SCRIPT.format('lean4', '/root/.elan/bin/lean')}; echo . > /root/.elan/env",
        "export PATH=/root/.elan/bin:$PATH; [ $(lean) = lean4 ]",
    ),
    Case(
        "caches-at-home",
        "Train the model.",
        "mkdir -p ~/.cache/huggingface/hub ~/.keras ~/nltk_data; echo w > ~/.cache/huggingface/hub/w\n"
        "echo k > ~/.keras/k.json",
        "grep w ~/.cache/huggingface/hub/w; grep k ~/.keras/k.json",
    ),
    Case(
        "verifier-as-another-user",
        "Install a tool for everybody.",
        SCRIPT.format("all", "/usr/local/bin/for-all"),
        '[ "$(id -un)" = nobody ]; [ $(for-all) = all ]',
        toml=AS_USER,
    ),
    Case(
        "package-for-another-user",
        "Install tablekit for everybody.",
        f"{SYSTEM_PIP} tablekit==2.0.0",
        "[ $(id -un) = nobody ]; python3 -c 'import tablekit'",
        toml=AS_USER,
    ),
    Case(
        "service-on-a-changed-system",
        "Serve the version.",
        f"{SYSTEM_PIP} tablekit==2.0.0\n{python_command(SERVICE).replace(' -I ', ' ')}",
        ASK,
    ),
    Case(
        "service-on-an-upgraded-system",
        "Serve the version of the newest one.",
        f"{SYSTEM_PIP} -U tablekit\n{python_command(SERVICE).replace(' -I ', ' ')}",
        ASK,
        image="aged",
    ),
    Case(
        "data-in-var",
        "Keep the database.",
        "mkdir -p /var/lib/mydb /var/www/html /var/log/app; echo d > /var/lib/mydb/d; echo h > /var/www/html/i.html",
        "grep d /var/lib/mydb/d; grep h /var/www/html/i.html",
    ),
    Case(
        "in-folders-of-its-own",
        "Put the results where they belong.",
        "mkdir -p /data /srv/site /results; echo r > /results/r; echo s > /srv/site/s; echo d > /data/d",
        "grep r /results/r; grep s /srv/site/s; grep d /data/d",
    ),
]


@parametrized(CASES)
def test_honest_work_keeps_its_reward_wherever_it_is(bench, case):
    bench.judge(case)


STEPS = """[environment]
network_mode = "no-network"
[[steps]]
name = "one"
[[steps]]
name = "two"
"""
ONE = "[ -e /app/two ] || python3 -c 'import tablekit; assert tablekit.__version__ == \"2.0.0\"'"
STEP_FILES = {
    "steps/one/instruction.md": "Upgrade what is needed.",
    "steps/two/instruction.md": "Report with the upgraded library.",
}
IN_STEPS = f"""
if grep -q Upgrade /task/instruction.md; then {SYSTEM_PIP} -U tablekit; else
python3 -c 'import tablekit; print(tablekit.__version__)' > /app/two; {SCRIPT.format("2", "/usr/local/bin/steptwo")}; fi
"""


@pytest.mark.whole
def test_a_second_step_builds_on_what_the_first_has_installed(bench):
    check = f"{ONE}\nif [ -e /app/two ]; then grep -qx 2.0.0 /app/two; [ $(steptwo) = 2 ]; {ONE.split('|| ')[1]}; fi"
    case = Case("", "", IN_STEPS, check, wrong="true", image="aged", toml=STEPS, files=STEP_FILES)
    ran = bench.judge(case)
    assert [step.evaluation.reward for step in ran.record.steps if step.evaluation] == [1.0, 1.0]
