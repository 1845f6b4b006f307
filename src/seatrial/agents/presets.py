"""Agents that are known by name, and the recipes of their trees."""

from seatrial.errors import UsageError
from seatrial.model.job import LayerRecipe


def recipe_of(name: str, version: str | None) -> LayerRecipe:
    """The recipe of an agent, at its usual version or another. Raises UsageError for an unknown one."""
    asked = f"{name}@{version}" if version else name
    raise UsageError(f"there is no preset {asked!r} to bake")
