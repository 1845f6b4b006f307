"""What a Python sees that starts with our file: another date, ordered directories, and all else as before."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from seatrial.check.conditions import startup_file

DAY = 86400

LOOK = """
import datetime, time, json, os, sys, pickle, copy, glob, pathlib, shutil
class Timer:
    clock = time.time
class Own(datetime.datetime): pass
now, utc = datetime.datetime.now(), datetime.datetime.now(datetime.timezone.utc)
print(json.dumps({
    "time": Timer().clock(), "ns": time.time_ns() / 1e9, "now": now.timestamp(), "utc": utc.timestamp(),
    "today": datetime.date.today().isoformat(), "localtime": time.mktime(time.localtime()),
    "strftime": time.strftime("%Y-%m-%d"), "ctime": time.ctime(0),
    "same": [
        isinstance(now, datetime.datetime), isinstance(now, datetime.date), issubclass(Own, datetime.datetime),
        not isinstance(now, Own), isinstance(Own.now(), Own), pickle.loads(pickle.dumps(now)) == now,
        copy.deepcopy(now) == now, pickle.loads(pickle.dumps(datetime.date(2020, 1, 2))).day == 2,
        datetime.datetime(2020, 1, 2).isoformat() == "2020-01-02T00:00:00",
        datetime.datetime.strptime("2020", "%Y").year == 2020, repr(type(datetime.date(2020, 1, 1))),
        datetime.datetime.combine(datetime.date(2020, 1, 1), datetime.time()).year == 2020,
        type(now) is datetime.datetime, type(datetime.date.today()) is datetime.date, type(Own) is type,
        datetime.datetime.__mro__[1] is datetime.date, shutil.rmtree.avoids_symlink_attacks,
        abs((datetime.datetime.utcnow() - utc.replace(tzinfo=None)).total_seconds()) < 3600,
    ],
    "files": [
        os.listdir("files"), [entry.name for entry in os.scandir("files")], glob.glob("*", root_dir="files"),
        [path.name for path in pathlib.Path("files").iterdir()], next(os.walk("files"))[2],
    ],
    "path": any("start" in path for path in sys.path), "chained": os.environ.get("CHAINED"),
}))
"""


def look(folder: Path, content: bytes | None, extra: Path | None = None) -> dict[str, Any]:
    files = folder / "files"
    if not files.exists():
        files.mkdir()
        for name in ("b", "c", "a", "d"):
            (files / name).touch()
    start = folder / "start"
    start.mkdir(exist_ok=True)
    if content is not None:
        (start / "sitecustomize.py").write_bytes(content)
    path = os.pathsep.join(str(each) for each in (start, extra) if each)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOOK], cwd=folder, env=env, capture_output=True, check=False
    )
    assert done.stderr == b""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def usual(tmp_path_factory) -> dict[str, Any]:
    return look(tmp_path_factory.mktemp("usual"), None)


def test_the_clock_is_shifted_everywhere_and_nothing_else(usual, tmp_path):
    found = look(tmp_path, startup_file(400 * DAY))
    for name in ("time", "ns", "now", "utc", "localtime"):
        assert 399 * DAY < found[name] - usual[name] < 401 * DAY, name
    assert found["today"] == found["strftime"] != usual["today"]
    assert (found["ctime"], found["same"]) == (usual["ctime"], usual["same"])
    assert not [value for value in found["same"] if value is False]


def test_directories_are_listed_in_the_order_that_was_asked_for(tmp_path):
    assert look(tmp_path, startup_file(order="sorted"))["files"] == [["a", "b", "c", "d"]] * 5
    assert look(tmp_path, startup_file(order="reversed"))["files"] == [["d", "c", "b", "a"]] * 5


def test_without_either_nothing_is_different(usual, tmp_path):
    found = look(tmp_path, startup_file())
    assert abs(found["time"] - usual["time"]) < DAY
    assert (found["same"], found["today"] >= usual["today"]) == (usual["same"], True)
    assert sorted(found["files"][0]) == ["a", "b", "c", "d"]


def test_what_was_loaded_at_the_start_still_is_and_no_trace_is_left(tmp_path):
    extra = tmp_path / "extra"
    extra.mkdir()
    (extra / "sitecustomize.py").write_text("import os; os.environ['CHAINED'] = 'yes'\n")
    found = look(tmp_path, startup_file(DAY), extra)
    assert (found["chained"], found["path"]) == ("yes", False)
