"""Units of a system: packages as a whole, else single files. What belongs together is changed together."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Units:
    """Some units of a system."""

    files: frozenset[str] = frozenset()

    def has(self, path: str) -> bool:
        """Whether a file belongs to one of them."""
        return path in self.files


NO_UNITS = Units()
