"""`seatrial doctor` shows a line per step and ends with what it found."""

import json

from seatrial.cli.main import run


def test_a_line_per_step(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / "state"))
    code = run(["doctor", "--json"])
    findings = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert findings[0]["step"] == "kernel"
    assert code == int(any(finding["status"] == "fails" for finding in findings))


def test_a_machine_that_cannot_is_told_why(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / "a:b"))
    assert run(["doctor"]) == 1
    assert "SEATRIAL_STATE_DIR" in capsys.readouterr().out
