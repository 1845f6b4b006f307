"""The Python that stays, by itself: what it runs, and what it does not let run for ever."""

import json
import subprocess
import sys

import pytest

from seatrial.env import python_session


@pytest.fixture
def session(tmp_path):
    """Asks a server with a time limit in seconds; what it says."""
    program, path = python_session.__file__, str(tmp_path / "s")
    server = subprocess.Popen([sys.executable, program, "serve", path])

    def ask(code, seconds=20.0):
        request = tmp_path / "request"
        request.write_text(json.dumps({"code": code, "seconds": seconds}))
        command = [sys.executable, program, "ask", path, str(request), "20"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        return json.loads(said) if said else None

    yield ask
    server.kill()
    server.wait()


def test_variables_stay_whatever_the_code_does(session):
    first = session("import sys\nx = 41\nprint('hi')\nprint('oh', file=sys.stderr)")
    assert first == {"status": "ok", "result": None, "stdout": "hi\n", "stderr": "oh\n", "execution_count": 1}
    failed = session("1/0")["result"].splitlines()
    assert failed[1:] == ['  File "<cell>", line 1, in <module>', "ZeroDivisionError: division by zero"]
    assert session("while True: pass", 0.05)["result"] == "Error: Code timed out after 0.05s"
    assert session("raise SystemExit(3)")["status"] == "error"
    assert session("if")["result"].endswith("SyntaxError: invalid syntax\n")
    assert session("print('\\ud800')\nx + 1")["result"] == "42"
    assert session("import os; os._exit(0)") is None


def test_output_is_bounded_and_the_rest_is_counted():
    out = python_session.Capped()
    for _ in range(3):
        out.write("x" * 50_000)
    assert out.text() == "x" * 100_000 + "\n[… 50000 characters left out …]"


def test_nobody_there_is_told_by_the_exit_code(tmp_path):
    command = [sys.executable, python_session.__file__, "ask", str(tmp_path / "s"), "unread", "0"]
    assert subprocess.run(command, check=False, timeout=60).returncode == 3
