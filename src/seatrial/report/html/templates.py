"""Templates become HTML: everything in them is text of strangers and is escaped, unless we made it as HTML.

Jinja is slow to import, and a start renders nothing: so it is imported when the first page is.
"""

from importlib.resources import files
from typing import TYPE_CHECKING

from seatrial.model.outcome import format_reward
from seatrial.report.text import harmless_lines

if TYPE_CHECKING:
    import jinja2

REPORT = ("seatrial.report", "html")


def open_templates(*folders: tuple[str, str], between_lines: str) -> "jinja2.Environment":
    """The templates of some folders of packages; lines of values have something between them."""
    import jinja2  # noqa: PLC0415
    import markupsafe  # noqa: PLC0415

    def shown(value: object) -> object:
        """Text without what would steer anything; what is marked as HTML is ours."""
        return value if isinstance(value, markupsafe.Markup) else between_lines.join(harmless_lines(str(value)))

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([str(files(package) / name) for package, name in folders]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=shown,
    )
    environment.filters["trusted"] = markupsafe.Markup
    environment.filters["reward"] = format_reward
    return environment
