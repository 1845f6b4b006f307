"""Images as people write them: `host`, a reference, or a folder, which is taken from where they stand."""

import os

from seatrial.errors import JobError, UsageError
from seatrial.images.reference import parse_reference
from seatrial.model.job import TrialOptions

_WORDS = ("auto", "host")


def whole_image(image: str, folder: str = "") -> str:
    """An image that means the same wherever one stands: folders become absolute, as seen from another folder."""
    if image in _WORDS:
        return image
    path = os.path.abspath(os.path.join(folder, image))  # noqa: PTH100, PTH118 - links stay as they were named
    means_folder = image.startswith(("/", "./", "../")) or image in (".", "..") or os.path.isdir(path)  # noqa: PTH112 - links stay as they were named
    return path if means_folder else image


def check_images(options: TrialOptions) -> None:
    """Raise JobError for an image that is none of what an image can be."""
    for image in (options.image, *options.image_map.values()):
        if image.startswith("/"):
            if not os.path.isdir(image):  # noqa: PTH112 - links stay as they were named
                raise JobError(f"image {image}: expected a folder with a root file system, and there is none")
        elif image not in _WORDS:
            try:
                parse_reference(image)
            except UsageError as error:
                raise JobError(f"image {image}: expected host, a folder or the name of an image: {error}") from error
