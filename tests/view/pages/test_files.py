"""Files of a trial over HTTP: pages, bytes in parts, what browsers are told of them, and every path that is refused."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
from aiohttp import ClientPayloadError
from yarl import URL

from seatrial.view.pages import files
from tests.view.viewers import Client, settings_for, stored_job, viewer

TRIAL = "crc.noop.1"
PLACE = f"/jobs/job/trials/{TRIAL}"
DIGITS = b"\x000123456789" * 50_000
SANDBOX = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "jobs/job"
    stored_job(folder, {"crc": [1.0]})
    agent = folder / "trials" / TRIAL / "agent"
    agent.mkdir()
    (agent / "out.json").write_text('{"a": "<script>alert(1)</script>"}')
    (agent / "page.html").write_text("<script>alert(1)</script>")
    (agent / "digits.bin").write_bytes(DIGITS)
    (agent / "odd <b>#?%.txt").write_text("odd")
    (tmp_path / "secret.txt").write_text("hidden words")
    (agent / "link.txt").symlink_to(tmp_path / "secret.txt")
    (agent / "away").symlink_to(tmp_path)
    os.mkfifo(agent / "pipe")
    (agent / os.fsdecode(b"\xff.txt")).write_text("no text")
    for place in ("tries", "revisions"):
        (folder / place / f"{TRIAL}.1").mkdir(parents=True)
        (folder / place / f"{TRIAL}.1/said.txt").write_text(f"said in {place}")
    return tmp_path / "jobs"


def ask(jobs: Path, question: Callable[[Client], Awaitable[None]]) -> None:
    async def asked() -> None:
        async with viewer(settings_for(jobs)) as client:
            await question(client)

    asyncio.run(asked())


def test_a_file_is_shown_by_its_format_and_leads_to_its_bytes(job):
    async def question(client: Client) -> None:
        page = await (await client.get(f"{PLACE}/files/agent/out.json")).text()
        assert '<div class="json">' in page
        assert "<script>alert" not in page
        assert f'<a href="{PLACE}/raw/agent/out.json">Raw file</a>' in page
        odd = await client.get(f"{PLACE}/files/agent/odd%20%3Cb%3E%23%3F%25.txt")
        assert "odd &lt;b&gt;#?%.txt</h1>" in await odd.text()
        for path, expected in (("@try.1/said.txt", "said in tries"), ("@revision.1/said.txt", "said in revisions")):
            assert expected in await (await client.get(f"{PLACE}/files/{path}")).text()

    ask(job, question)


def test_bytes_come_whole_and_in_parts(job):
    async def question(client: Client) -> None:
        address, size = f"{PLACE}/raw/agent/digits.bin", len(DIGITS)
        whole = await client.get(address)
        assert (whole.status, await whole.read() == DIGITS) == (200, True)
        for asked, first, last in (("1-3", 1, 3), ("-5", size - 5, size - 1), (f"{size - 9}-", size - 9, size - 1)):
            part = await client.get(address, headers={"Range": f"bytes={asked}"})
            assert (part.status, await part.read()) == (206, DIGITS[first : last + 1])
            assert part.headers["Content-Range"] == f"bytes {first}-{last}/{size}"
        for asked in (f"bytes={size}-", "bytes=5-1", "bytes=x", "bytes=0-0,2-3"):
            refused = await client.get(address, headers={"Range": asked})
            assert (refused.status, refused.headers["Content-Range"]) == (416, f"bytes */{size}")
        head = await client.head(address)
        assert (head.headers["Content-Length"], await head.read()) == (str(size), b"")

    ask(job, question)


def test_browsers_are_told_to_do_nothing_with_bytes(job):
    async def question(client: Client) -> None:
        for path, kind, shown in (
            ("agent/page.html", "text/html; charset=utf-8", "inline"),
            ("agent/out.json", "text/plain; charset=utf-8", "inline"),
            ("agent/digits.bin", "application/octet-stream", "attachment"),
        ):
            headers = (await client.get(f"{PLACE}/raw/{path}")).headers
            assert headers.getall("Content-Security-Policy") == [SANDBOX]
            assert headers.getall("X-Content-Type-Options") == ["nosniff"]
            assert headers["Content-Type"] == kind
            assert headers["Content-Disposition"] == f'{shown}; filename="{path.rpartition("/")[2]}"'
        odd = await client.get(f"{PLACE}/raw/agent/odd%20%3Cb%3E%23%3F%25.txt")
        assert odd.headers["Content-Disposition"] == 'inline; filename="odd_b_.txt"'

    ask(job, question)


HOSTILE = [
    "../record.json",
    "%2e%2e/record.json",
    "..%2f..%2fjob.json",
    "agent/%2e%2e/%2e%2e/%2e%2e/job.json",
    "@try.1/../../job.json",
    "%2fetc%2fpasswd",
    "agent//out.json",
    "agent/%00",
    "agent/link.txt",
    "agent/away/secret.txt",
    "agent/pipe",
    "agent",
    "agent/",
    "agent/%ff.txt",
    "agent/%ED%B3%BF.txt",
    "@try.2/said.txt",
    "missing",
    "x" * 300,
]


@pytest.mark.parametrize("kind", ["files", "raw"])
def test_whatever_is_no_file_of_the_trial_is_refused(job, kind):
    async def question(client: Client) -> None:
        for path in HOSTILE:
            answer = await client.get(URL(f"{PLACE}/{kind}/{path}", encoded=True))
            text = await answer.text()
            assert (answer.status, "hidden words" in text, "schema_version" in text) == (404, False, False), path
            assert ".." in unquote(path) or "cannot be read" in text, path
        for place in ("/jobs/none/trials/x", "/jobs/job/trials/..%2f..", "/jobs/job/trials/none"):
            answer = await client.get(URL(f"{place}/{kind}/record.json", encoded=True))
            assert answer.status == 404, place

    ask(job, question)


def test_a_file_that_becomes_shorter_while_it_is_sent_ends_the_connection(job, monkeypatch):
    def cut(file: int, wanted: int, position: int) -> bytes:
        return os.pread(file, wanted, position)[:1]

    monkeypatch.setattr(files, "os", SimpleNamespace(fstat=os.fstat, pread=cut))

    async def question(client: Client) -> None:
        with pytest.raises(ClientPayloadError):
            await (await client.get(f"{PLACE}/raw/agent/out.json")).read()

    ask(job, question)
