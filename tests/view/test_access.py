"""Who is let in: every kind of request that a stranger, a foreign page or a name of somebody else's DNS can send."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from seatrial.view.access import ViewSettings
from tests.view.viewers import BEARER, TOKEN, Client, settings_for, viewer

NAVIGATION = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


def asked(settings: ViewSettings, path: str = "/", method: str = "GET", **headers: str) -> tuple[int, str, Any]:
    """Ask once; without a word about a token unless it is among the headers."""

    async def ask() -> tuple[int, str, Any]:
        async with viewer(settings, headers={}) as client:
            sent = {name.replace("_", "-"): _filled(value, client) for name, value in headers.items()}
            response = await client.request(method, path, headers=sent, allow_redirects=False)
            return response.status, await response.text(), response.headers

    return asyncio.run(ask())


def _filled(value: str, client: Client) -> str:
    return value.replace("PORT", str(client.port))


def test_the_token_is_taken_out_of_the_address_and_kept_as_a_cookie(tmp_path):
    async def visit() -> None:
        async with viewer(settings_for(tmp_path), headers={}) as client:
            refused = await client.get("/")
            assert refused.status == 403
            assert "that `seatrial view` printed" in await refused.text()
            entered = await client.get(f"/?sort=x&token={TOKEN}", allow_redirects=False)
            assert (entered.status, entered.headers["Location"]) == (303, "/?sort=x")
            cookie = entered.headers["Set-Cookie"]
            assert cookie == f"seatrial-{client.port}={TOKEN}; HttpOnly; Path=/; SameSite=Strict"
            assert (await client.get("/")).status == 200

    asyncio.run(visit())


def test_a_browser_sent_here_by_a_file_gets_a_page_that_leads_on(tmp_path):
    status, _, headers = asked(settings_for(tmp_path), f"/?token={TOKEN}", **NAVIGATION)
    assert (status, headers["Refresh"]) == (200, "0; url=/")


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example", "///evil.example/x", "/%2f/evil.example"])
def test_the_token_leads_to_no_other_machine(tmp_path, path):
    head = spoken(settings_for(tmp_path), f"GET {path}?token={TOKEN} HTTP/1.1", "Host: localhost")
    assert head[0].split()[1] in ("303", "400")
    assert not [line for line in head if line.startswith(("Location: //", "Location: /\\", "Location: http"))]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Cookie": "seatrial-PORT="},
        {"Cookie": "seatrial-PORT=t0keN"},
        {"Cookie": f"seatrial-1={TOKEN}"},
        {"Cookie": f"seatrial={TOKEN}; token={TOKEN}"},
        {"Cookie": 'seatrial-PORT="\\342\\202\\254"; ;;=;'},
        {"Authorization": "Bearer "},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": "Bearer \N{EURO SIGN}"},
    ],
)
def test_nothing_is_shown_without_the_token(tmp_path, headers):
    status, text, _ = asked(settings_for(tmp_path), **headers)
    assert status == 403
    assert TOKEN not in text


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "LOCALHOST", "127.0.0.1:1", "[::1]", "[::1]:8080"])
def test_this_machine_has_several_names(tmp_path, host):
    assert asked(settings_for(tmp_path), Host=host, **BEARER)[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example:PORT", "localhost."),
        *("[::1].evil.example", "[::2]", "evil@localhost", "localhost:99x", "localhost:1:2", "0.0.0.0", "192.168.0.1"),
        *("", " ", "127.1", "2130706433", "localhost/evil"),
    ],
)
def test_other_names_are_refused_whatever_is_brought(tmp_path, host):
    status, text, _ = asked(settings_for(tmp_path), Host=host, **BEARER)
    assert status in (400, 403)
    assert "<h1>Jobs" not in text


@pytest.mark.parametrize(
    ("host", "header", "status"),
    [
        ("192.0.2.7", "192.0.2.7:80", 200),
        ("192.0.2.7", "192.0.2.8", 403),
        ("review.example", "Review.Example:8000", 200),
        ("2001:db8::1", "[2001:db8::1]:80", 200),
        ("0.0.0.0", "192.0.2.7:80", 200),
        ("0.0.0.0", "evil.example", 403),
    ],
)
def test_a_viewer_for_others_is_called_by_its_own_name(tmp_path, host, header, status):
    assert asked(settings_for(tmp_path, host=host), Host=header, **BEARER)[0] == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://127.0.0.1:PORT"}, 200),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "https://127.0.0.1:PORT"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "null", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}, 403),
        ({**NAVIGATION, "Sec-Fetch-Dest": "iframe"}, 403),
        ({**NAVIGATION, "Origin": "http://evil.example"}, 403),
        (NAVIGATION, 200),
    ],
)
def test_pages_of_others_get_nothing(tmp_path, headers, status):
    assert asked(settings_for(tmp_path), **BEARER, **headers)[0] == status


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "Only pages of this viewer"),
        ({"X_Seatrial": "1"}, "Only pages of this viewer"),
        ({"Origin": "http://evil.example", "X_Seatrial": "1"}, "another origin"),
        ({"Origin": "http://127.0.0.1:PORT"}, "needs the header X-Seatrial"),
        ({**NAVIGATION, "Origin": "null", "X_Seatrial": "1"}, "another origin"),
        ({"Origin": "http://127.0.0.1:PORT", "X_Seatrial": "1", "Authorization": ""}, "with a token"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_what_writes_needs_a_page_of_ours(tmp_path, headers, reason, method):
    status, text, _ = asked(settings_for(tmp_path), method=method, **{**BEARER, **headers})
    assert (status, reason in text) == (403, True)


OWN = {"Origin": "http://127.0.0.1:PORT", "X_Seatrial": "1", **BEARER}


def test_a_viewer_to_read_writes_nothing(tmp_path):
    assert asked(settings_for(tmp_path), method="POST", **OWN)[0] == 405
    status, text, _ = asked(settings_for(tmp_path, access="read"), "/api/anything", "POST", **OWN)
    assert (status, "--read-only" in text) == (403, True)


@pytest.mark.parametrize("path", ["/", "/nothing", "/static/view.css", "/static/none", f"/?token={TOKEN}", "/api/none"])
def test_every_answer_says_what_a_browser_may_do(tmp_path: Path, path):
    for headers in ({}, BEARER, {"Host": "evil.example"}):
        status, _, found = asked(settings_for(tmp_path), path, **headers)
        assert found["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert found["X-Content-Type-Options"] == "nosniff"
        assert found["Referrer-Policy"] == "no-referrer"
        assert found["Cross-Origin-Opener-Policy"] == found["Cross-Origin-Resource-Policy"] == "same-origin"
        is_ours = status == 200 and path.startswith("/static/")
        assert found["Cache-Control"] == ("no-cache" if is_ours else "no-store")


def test_two_hosts_at_once_are_none(tmp_path):
    lines = "Host: localhost", "Host: evil.example", f"Authorization: Bearer {TOKEN}"
    head = spoken(settings_for(tmp_path), "GET / HTTP/1.1", *lines)
    assert head[0].split()[1] in ("400", "403")


def spoken(settings: ViewSettings, *lines: str) -> list[str]:
    """What comes back for these lines, sent as they are, up to the body."""

    async def speak() -> list[str]:
        async with viewer(settings) as client:
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            writer.write("".join(f"{line}\r\n" for line in (*lines, "")).encode())
            head = await reader.readuntil(b"\r\n\r\n")
            writer.close()
            return head.decode().splitlines()

    return asyncio.run(speak())
