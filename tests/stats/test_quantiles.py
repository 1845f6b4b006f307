"""Quantiles of Student's distribution beside scipy's."""

import pytest
from scipy import stats as oracle

from seatrial.stats.quantiles import student_t


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 30, 163, 400, 401, 100_000])
def test_scipys_quantiles(level, freedom):
    assert student_t(level, freedom) == pytest.approx(oracle.t.ppf((1 + level) / 2, freedom), rel=1e-9)


def test_without_freedom_there_is_none():
    with pytest.raises(ValueError, match="0 degrees of freedom"):
        student_t(0.95, 0)
