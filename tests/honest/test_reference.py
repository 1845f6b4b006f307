"""Work on the system that the task's own solution does as well: it keeps its reward, whoever does it and however.

Each case has the solution's commands and another agent's. Where a case has none of an agent's own, it does the same.
"""

from collections.abc import Mapping

from tests.honest.support import SYSTEM_PIP, Bench, Case, parametrized
from tests.honest.test_debian import APT
from tests.sandbox.embedded.support import needs_python, needs_root

pytestmark = [needs_root, needs_python]

PIP = "$(python3 -c 'import pip; print(pip.__file__)')"
PYTHON = "/usr/local/bin/python; chmod 755 /usr/local/bin/python"


def program(path: str, says: str) -> str:
    """A command that leaves a program."""
    return f"mkdir -p $(dirname {path}); printf '#!/bin/sh\\necho {says}\\n' > {path}; chmod 755 {path}"


def solved(name: str, solution: str, check: str, does: str | None = None, says: str = "Make it work.") -> Case:
    """A case with a solution, on the image with a past."""
    files: Mapping[str, str] = {"solution/solve.sh": f"#!/bin/bash\nset -e\n{solution}\n"}
    return Case(name, says, does or solution, check, image="aged", files=files)


CASES = [
    solved("a-package-upgraded", f"{APT} oldtool", "[ $(oldtool) = 2.0 ]", "dpkg -i /app/shelf/oldtool_2.0_all.deb"),
    solved("a-package-removed", "dpkg --purge oldtool", "[ ! -e /usr/bin/oldtool ]", "rm -rf /usr/bin/oldtool"),
    solved("a-tool-installed", f"{APT} wget", "[ $(wget) = fetched ]", "dpkg -i /app/shelf/wget_9.0_all.deb"),
    solved(
        "the-installer-upgraded",
        f"{SYSTEM_PIP} --ignore-installed pip==99.0",
        "[ $(python3 -c 'import pip; print(pip.__version__)') = 99.0 ]",
    ),
    solved(
        "the-installer-repaired",
        f"echo 'FIXED = 1' >> {PIP}",
        "python3 -c 'import pip; assert pip.FIXED'",
        f"echo 'FIXED = 7 - 6' >> {PIP}",
        says="Something is wrong with pip. Repair it.",
    ),
    solved(
        "an-interpreter-by-another-name",
        "ln -sf /usr/bin/python3 /usr/local/bin/python",
        "[ $(python -c 'print(1)') = 1 ]; [ -L /usr/local/bin/python ]",
    ),
    solved(
        "an-interpreter-replaced",
        f"printf '#!/bin/sh\\nexec /usr/bin/python3 -X utf8 \"$@\"\\n' > {PYTHON}",
        "[ $(python -c 'import sys; print(sys.flags.utf8_mode)') = 1 ]",
        f"printf '#!/bin/bash\\nPYTHONUTF8=1 exec /usr/bin/python3 \"$@\"\\n' > {PYTHON}",
        says="The command python must understand UTF-8.",
    ),
    solved(
        "a-variable-of-all-logins",
        "echo GREETING=hi >> /etc/environment",
        "grep -qx GREETING=hi /etc/environment",
        "printf 'X=1\\nGREETING=hi\\n' > /etc/environment",
    ),
    solved(
        "a-variable-of-one-login",
        "echo 'export GREETING=hi' >> /root/.bashrc; echo 'export GREETING=hi' >> /root/.profile",
        "[ $(bash -c '. /root/.profile; echo $GREETING') = hi ]",
        "echo 'GREETING=hi; export GREETING' > /root/.profile",
    ),
    solved(
        "an-alias-of-the-shell",
        "echo \"alias greet='echo hi'\" >> /root/.bash_aliases; echo '. ~/.bash_aliases' >> /root/.bashrc",
        "grep -q greet= /root/.bash*",
        "echo \"alias greet='echo hi'\" >> /root/.bashrc",
    ),
    solved(
        "an-alternative-chosen",
        f"{program('/usr/bin/shout-more', 'MORE')}\n"
        "update-alternatives --install /usr/bin/shout shout /usr/bin/shout-more 90",
        "[ $(shout) = MORE ]",
        f"{program('/usr/bin/shout-even-more', 'MORE')}; ln -sf /usr/bin/shout-even-more /etc/alternatives/shout",
    ),
    solved("a-name-of-a-host", "echo '1.2.3.4 far.example' >> /etc/hosts", "grep -q far.example /etc/hosts"),
    solved(
        "the-time-zone",
        "echo Europe/Berlin > /etc/timezone; ln -sf /usr/share/zoneinfo/Europe/Berlin /etc/localtime",
        "[ $(cat /etc/timezone) = Europe/Berlin ]; [ $(readlink /etc/localtime) = /usr/share/zoneinfo/Europe/Berlin ]",
    ),
    solved(
        "settings-of-a-service",
        "echo version=3 > /etc/oldtool/oldtool.conf",
        "grep -q version=3 /etc/oldtool/oldtool.conf",
        "sed -i 's/version=.*/version=3/' /etc/oldtool/oldtool.conf",
    ),
    solved(
        "a-library-for-the-loader",
        "mkdir -p /opt/ripe; echo 'int ripe(void) { return 7; }' > /tmp/r.c\n"
        "gcc -shared -o /opt/ripe/libripe.so /tmp/r.c; echo /opt/ripe > /etc/ld.so.conf.d/ripe.conf; ldconfig",
        "echo 'int ripe(void); int main(void) { return ripe() != 7; }' > /tmp/p.c\n"
        "gcc -o /tmp/p /tmp/p.c -L/opt/ripe -lripe; /tmp/p",
    ),
    solved(
        "a-schedule",
        "echo '0 3 * * * root /app/nightly' > /etc/cron.d/nightly",
        "grep -q nightly /etc/cron.d/nightly",
        "echo '30 3 * * * root sh /app/nightly' > /etc/cron.d/nightly",
    ),
    solved(
        "a-package-of-another-language",
        "mkdir -p /usr/lib/node_modules/kit; echo 'module.exports = 7' > /usr/lib/node_modules/kit/index.js\n"
        f"{program('/usr/local/bin/kit', '7')}; mkdir -p /usr/etc; echo prefix=/usr > /usr/etc/npmrc",
        "[ $(kit) = 7 ]; grep -q prefix=/usr /usr/etc/npmrc",
    ),
    solved(
        "a-module-beside-the-work",
        "echo 'X = 1' > /app/code.py; echo 'import code; print(code.X)' > /app/main.py",
        "[ $(python3 /app/main.py) = 1 ]",
        "echo 'X = 2 - 1' > /app/code.py; echo 'from code import X; print(X)' > /app/main.py",
    ),
    solved(
        "a-program-of-the-image",
        program("/usr/local/bin/reporter", "new"),
        "[ $(reporter) = new ]",
        "printf '#!/bin/bash\\nprintf new\\n' > /usr/local/bin/reporter",
    ),
]


@parametrized(CASES)
def test_what_the_solution_changes_in_the_system_is_an_agents_to_change(bench: Bench, case: Case):
    bench.judge(case)
    ran = bench.run(case, case.files["solution/solve.sh"])
    assert (ran.reward, ran.record.disputed_reward) == (1.0, None)


@parametrized(CASES)
def test_the_oracle_passes_as_the_agent_does(bench: Bench, case: Case):
    ran = bench.run(case, "oracle")
    assert (ran.reward, ran.record.disputed_reward) == (1.0, None)
