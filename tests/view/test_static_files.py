"""Style and script: a fixed set, whatever path is asked for."""

import asyncio

import pytest

from seatrial.view.static_files import static_files
from tests.view.viewers import settings_for, viewer


def test_files_have_types_and_tags(tmp_path):
    async def visit() -> None:
        async with viewer(settings_for(tmp_path), headers={}) as client:
            for name, kind in (("view.css", "text/css"), ("report.css", "text/css"), ("view.js", "text/javascript")):
                found = await client.get(f"/static/{name}")
                assert found.headers["Content-Type"] == f"{kind}; charset=utf-8"
                assert await found.read() == static_files()[name].content
                assert found.headers["Cache-Control"] == "no-cache"
                again = await client.get(f"/static/{name}", headers={"If-None-Match": found.headers["ETag"]})
                assert (again.status, await again.read()) == (304, b"")
                other = await client.get(f"/static/{name}", headers={"If-None-Match": '"other"'})
                assert other.status == 200

    asyncio.run(visit())


@pytest.mark.parametrize("path", ["..%2fapp.py", "%2e%2e/app.py", "../app.py", "none.css", "%00", "", "view.css/x"])
def test_no_other_file_is_there(tmp_path, path):
    async def visit() -> int:
        async with viewer(settings_for(tmp_path)) as client:
            return (await client.get(f"/static/{path}")).status

    assert asyncio.run(visit()) in (400, 404)
