"""A reviewer's page without the page: asks what it asks, and says what it says."""

import secrets
from typing import Any

from tests.view.viewers import Client

ENTRY = "0123456789abcdef"


class Reviewer:
    """Somebody who reviews the only job of a viewer."""

    def __init__(self, client: Client, name: str = "ada") -> None:
        self.client = client
        self.name = name
        self.api = ""
        self.seen = b""

    async def begin(self, query: str = "") -> None:
        """Open the review, as the list of jobs leads to it."""
        found = await self.client.get("/review/job/", params=query, allow_redirects=False)
        await self.follow(found.headers["Location"])

    async def follow(self, address: str) -> None:
        """Open the page at an address, and find out where it asks."""
        desk, _, query = address.removeprefix("/desk/").partition("/")
        self.api = f"/api/desk/{desk}/"
        self.query = query.removeprefix("?")
        page = await self.client.get(address)
        self.seen += address.encode() + await page.read()
        assert page.status == 200

    async def get(self, path: str, **query: str) -> Any:
        """Ask for something; all bytes of the answer are kept."""
        packed = dict([self.query.split("=", 1)]) if self.query else {}
        answer = await self.client.get(self.api + path, params={"reviewer": self.name, **packed, **query})
        self.seen += await answer.read()
        self.seen += repr(answer.headers).encode()
        assert answer.status == 200, await answer.text()
        return await answer.json() if "json" in answer.content_type else await answer.text()

    async def say(self, path: str, **body: Any) -> tuple[int, Any]:
        """Say something; returns the status and the answer."""
        headers = {"Origin": f"http://{self.client.host}:{self.client.port}", "X-Seatrial": "1"}
        said = {"id": secrets.token_hex(8), "reviewer": self.name, **body}
        packed = dict([self.query.split("=", 1)]) if self.query else {}
        answer = await self.client.post(self.api + path, json=said, headers=headers, params=packed)
        return answer.status, await answer.json()

    async def keys(self) -> list[str]:
        """The keys of the queue."""
        return [item["key"] for item in (await self.get("queue"))["items"]]
