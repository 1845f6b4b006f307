"""The tree does not grow unnoticed: no counted number is above the one stored in benchmarks/house.toml."""

from benchmarks import house


def test_no_number_is_above_the_stored_one():
    counted, stored = house.count(), house.stored("limits")
    above = {name: (counted[name], limit) for name, limit in stored.items() if counted[name] > limit}
    assert not above, "more than house.toml allows; if it has to be, `make house UPDATE=1` stores the new numbers"
    assert set(stored) == set(counted) - house.MAY_GROW


def test_every_exception_is_a_small_module_with_one_importer_and_has_a_reason():
    assert set(house.stored("exceptions")) <= house.lonely_modules()
    assert all(house.stored("exceptions").values())
