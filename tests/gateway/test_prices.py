"""Prices: which entry a model's name finds, and what a call costs by it."""

from pathlib import Path

import pytest

from seatrial.errors import UsageError
from seatrial.gateway.prices import ModelPrice, PriceTable, find_price, load_prices, price
from seatrial.model.trace import TokenUsage

TABLE = PriceTable(
    models={
        "gpt-5": ModelPrice(input=1.0, cached=0.1, output=10.0),
        "gpt-5-mini": ModelPrice(input=0.5, output=2.0),
        "claude-sonnet-4": ModelPrice(input=3.0, output=15.0),
        "deep/own": ModelPrice(input=9.0, output=9.0),
        "own": ModelPrice(input=1.0, output=1.0),
        "stores": ModelPrice(input=2.0, cached=1.0, cache_write=2.5, cache_write_1h=4.0, output=9.0),
        "longer": ModelPrice(
            input=1.0, output=2.0, above=1000, long=ModelPrice(input=3.0, cached=1.0, output=10.0, cache_write=4.0)
        ),
    }
)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("gpt-5", "gpt-5"),
        ("gpt-5-2025-08-07", "gpt-5"),
        ("gpt-5-mini-2025-08-07", "gpt-5-mini"),
        ("openai/gpt-5-mini", "gpt-5-mini"),
        ("router/openai/gpt-5", "gpt-5"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("claude-sonnet-4@20250514", "claude-sonnet-4"),
        ("claude-sonnet-4-20250514-v1:0", "claude-sonnet-4"),
        ("claude-sonnet-4-latest", "claude-sonnet-4"),
        ("deep/own", "deep/own"),
        ("shallow/own", "own"),
        ("gpt-5-nano", None),
        ("gpt-5.1", None),
        ("claude-sonnet-4-5-20250929", None),
        ("gpt", None),
        ("", None),
        ("/", None),
    ],
)
def test_names_find_their_price_and_no_other(model: str, name: str | None):
    assert find_price(model, TABLE.models) == (None if name is None else TABLE.models[name])


@pytest.mark.parametrize(
    ("model", "usage", "cost"),
    [
        ("gpt-5", TokenUsage(input_tokens=1_000_000, cached_tokens=400_000, output_tokens=100_000), 0.6 + 0.04 + 1.0),
        ("gpt-5-mini", TokenUsage(input_tokens=1_000_000, cached_tokens=400_000), 0.5),
        ("gpt-5", TokenUsage(input_tokens=10, cached_tokens=20), 10 * 0.1 / 1e6),
        ("gpt-5", TokenUsage(), 0.0),
        ("stores", TokenUsage(input_tokens=1_000_000, cached_tokens=200_000, cache_write_tokens=500_000), 0.6 + 1.45),
        ("stores", TokenUsage(input_tokens=100, cache_write_tokens=100, cache_write_1h_tokens=40), 310 / 1e6),
        ("stores", TokenUsage(input_tokens=10, cached_tokens=8, cache_write_tokens=8), 13 / 1e6),
        ("stores", TokenUsage(input_tokens=100, cache_write_tokens=200, cache_write_1h_tokens=300), 400 / 1e6),
        ("gpt-5", TokenUsage(input_tokens=100, cache_write_tokens=60, cache_write_1h_tokens=60), 100 / 1e6),
        ("longer", TokenUsage(input_tokens=1000, cached_tokens=500, output_tokens=10), 1020 / 1e6),
        ("longer", TokenUsage(input_tokens=1001, cached_tokens=501, output_tokens=10), (1500 + 501 + 100) / 1e6),
        ("unknown", TokenUsage(input_tokens=5), None),
    ],
)
def test_costs(model: str, usage: TokenUsage, cost: float | None):
    assert price(model, usage, TABLE) == (None if cost is None else pytest.approx(cost))


def test_our_prices_are_dated_and_plausible():
    table = load_prices()
    assert table.noted is not None
    for entry in table.models.values():
        assert 0 < entry.input < entry.output
        assert entry.cached is None or 0 < entry.cached < entry.input
        assert entry.cache_write is None or entry.input < entry.cache_write < (entry.cache_write_1h or entry.output)
        assert entry.long is None or entry.dearest == entry.long.dearest


@pytest.mark.parametrize(("model", "most"), [("stores", (4.0, 9.0)), ("longer", (4.0, 10.0)), ("gpt-5", (1.0, 10.0))])
def test_the_most_that_a_token_can_cost(model: str, most: tuple[float, float]):
    assert TABLE.models[model].dearest == most


def test_a_dated_model_with_a_price_of_its_own_keeps_it():
    models = load_prices().models
    assert find_price("gpt-4o-2024-05-13", models) != find_price("gpt-4o-2024-08-06", models) == models["gpt-4o"]


def test_a_file_of_the_user_goes_first(tmp_path: Path):
    path = tmp_path / "prices.toml"
    path.write_text('[models]\n"gpt-5" = { input = 0.0, output = 0.0 }\n"mine" = { input = 1, output = 2.5 }\n')
    table = load_prices(path)
    usage = TokenUsage(input_tokens=1_000_000)
    assert price("gpt-5", usage, table) == 0.0
    assert price("mine", usage, table) == 1.0
    assert price("gpt-4o", usage, table) == price("gpt-4o", usage, load_prices())
    assert table.label == f"prices.toml, Seatrial {load_prices().noted}"
    path.write_text(f"noted = 2030-02-03\n{path.read_text()}")
    assert load_prices(path).label.startswith("prices.toml 2030-02-03, ")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("models = 3", "models"),
        ("x =", "cannot be read"),
        ("[models]\nm = { input = -1.0, output = 1.0 }", "models.m.input"),
        ("[models]\nm = { input = 1.0 }", "models.m.output"),
        ("[models]\nm = { input = 1.0, output = 1.0, above = 5 }", "models.m: .*go together"),
    ],
)
def test_files_that_are_no_price_lists(tmp_path: Path, text: str, complaint: str):
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=complaint):
        load_prices(path)
    with pytest.raises(UsageError, match="cannot be read"):
        load_prices(tmp_path / "none.toml")
