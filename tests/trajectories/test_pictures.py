"""Pictures: what can be a file or a link is one, anything else is told in words."""

import pytest

from seatrial.model.atif import AtifImage, AtifPart
from seatrial.trajectories.items import Picture
from seatrial.trajectories.pictures import Gallery
from tests.trajectories.samples import PNG


def test_text_alone_stays_text():
    assert Gallery().content(("a", "b")) == "a\nb"


def test_a_link_of_a_known_type_stays_one():
    url = "https://example.com/a.jpg?size=1"
    assert Gallery().content((Picture(url),)) == [
        AtifPart(type="image", source=AtifImage(media_type="image/jpeg", path=url))
    ]


@pytest.mark.parametrize(
    "url",
    [
        "data:image/svg+xml;base64,PHN2Zz4=",
        "data:image/png;base64,not base64 at all",
        "data:,plain",
        "https://example.com/no-type",
        "https://[example.com/no-type",
        "../../etc/shadow.png",
    ],
)
def test_what_the_format_has_no_place_for_is_told(url):
    gallery = Gallery()
    told = AtifPart(type="text", text=f"[an image that is not kept here: {url}]")
    assert gallery.content((Picture(url),)) == [told]
    assert gallery.files == {}


def test_the_same_picture_is_one_file_with_a_name_of_ours():
    gallery = Gallery()
    gallery.content((Picture(f"data:image/png;base64,{PNG}"), "again", Picture(f"data:IMAGE/PNG;base64,{PNG}")))
    (name,) = gallery.files
    assert name.startswith("images/")
    assert name.endswith(".png")


def test_of_very_many_pictures_the_first_are_kept(monkeypatch):
    monkeypatch.setattr("seatrial.trajectories.pictures.MOST_FILES", 2)
    gallery = Gallery()
    told = gallery.content(tuple(Picture(f"data:image/png;base64,{name}AAA") for name in "ABCA"))
    assert [part.type for part in told if isinstance(part, AtifPart)] == ["image", "image", "text", "image"]
    assert len(gallery.files) == 2
