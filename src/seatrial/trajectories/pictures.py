"""Pictures of a conversation as files beside its trajectory, each once, whoever shows it how often."""

import base64
import binascii
import hashlib
import mimetypes
import re
from typing import get_args

from seatrial.model.atif import AtifContent, AtifImage, AtifPart, ImageType
from seatrial.trajectories.items import Picture, Pieces

FOLDER = "images"
MOST_FILES = 10_000
"""Of one trajectory: a stranger may show half a million pictures of three bytes, each a file on the disk."""
_TYPES: tuple[ImageType, ...] = get_args(ImageType)
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=.-]+)*;base64,")
_SHOWN = 200


class Gallery:
    """Takes pictures and knows the files that they are to be, by their names below the trajectory's folder."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def content(self, pieces: Pieces) -> AtifContent:
        """What pieces say: text, if there is nothing to look at among them."""
        if not any(isinstance(piece, Picture) for piece in pieces):
            return "\n".join(str(piece) for piece in pieces)
        return [self._part(piece) for piece in pieces]

    def _part(self, piece: str | Picture) -> AtifPart:
        if isinstance(piece, str):
            return AtifPart(type="text", text=piece)
        source = self._kept(piece.url) if piece.url.startswith("data:") else _linked(piece)
        if source is None:
            return AtifPart(type="text", text=f"[an image that is not kept here: {piece.url[:_SHOWN]}]")
        return AtifPart(type="image", source=source)

    def _kept(self, url: str) -> AtifImage | None:
        found = _DATA_URL.match(url)
        kind = next((each for each in _TYPES if found and each == found[1].lower()), None)
        if found is None or kind is None:
            return None
        try:
            content = base64.b64decode(url[found.end() :], validate=True)
        except (binascii.Error, ValueError):
            return None
        name = f"{FOLDER}/{hashlib.sha256(content).hexdigest()[:24]}.{kind.removeprefix('image/')}"
        if name not in self.files and len(self.files) == MOST_FILES:
            return None
        self.files[name] = content
        return AtifImage(media_type=kind, path=name)


def _linked(piece: Picture) -> AtifImage | None:
    """A picture of the web. The format wants to know its type, which only its name can tell."""
    name = piece.url.partition("?")[0].rpartition("/")[2]  # alone: of some whole addresses Python 3.13 says ValueError
    told = piece.media_type or mimetypes.guess_type(name)[0]
    kind = next((each for each in _TYPES if each == told), None)
    return AtifImage(media_type=kind, path=piece.url) if kind and "://" in piece.url else None
