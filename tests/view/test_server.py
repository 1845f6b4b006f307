"""What a viewer says in its terminal while strangers knock."""

import asyncio
import errno
import socket

from seatrial.view.server import ErrorLog, serving
from tests.view.viewers import settings_for, stored_job


def test_what_is_no_http_is_refused_without_a_word(tmp_path, caplog):
    stored_job(tmp_path / "job", {"crc": [1.0]})

    async def knock() -> bytes:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            async with serving(settings_for(tmp_path), listener):
                reader, writer = await asyncio.open_connection(*listener.getsockname())
                writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
                answer = await reader.read()
                writer.close()
                return answer

    assert asyncio.run(knock()).startswith(b"HTTP/1.0 400")
    assert caplog.text == ""


def test_too_many_connections_are_told_once_and_anything_else_each_time(caplog):
    async def fail(errors: ErrorLog) -> None:
        loop = asyncio.get_running_loop()
        for number in (errno.EMFILE, errno.ENFILE, errno.EMFILE, errno.EIO, errno.EIO):
            errors(loop, {"message": "accept", "exception": OSError(number, "no more files")})

    asyncio.run(fail(ErrorLog()))
    assert [each.message.partition(",")[0] for each in caplog.records].count("too many connections at once") == 1
    assert len(caplog.records) == 3
