"""Templates become pages of the viewer."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from seatrial.view.links import Links

if TYPE_CHECKING:
    import jinja2


@lru_cache(maxsize=1)
def _environment() -> "jinja2.Environment":
    from seatrial.report.html.templates import REPORT, open_templates  # noqa: PLC0415 - a start renders nothing

    return open_templates(("seatrial.view", "templates"), REPORT, between_lines="\n")


def prepare(*templates: str) -> None:
    """Compile templates, so that the first page of each need not."""
    for template in templates:
        _environment().get_template(template)


def render(template: str, links: Links, **values: Any) -> str:
    """A page, or a part of one, from a template and values."""
    return _environment().get_template(template).render(links=links, **values)
