import itertools

from seatrial.compat.error_chain import ErrorChain, get_error_chain, get_vf_error_chain
from seatrial.errors import InfraError, ModelError, SandboxError


def chained(*errors):
    for error, cause in itertools.pairwise(errors):
        error.__cause__ = cause
    return errors[0]


def test_a_chain_is_an_error_with_its_causes():
    error = chained(SandboxError("gone"), ModelError("late"), OSError("disk"))
    assert [type(each) for each in get_error_chain(error)] == [SandboxError, ModelError, OSError]
    assert [type(each) for each in get_vf_error_chain(error)] == [SandboxError, ModelError]
    chain = ErrorChain(error)
    assert (str(chain), InfraError in chain, KeyError in chain) == (
        "SandboxError -> ModelError -> OSError",
        True,
        False,
    )
    assert "disk" in repr(chain)


def test_a_circle_of_causes_has_an_end():
    first, second = SandboxError("a"), ModelError("b")
    first.__cause__, second.__cause__ = second, first
    assert str(ErrorChain(first)) == "SandboxError -> ModelError"


def test_chains_are_alike_when_their_types_are():
    first, second = (ErrorChain(chained(SandboxError(text), OSError(text))) for text in ("a", "b"))
    assert first == second
    assert len({first, second, ErrorChain(SandboxError("a"))}) == 2
    assert first != "SandboxError -> OSError"
