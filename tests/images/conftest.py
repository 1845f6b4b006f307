"""What the tests of images share."""

from tests.images.building.support import context, store_root

__all__ = ["context", "store_root"]
