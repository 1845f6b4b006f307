"""Templates become pages: everything in them is text of strangers and is escaped, unless we made it as HTML."""

from functools import lru_cache
from importlib.resources import files
from typing import Any

import jinja2
import markupsafe

from seatrial.report.text import harmless_lines
from seatrial.view.links import Links


def _shown(value: object) -> object:
    """Text without what would steer anything; what is marked as HTML is ours."""
    return value if isinstance(value, markupsafe.Markup) else "\n".join(harmless_lines(str(value)))


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([_folder("seatrial.view", "templates"), _folder("seatrial.report", "html")]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
    )
    environment.filters["trusted"] = markupsafe.Markup
    return environment


def _folder(package: str, name: str) -> jinja2.FileSystemLoader:
    return jinja2.FileSystemLoader(str(files(package) / name))


def render(template: str, links: Links, **values: Any) -> str:
    """A page, or a part of one, from a template and values."""
    return _environment().get_template(template).render(links=links, **values)
