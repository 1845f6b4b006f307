"""A client for `benchmarks.gateway` that costs next to nothing: HTTP over plain streams, one request at a time."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

HELLO = [{"role": "user", "content": "How much does a beam bend?"}]


class Connection:
    """One connection to a server of models, kept open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str, path: str) -> None:
        self._reader = reader
        self._writer = writer
        self._head = (
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nuser-agent: OpenAI/Python 2.0\r\n"
            "accept: application/json\r\nx-stainless-lang: python\r\nx-stainless-retry-count: 0\r\n"
            f"authorization: Bearer {key}\r\ncontent-type: application/json\r\n"
        )

    async def ask(self, messages: list[Any], **more: Any) -> bytes:
        """The body of an answer. Raises AssertionError for one that is not good."""
        body = json.dumps({"model": "gpt-5", "messages": messages, **more}).encode()
        self._writer.write(f"{self._head}content-length: {len(body)}\r\n\r\n".encode() + body)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        assert head.startswith(b"http/1.1 200"), head
        if b"transfer-encoding: chunked" in head:
            return await self._chunks()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return await self._reader.readexactly(length)

    async def _chunks(self) -> bytes:
        found = []
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            found.append((await self._reader.readexactly(size + 2))[:-2])
        await self._reader.readexactly(2)
        return b"".join(found)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@asynccontextmanager
async def connect(url: str, key: str = "none", path: str = "/v1/chat/completions") -> AsyncIterator[Connection]:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=2**22)
    connection = Connection(reader, writer, key, path)
    try:
        yield connection
    finally:
        await connection.close()
