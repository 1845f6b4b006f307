"""A review in a real browser, by keys alone: fifty items by two people at once, through the death of the viewer."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.view.review.marked import many_trials

KEYS = {"1": "pass", "2": "fail", "3": "defer"}
ITEMS = 50


class Server:
    """`seatrial view` in a process of its own, at a port that stays the same."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.start()

    def start(self) -> None:
        """Start it; its address with the token is known on return."""
        command = [sys.executable, "-m", "seatrial", "view", str(self._folder), "--no-open", "--port", str(self._port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout is not None
        told = re.search(r"http://\S+", self._process.stdout.readline())
        assert told
        self.address = told[0]

    def kill(self) -> None:
        """End it as a power cut does."""
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()


@pytest.fixture
def server(tmp_path) -> Iterator[Server]:
    many_trials(tmp_path, ITEMS)
    made = Server(tmp_path / "job")
    yield made
    made.kill()


class Reviewer:
    """Somebody at a browser of their own, who touches no mouse."""

    def __init__(self, browser: Any, server: Server, name: str) -> None:
        self.name = name
        self.server = server
        self.expected: list[tuple[str, str | None, list[str]]] = []
        self.context = browser.new_context()
        self.errors: list[str] = []
        self.enter()
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(f"{server.address.partition('?')[0]}review/job/")
        self.page.keyboard.type(name)
        self.page.keyboard.press("Enter")
        self.wait_for_item()

    def enter(self) -> None:
        """Open the address that the viewer has printed, as one does after each of its starts."""
        page = self.context.new_page()
        page.goto(self.server.address)
        page.close()

    def wait_for_item(self, before: str | None = None) -> str:
        """Wait for an item other than the one before; returns its key."""
        found = "#item[data-key]" + (f":not([data-key='{before}'])" if before else "")
        self.page.wait_for_selector(found, timeout=30_000)
        return str(self.page.get_attribute("#item", "data-key"))

    def say(self, key: str, note: str = "", category: str = "") -> None:
        """Judge the item that is open."""
        for field, text in (("n", note), ("c", category)):
            if text:
                self.page.keyboard.press(field)
                self.page.keyboard.type(text)
                self.page.keyboard.press("Escape")
        self.page.keyboard.press(key)
        self.expected.append((KEYS[key], note or None, [category] if category else []))

    def wait_until_saved(self) -> None:
        self.page.locator("#said").get_by_text("You said").wait_for(timeout=30_000)

    def go_on(self) -> None:
        """Open the next item that is not judged yet."""
        before = self.page.get_attribute("#item", "data-key")
        self.page.keyboard.press("Enter")
        self.wait_for_item(before)

    def judge(self, number: int) -> None:
        """Judge one item as a number says, without waiting for it to be saved, and go on."""
        self.say("123"[number % 3], *(("first thing wrong", "unit/length") if number % 7 == 0 else ()))
        self.go_on()

    def check(self, written: list[dict[str, Any]]) -> None:
        """Compare what the journal has of this reviewer with what was said, line by line."""
        verdicts = [line for line in written if "annotation" in line]
        notes = [line["annotation"] for line in verdicts]
        told = [(note["judgment"], note.get("notes"), note.get("categories", [])) for note in notes]
        assert told == self.expected
        assert {line.get("role", "first") for line in verdicts} == {"first"}
        assert all(line["seconds"] >= 0 and line["context"]["task_digest"] for line in verdicts)
        assert all(line["sampling"] == {"stratum": "random", "probability": 1.0} for line in verdicts)
        assert self.errors == []


def lines(folder: Path, reviewer: str) -> list[dict[str, Any]]:
    """What the journal has of a reviewer."""
    read = [json.loads(line) for line in (folder / "job/annotations.jsonl").read_text().splitlines()]
    return [line for line in read if (line.get("annotation") or line["retraction"])["reviewer_id"] == reviewer]


@pytest.mark.whole
def test_fifty_items_by_keys_alone_beside_somebody_else_and_the_viewer_dies(browser, server, tmp_path):
    ada, bob = Reviewer(browser, server, "Ada"), Reviewer(browser, server, "Bob")
    for number in range(20):
        ada.judge(number)
        if number % 4 == 0:
            bob.judge(number + 1)
    server.kill()
    for reviewer in (ada, bob):
        reviewer.say("2", "said while nobody listened")
        reviewer.page.get_by_text("not saved yet").wait_for()
    server.start()
    for reviewer in (ada, bob):
        reviewer.enter()
        reviewer.wait_until_saved()
        assert reviewer.page.inner_text("#unsent") == ""
    ada.page.reload()
    ada.wait_for_item()
    assert ada.page.inner_text("#progress") == "21 of 50"
    bob.go_on()
    for number in range(21, ITEMS - 1):
        ada.judge(number)
        if number % 4 == 0:
            bob.judge(number + 1)
    ada.say("1")
    ada.wait_until_saved()
    ada.page.keyboard.press("u")
    ada.page.get_by_text("49 of 50").wait_for()
    ada.say("2")
    ada.wait_until_saved()
    bob.say("3")
    bob.wait_until_saved()

    *fifty, undone, again = lines(tmp_path, "Ada")
    ada.check([*fifty, again])
    bob.check(lines(tmp_path, "Bob"))
    assert len({line["trial_id"] for line in fifty}) == ITEMS
    assert all(line["blind"] for line in (*fifty, *lines(tmp_path, "Bob")))
    assert undone["retraction"]["entry"] == fifty[-1]["id"]
    assert "blind" not in again


@pytest.mark.whole
def test_who_looked_is_not_blind_after_a_restart_and_who_takes_over_is(browser, server, tmp_path):
    ada = Reviewer(browser, server, "Ada")
    page = ada.page
    page.keyboard.press("b")
    page.locator("#reveal h3").first.wait_for()
    server.kill()
    server.start()
    ada.enter()
    page.reload()
    ada.wait_for_item()
    page.get_by_text("Reward, agent and others are hidden.").wait_for()
    ada.say("1")
    ada.wait_until_saved()
    page.keyboard.press("b")
    page.click("#change-who")
    page.fill("#who-name", "Bob")
    page.click("#who button")
    page.get_by_text("Reward, agent and others are hidden.").wait_for()
    assert page.get_attribute("#blind", "aria-pressed") == "true"
    assert not page.locator("#reveal").is_visible()
    (line,) = lines(tmp_path, "Ada")
    assert "blind" not in line


@pytest.mark.whole
def test_escape_leaves_nobody_without_a_name_and_an_undo_says_that_it_is_done(browser, server):
    context = browser.new_context()
    page = context.new_page()
    page.goto(server.address)
    page.goto(f"{server.address.partition('?')[0]}review/job/")
    for _ in range(3):
        page.locator("#who-name:focus").wait_for()
        page.keyboard.press("Escape")
    page.locator("#who-name:focus").wait_for()
    page.keyboard.type("Cara")
    page.keyboard.press("Enter")
    page.wait_for_selector("#item[data-key]", timeout=30_000)
    page.keyboard.press("1")
    page.locator("#said").get_by_text("You said pass").wait_for(timeout=30_000)
    with page.expect_response(lambda answer: "/items/" in answer.url and "/undo" not in answer.url):
        page.keyboard.press("u")
    page.get_by_text("0 of 50").wait_for()
    page.locator("#said").get_by_text("Taken back.", exact=True).wait_for()
    page.click("#change-who")
    page.keyboard.press("Escape")
    page.locator("#who").wait_for(state="hidden")


@pytest.mark.whole
def test_who_takes_over_in_another_tab_says_nothing_in_the_name_of_whoever_sits_at_this_one(browser, server, tmp_path):
    ada = Reviewer(browser, server, "Ada")
    other = ada.context.new_page()
    other.goto(ada.page.url)
    other.get_by_text("Ada", exact=True).wait_for()
    other.click("#change-who")
    other.fill("#who-name", "Bob")
    other.click("#who button")
    other.get_by_text("Bob", exact=True).wait_for()
    ada.say("2")
    ada.wait_until_saved()
    other.wait_for_selector("#item[data-key]")
    other.keyboard.press("1")
    other.locator("#said").get_by_text("You said pass").wait_for(timeout=30_000)
    ada.check(lines(tmp_path, "Ada"))
    (line,) = lines(tmp_path, "Bob")
    assert line["annotation"]["judgment"] == "pass"
