"""Templates become pages: everything in them is text of strangers and is escaped, unless we made it as HTML."""

from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from seatrial.view.links import Links

if TYPE_CHECKING:
    import jinja2


_FOLDERS = (("seatrial.view", "templates"), ("seatrial.report", "html"))


@lru_cache(maxsize=1)
def _environment() -> "jinja2.Environment":
    # Slow to import, and a start renders nothing.
    import jinja2  # noqa: PLC0415
    import markupsafe  # noqa: PLC0415

    from seatrial.report.text import harmless_lines  # noqa: PLC0415

    def shown(value: object) -> object:
        """Text without what would steer anything; what is marked as HTML is ours."""
        return value if isinstance(value, markupsafe.Markup) else "\n".join(harmless_lines(str(value)))

    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.FileSystemLoader(_folder(*each)) for each in _FOLDERS]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=shown,
    )
    environment.filters["trusted"] = markupsafe.Markup
    return environment


def _folder(package: str, name: str) -> str:
    return str(files(package) / name)


def prepare(*templates: str) -> None:
    """Compile templates, so that the first page of each need not."""
    for template in templates:
        _environment().get_template(template)


def render(template: str, links: Links, **values: Any) -> str:
    """A page, or a part of one, from a template and values."""
    return _environment().get_template(template).render(links=links, **values)
