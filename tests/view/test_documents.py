import re
from importlib.resources import files

from seatrial.view.documents import code_style

PAPERS = {"light": "#ffffff", "dark": "#1b2128"}


def test_the_style_in_the_tree_is_current():
    kept = (files("seatrial.view") / "static" / "code.css").read_text()
    assert kept == code_style(), "write code_style() to src/seatrial/view/static/code.css again"


def test_every_colour_can_be_read_on_its_paper():
    pairs = re.findall(r"light-dark\((#\w{6}), (#\w{6}|inherit)\)", code_style())
    assert len(pairs) > 40
    faint = [light for light, _ in pairs if contrast(light, PAPERS["light"]) < 4.5]
    faint += [dark for _, dark in pairs if dark != "inherit" and contrast(dark, PAPERS["dark"]) < 4.5]
    assert faint == []


def contrast(one: str, other: str) -> float:
    """As the Web Content Accessibility Guidelines define it."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
