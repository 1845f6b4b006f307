"""Ways by which what a check found does not become the reward, and the nearest ones by which it does."""

import pytest

from seatrial.tasks.lint_verdict import Verifier, caught_assertions, ends_early, unread_verdicts

ONE = "echo 1 > /logs/verifier/reward.txt"
ZERO = "echo 0 > /logs/verifier/reward.txt"
BY_STATUS = f"if [ $? -eq 0 ]; then {ONE}; else {ZERO}; fi"
CHECK = "import sys\nsys.exit(open('/app/out.txt').read() != 'x')\n"
GRADE = "open('/logs/verifier/reward.txt', 'w').write('1')\n"


def verifier(text: str, **scripts: str) -> Verifier:
    beside = {f"tests/{name}.py": content for name, content in scripts.items()}
    return Verifier.read("tests/test.sh", {"tests/test.sh": f"#!/bin/bash\n{text}\n", **beside}, "/app/out.txt")


def ends(text: str, **scripts: str) -> str | None:
    found = ends_early(verifier(text, **scripts))
    return f"{found[0]} {found[1]}" if found else None


@pytest.mark.parametrize("line", ["set -e", "set -euo pipefail", "set -xe", "set -o errexit"])
def test_a_check_that_fails_ends_the_script(line):
    assert ends(f"{line}\npytest -q\n{BY_STATUS}") == "3 pytest"


@pytest.mark.parametrize(
    ("check", "name"),
    [
        ("python3 -m pytest /tests", "pytest"),
        ("uv run --with pytest pytest /tests", "pytest"),
        ("cargo test --quiet", "cargo test"),
        ("cd /app && npm run test", "npm test"),
        ("f() { pytest; }; f", "pytest"),
        ("x=$(pytest -q)", "pytest"),
        ("bash -c 'pytest -q'", "pytest"),
        ("(cd /tests; pytest)", "pytest"),
        ("set -o pipefail; pytest | tee log", "pytest"),
        ("diff /app/out.txt /tests/want.txt", "diff"),
        ("grep -q x /app/out.txt", "grep"),
        ("[ -f /app/out.txt ]", "["),
        ("x=$(cat /app/out.txt)", "cat"),
        ("sort < /app/out.txt > /tmp/o", "sort"),
        ("python3 /tests/check.py", "check.py"),
        ("trap 'rm -rf /tmp/x' EXIT; pytest", "pytest"),
        ("if [ -d /app ]; then echo here; fi; pytest", "pytest"),
        ("if [ ! -d /app ]; then " + ZERO + "; exit 0; fi; pytest", "pytest"),
    ],
)
def test_any_check_does(check, name):
    assert ends(f"set -e\n{check}\n{BY_STATUS}", check=CHECK) == f"3 {name}"


@pytest.mark.parametrize(
    "text",
    [
        f"pytest\n{BY_STATUS}",
        f"set -e\nset +e\npytest\n{BY_STATUS}",
        f"set -e\nif pytest; then {ONE}; else {ZERO}; fi",
        f"set -e\npytest && {ONE} || {ZERO}",
        f"set -e\npytest || rc=$?\n{BY_STATUS}",
        f"set -e\n{ZERO}\npytest\n{ONE}",
        f"set -e\ntrap '{ZERO}' EXIT\npytest\n{ONE}",
        f"set -e\nlast() {{ {ZERO}; }}\ntrap last ERR\npytest\n{ONE}",
        f"set -e\npytest | tee log\n{BY_STATUS}",
        f"set -e\nf() {{ pytest; }}\nif f; then {ONE}; else {ZERO}; fi",
        "set -e\nmkdir -p /logs/verifier\npython3 /tests/grade.py",
        "set -e\nbench score\n[ -f /logs/verifier/reward.txt ] || exit 1\ncat /logs/verifier/reward.txt",
        f"set -e\napt-get install -y curl\npip install pytest\nif pytest; then {ONE}; else {ZERO}; fi",
        "set -e\npython3 - <<'E'\nopen('/logs/verifier/reward.txt', 'w').write('1')\nE",
        f"set -e\nif pytest; then {ONE}; else {ZERO}; fi\ndiff a b\n{ONE}",
        "set -e\nR=/logs/verifier/reward.txt\necho 0 > $R\npytest\necho 1 > $R",
        f"# set -e\npytest\n{BY_STATUS}",
        "set -e\npytest",
    ],
)
def test_a_script_that_comes_to_its_reward_is_fine(text):
    assert ends(text, grade=GRADE) is None


def test_the_first_line_may_say_it_too():
    text = f"#!/bin/sh -e\npytest\n{BY_STATUS}\n"
    assert ends_early(Verifier.read("t", {"t": text}, None)) == (2, "pytest")


def test_tests_that_write_the_reward_themselves_are_not_waited_for():
    assert ends(f"set -e\npytest\n{BY_STATUS}", conftest=GRADE) is None


