"""No hot path costs more than benchmarks/ratchet.toml allows, and the ratchet sees it where one does."""

import math
from collections.abc import Callable
from threading import Thread

import pytest

from benchmarks import ratchet
from benchmarks.ratchet_paths import PATHS

STORED = ratchet.stored()


@pytest.mark.whole
@pytest.mark.skipif(
    STORED["python"] != ratchet.PYTHON,
    reason=f"the numbers are of Python {STORED['python']}; others call other functions of the standard library",
)
@pytest.mark.parametrize("path", PATHS)
def test_no_path_costs_more_than_is_stored(path: str):
    above = ratchet.over(ratchet.count_paths([path]), STORED["paths"])
    assert not above, "if it has to be, `make ratchet UPDATE=1` stores the new numbers"


def test_every_path_has_its_numbers():
    assert set(STORED["paths"]) == set(PATHS)


def test_counts_calls_of_python_and_of_c_and_those_of_other_threads():
    def work(times: int) -> None:
        for number in range(times):
            root(number)

    def root(number: int) -> float:
        return math.sqrt(number)

    def in_a_thread(times: int) -> None:
        thread = Thread(target=work, args=(times,))
        thread.start()
        thread.join()

    def count(function: Callable[[int], None], times: int) -> int:
        with ratchet.Calls() as calls:
            function(times)
        return calls.by_function().total()

    for function in (work, in_a_thread):
        assert count(function, 1_010) - count(function, 10) == 2_000


def test_more_than_five_per_cent_over_is_named():
    limits = {"run": {"modules": 100, "calls": 1_000}}
    assert ratchet.over({"run": {"modules": 105, "calls": 900}}, limits) == []
    assert ratchet.over({"run": {"modules": 106, "calls": 1_051}}, limits) == [
        "run: 106 modules, stored are 100",
        "run: 1,051 calls, stored are 1,000",
    ]
    assert ratchet.over({"new": {"calls": 1}}, limits) == ["new: 1 calls, stored are 0"]
