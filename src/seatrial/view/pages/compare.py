"""Two jobs, or the agents of one, side by side: first whether they can be compared, then the answer, then where."""

import asyncio
from dataclasses import dataclass

from aiohttp import web

from seatrial.view.app import VIEW, Viewer, html
from seatrial.view.templating import render


@dataclass(frozen=True, slots=True)
class CompareQuery:
    """What an address asks for: two jobs, or one, and agents of them. `force` compares what should not be."""

    a: str = ""
    b: str = ""
    agent_a: str = ""
    agent_b: str = ""
    force: str = ""

    @property
    def chosen(self) -> dict[str, str]:
        """What it asks for, as an address has it."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name))}

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that are named, each once."""
        return tuple(dict.fromkeys(filter(None, (self.agent_a, self.agent_b))))


def compare_page(view: Viewer, query: CompareQuery) -> str:
    """The page of a comparison; without jobs, only the form that asks for them."""
    from seatrial.view.compared import Compared, compared  # noqa: PLC0415 - slow, and other pages need none of it

    jobs = view.library.find()
    keys = query.a, query.b or query.a
    found = compared(view, keys, query.agents, force=bool(query.force)) if query.a else Compared()
    return render(
        "compare.html.jinja",
        view.links,
        title=f"Compare {' and '.join(dict.fromkeys(keys))}" if query.a else "Compare",
        query=query,
        keys=[*jobs],
        agents=[tuple(view.library.card(key).agents) if key in jobs else () for key in keys],
        found=found,
        forced_link=view.links.compare(**{**query.chosen, "force": "yes"}) if found.refused else None,
    )


async def _compare(request: web.Request) -> web.Response:
    query = CompareQuery(**{name: request.query.get(name, "") for name in CompareQuery.__slots__})
    return html(await asyncio.to_thread(compare_page, request.app[VIEW], query))


def routes() -> list[web.RouteDef]:
    """Where this module's pages are."""
    return [web.get("/compare", _compare)]