def unread(text: str, **scripts: str) -> list[str]:
    return [f"{line} {wrong}" for line, wrong in unread_verdicts(verifier(text, **scripts))]


OF_TEE = "2 the exit status of `pytest | tee` is that of tee, without `set -o pipefail`"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (f"pytest || true\n{ONE}", "2 `|| true` drops the result of pytest, and nothing else keeps it"),
        (f"pytest > /dev/null 2>&1 || :\n{ONE}", "2 `|| true` drops the result of pytest, and nothing else keeps it"),
        (f"pytest || true\n{BY_STATUS}", "2 `$?` is 0 after `pytest || true`, whatever pytest found"),
        (f"pytest\n{ONE}", "2 nothing reads whether pytest passed"),
        (f"python3 /tests/check.py\n{ONE}", "2 nothing reads whether check.py passed"),
        (f"pytest | tee log\n{BY_STATUS}", OF_TEE),
        (f"if pytest | tee log; then {ONE}; else {ZERO}; fi", OF_TEE),
    ],
)
def test_a_result_that_nothing_reads_is_found(text, wrong):
    assert unread(text, check=CHECK) == [wrong]


@pytest.mark.parametrize(
    "text",
    [
        f"pytest\n{BY_STATUS}",
        f"pytest; rc=$?\n[ $rc -eq 0 ] && {ONE} || {ZERO}",
        f"set -o pipefail\npytest | tee log\n{BY_STATUS}",
        f"pytest | tee log\nrc=${{PIPESTATUS[0]}}\n[ $rc -eq 0 ] && {ONE} || {ZERO}",
        f"pytest --ctrf /tmp/r.json || true\npython3 /tests/count.py /tmp/r.json\n{ONE}",
        f"pytest > /tmp/log || true\ngrep -q passed /tmp/log && {ONE} || {ZERO}",
        f"out=$(pytest || true)\n[ -n $out ] && {ONE} || {ZERO}",
        f"set -e\npytest\n{ONE}",
        "python3 /tests/grade.py || true",
        f"pip install pytest || true\npytest\n{BY_STATUS}",
        f"for i in 1 2 3; do curl -s localhost || true; sleep 1; done\npytest\n{BY_STATUS}",
        "pytest || true",
    ],
)
def test_a_result_that_something_reads_is_fine(text):
    assert unread(text, conftest="") == []
    assert unread(text, grade=GRADE) == []


def test_tests_that_write_down_what_they_found_are_believed():
    text = f"pytest || true\nS=$(cat /tests/score.txt)\n{ONE}"
    assert unread(text) != []
    assert unread(text, test_it="open('/tests/score.txt', 'w').write('1')\n") == []


def caught(*body: str, handler: str = "except Exception:\n    pass") -> list[int]:
    lines = "\n".join(f"    {line}" for line in body)
    return list(caught_assertions(f"try:\n{lines}\n{handler}\n"))


@pytest.mark.parametrize(
    ("handler", "line"),
    [
        ("except:\n    pass", 4),
        ("except: pass", 4),
        ("except Exception as error:\n    ...", 4),
        ("except (ValueError, AssertionError):\n    # so be it\n    pass", 4),
        ("except ValueError:\n    raise\nexcept BaseException:\n    'none'\n    pass", 6),
    ],
)
def test_assertions_that_are_caught_are_found(handler, line):
    assert caught("x = f()", "assert x", handler=handler) == [line]


@pytest.mark.parametrize("last", ["if x:\n        assert x", "assert False", "pytest.fail()", "self.assertEqual(1, x)"])
def test_any_assertion_counts(last):
    assert len(caught("x = f()", last)) == 1


@pytest.mark.parametrize(
    "body",
    [["f()"], ["assert f()", "done = True"], ["assert f()", "note(1)"], ["n += 1"], ["assert True, 'here'"]],
    ids=["clean up", "a flag", "a call", "parsing", "an assertion that always holds"],
)
def test_errors_that_are_no_verdict_are_fine(body):
    assert caught(*body) == []


@pytest.mark.parametrize(
    "handler",
    [
        "except ValueError:\n    pass",
        "except Exception:\n    raise",
        "except Exception:\n    time.sleep(1)",
        "except AssertionError:\n    raise\nexcept Exception:\n    pass",
        "except Exception:\n    pass\nelse:\n    done = True",
    ],
)
def test_handlers_that_do_something_or_catch_something_else_are_fine(handler):
    assert caught("assert f()", handler=handler) == []


def test_a_loop_that_waits_for_a_server_is_fine():
    text = "while 1:\n    try:\n        assert up()\n        break\n    except Exception:\n        pass\n"
    assert list(caught_assertions(text)) == []


def test_what_is_not_python_is_fine():
    assert list(caught_assertions("try:\n  assert 1\nexcept:\n  pass\n}")) == []
