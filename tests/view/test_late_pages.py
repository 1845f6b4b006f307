"""Pages that are imported late: a server must know the addresses of all of them, and no others."""

from importlib import import_module

import pytest

from seatrial.view.late_pages import PAGES, place_of


@pytest.mark.parametrize("module", PAGES)
def test_every_page_of_a_module_has_the_address_that_the_module_gives_it(module):
    assert tuple(map(place_of, import_module(f"seatrial.view.{module}").routes())) == PAGES[module]
