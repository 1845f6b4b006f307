"""What test files read: what is certain is told, what may be otherwise is not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.check.reading import python_reads

OUT = "/app/out.json"
PARSED = f'import json\nfrom pathlib import Path\ndata = json.loads(Path("{OUT}").read_text())\n'


@pytest.mark.parametrize(
    "source",
    [
        f'open("{OUT}")',
        f'OUT = "{OUT}"\ndef test():\n    with open(OUT) as file:\n        pass',
        'import os\nAPP = "/app"\nassert os.path.exists(os.path.join(APP, "out.json")), "missing"',
        'from pathlib import Path\nAPP = Path("/app")\nassert (APP / "out.json").is_file()',
        f'from pathlib import Path\ndef where():\n    return Path("{OUT}")\nwhere().read_text()',
    ],
)
def test_paths_that_are_read(source: str) -> None:
    assert set(python_reads(source).paths) == {OUT}


@pytest.mark.parametrize(
    "source",
    [
        f'open("{OUT}", "w").write("x")',
        f'p = "{OUT}"\nopen(p, mode="a")\nopen(p)',
        f'import os\nassert not os.path.exists("{OUT}")',
        f'import os\nif os.path.exists("{OUT}"):\n    open("{OUT}")',
        f'import os\nassert os.path.exists("{OUT}") or os.path.exists("/app/b.json")',
        f'import subprocess\nsubprocess.run(["tool", "{OUT}"])\nopen("{OUT}")',
        f'import subprocess\nsubprocess.run("tool > {OUT}", shell=True)\nopen("{OUT}")',
        'for name in ("/app/a.json", "/app/b.json"):\n    open(name)',
        f'path = "{OUT}"\npath = "/app/b.json"\nopen(path)',
        "def broken(:",
    ],
)
def test_paths_that_may_be_otherwise(source: str) -> None:
    assert not python_reads(source).paths


@pytest.mark.parametrize(
    ("lines", "keys"),
    [
        ('assert data["load"] > 1', {"load"}),
        ('assert "load" in data', {"load"}),
        ('for row in data["rows"]:\n    assert row["name"]', {"rows", "name"}),
        ('def test():\n    mine = data\n    assert mine["load"]', {"load"}),
        ("kit.require_keys(data, KEYS)\nKEYS = ['load', 'span']", {"load", "span"}),
        ('assert "load" not in data', set()),
        ('assert data.get("load") or data["weight"]', set()),
        ('if "load" in data:\n    assert data["load"]', set()),
        ('assert "piece" in data["text"]', {"text"}),
        ('data["load"] = 1', set()),
        ('other["load"]', set()),
        ('assert data["item_5"]', set()),
    ],
)
def test_keys(lines: str, keys: set[str]) -> None:
    assert set(python_reads(PARSED + lines).keys.get(OUT, {})) == keys


FIXTURE = f"""
import json
@fixture
def answer():
    with open("{OUT}") as file:
        return json.load(file)
def test(answer):
    assert answer["load"]
"""
TWO_FUNCTIONS = f"""
import json
def test():
    with open("{OUT}") as file:
        answer = json.load(file)
    assert answer["load"]
def other():
    with open("/app/b.json") as file:
        answer = json.load(file)
"""
READ = f'import json\ndef test():\n    with open("{OUT}") as file:\n        assert json.loads(file.read())["load"]'
KIT = f'import verifier_kit as kit\nanswer = kit.read_json("{OUT}")\nassert answer["load"]'


@pytest.mark.parametrize("source", [FIXTURE, TWO_FUNCTIONS, READ, KIT], ids=["fixture", "functions", "read", "kit"])
def test_ways_to_parse(source: str) -> None:
    assert set(python_reads(source).keys[OUT]) == {"load"}


@given(st.text(alphabet='ad=("/).x[]:\n open', max_size=60))
@settings(max_examples=60, deadline=None)
def test_any_text_is_read(source: str) -> None:
    python_reads(source)
    python_reads(PARSED + source)
