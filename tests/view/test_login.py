"""The password of a viewer for others: a page asks for it, wrong guesses have to wait, and nobody is sent elsewhere."""

import asyncio

import pytest

from seatrial.view.guesses import Guesses
from tests.view.viewers import TOKEN, settings_for, viewer

PASSWORD = "correct horse"  # noqa: S105 - of a viewer that lives for one test
FORM = {"Sec-Fetch-Site": "same-origin", "Origin": "null"}


def test_a_form_lets_in_and_leads_to_the_page_that_was_asked_for(tmp_path):
    async def visit() -> None:
        async with viewer(settings_for(tmp_path, password=PASSWORD), headers={}) as client:
            asked = await client.get("/?page=2", allow_redirects=False)
            assert (asked.status, asked.headers["Location"]) == (303, "/login?next=/?page%3D2")
            assert (await client.get(f"/?token={TOKEN}", allow_redirects=False)).status == 303
            wrong = await client.post("/login", data={"password": "correct hors", "next": "/x"}, headers=FORM)
            assert (wrong.status, "not the password" in await wrong.text()) == (403, True)
            data = {"password": PASSWORD, "next": "/?page=2"}
            foreign = await client.post("/login", data=data, headers={"Origin": "http://evil.example"})
            assert foreign.status == 403
            right = await client.post("/login", data=data, headers=FORM, allow_redirects=False)
            assert (right.status, right.headers["Location"]) == (303, "/?page=2")
            assert (await client.get("/", allow_redirects=False)).status == 200

    asyncio.run(visit())


@pytest.mark.parametrize("target", ["//evil.example", "/\\evil.example", "\t//evil.example", "http://evil.example"])
def test_nobody_is_led_elsewhere(tmp_path, target):
    async def visit() -> str:
        async with viewer(settings_for(tmp_path, password=PASSWORD), headers={}) as client:
            data = {"password": PASSWORD, "next": target}
            return (await client.post("/login", data=data, headers=FORM, allow_redirects=False)).headers["Location"]

    found = asyncio.run(visit())
    assert found.startswith("/")
    assert not found.startswith(("//", "/\\"))


def test_without_a_password_there_is_no_such_page(tmp_path):
    async def visit() -> list[int]:
        async with viewer(settings_for(tmp_path), headers={}) as client:
            asked = await client.get("/login")
            tried = await client.post("/login", data={"password": ""}, headers=FORM)
            return [asked.status, tried.status]

    assert asyncio.run(visit()) == [404, 404]


def test_guessing_gets_slower(tmp_path):
    async def visit() -> list[int]:
        async with viewer(settings_for(tmp_path, password=PASSWORD), headers={}) as client:
            tries = [await client.post("/login", data={"password": str(n)}, headers=FORM) for n in range(6)]
            tries.append(await client.post("/login", data={"password": PASSWORD}, headers=FORM))
            assert tries[-1].headers["Retry-After"] == "1"
            return [each.status for each in tries]

    assert asyncio.run(visit()) == [403] * 5 + [429] * 2


def test_waits_double_end_and_are_each_ones_own():
    now = [0.0]
    guesses = Guesses(lambda: now[0])
    waits = []
    for _ in range(8):
        guesses.wrong("a")
        waits.append(guesses.wait("a"))
        now[0] += waits[-1]
    assert waits == [0, 0, 0, 0, 1, 2, 4, 8]
    assert guesses.wait("b") == 0
    for number in range(2_000):
        guesses.wrong(f"guesser-{number}")
    assert guesses.wait("b") == 300
    guesses.right("a")
    assert guesses.wait("b") == 0


def test_guesses_that_come_at_once_wait_like_others(tmp_path):
    async def visit() -> list[bytes]:
        async with viewer(settings_for(tmp_path, password=PASSWORD), headers={}) as client:
            head = (
                "POST /login HTTP/1.1", "Host: localhost", "Sec-Fetch-Site: same-origin", "Content-Length: 10",
                "Content-Type: application/x-www-form-urlencoded", "Connection: close",
            )  # fmt: skip
            begun = [await asyncio.open_connection(client.host, client.port) for _ in range(20)]
            for _, writer in begun:
                writer.write("\r\n".join((*head, "", "")).encode())
            await asyncio.sleep(0.2)  # until all of them wait for what is guessed
            for _, writer in begun:
                writer.write(b"password=x")
            answers = [(await reader.read()).split()[1] for reader, _ in begun]
            for _, writer in begun:
                writer.close()
            return answers

    found = asyncio.run(visit())
    assert (found.count(b"403"), found.count(b"429")) == (5, 15)


@pytest.mark.parametrize(
    "kind",
    [
        "application/x-www-form-urlencoded; charset=nope",
        "application/x-www-form-urlencoded; charset=utf-16",
        "multipart/form-data",
        "multipart/form-data; boundary=x",
    ],
)
def test_what_is_no_form_is_refused(tmp_path, kind):
    async def visit() -> int:
        async with viewer(settings_for(tmp_path, password=PASSWORD), headers={}) as client:
            return (await client.post("/login", data=b"x", headers={**FORM, "Content-Type": kind})).status

    assert asyncio.run(visit()) == 400
