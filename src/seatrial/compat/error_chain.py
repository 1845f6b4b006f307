"""Errors with their causes, as environments and trainers print and compare them."""

from typing import Any

from seatrial.errors import SeatrialError


def get_error_chain(
    error: BaseException | None, parent_type: type[BaseException] = BaseException
) -> list[BaseException]:
    """An error, its cause, the cause of that, and so on, as long as each is of a type."""
    chain = []
    while isinstance(error, parent_type) and error not in chain:
        chain.append(error)
        error = error.__cause__
    return chain


def get_vf_error_chain(error: BaseException) -> list[BaseException]:
    """The chain of an error as far as it is made of our errors."""
    return get_error_chain(error, SeatrialError)


class ErrorChain:
    """An error with its causes. Two are equal if the types are; `in` asks for a type."""

    def __init__(self, error: BaseException, build_error_chain: Any = get_error_chain) -> None:
        self.root_error = error
        self.chain: list[BaseException] = build_error_chain(error)

    def _names(self) -> tuple[str, ...]:
        return tuple(type(error).__name__ for error in self.chain)

    def __hash__(self) -> int:
        return hash(self._names())

    def __eq__(self, other: object) -> bool:
        return self._names() == other._names() if isinstance(other, ErrorChain) else NotImplemented

    def __contains__(self, kind: type[BaseException]) -> bool:
        return any(isinstance(error, kind) for error in self.chain)

    def __str__(self) -> str:
        return " -> ".join(self._names())

    def __repr__(self) -> str:
        return " -> ".join(map(repr, self.chain))
