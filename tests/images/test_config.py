"""Which of several images suits a machine."""

from dataclasses import dataclass

import pytest

from seatrial.errors import UsageError
from seatrial.images.config import Platform, choose_platform, host_platform, parse_platform


@dataclass(frozen=True)
class Offer:
    platform: Platform | None


def offers(*texts: str) -> list[Offer]:
    return [Offer(parse_platform(text)) for text in texts] + [Offer(None), Offer(Platform("unknown", "unknown"))]


@pytest.mark.parametrize(
    ("there", "wanted", "chosen"),
    [
        (["linux/arm64/v8", "linux/amd64"], "linux/amd64", "linux/amd64"),
        (["linux/arm64/v8"], "linux/arm64", "linux/arm64/v8"),
        (["linux/arm64"], "linux/arm64/v8", "linux/arm64"),
        (["linux/arm/v5", "linux/arm/v7"], "linux/arm", "linux/arm/v7"),
        (["linux/arm/v5", "linux/arm/v6"], "linux/arm/v6", "linux/arm/v6"),
        (["linux/arm/v6"], "linux/arm/v5", None),
        (["linux/amd64/v3", "linux/amd64"], "linux/amd64", "linux/amd64"),
        (["windows/amd64"], "linux/amd64", None),
        ([], "linux/amd64", None),
    ],
)
def test_the_choice(there, wanted, chosen):
    found = choose_platform(offers(*there), parse_platform(wanted))
    assert (str(found.platform) if found else None) == chosen


@pytest.mark.parametrize(
    ("text", "means"), [("aarch64", "linux/arm64"), ("linux/x86_64", "linux/amd64"), ("ARM64/v8", "linux/arm64/v8")]
)
def test_other_words_for_the_same(text, means):
    assert str(parse_platform(text)) == means


@pytest.mark.parametrize("text", ["", "/", "linux/", "a/b/c", "linux/a/b/c", "linux/amd 64"])
def test_what_is_no_platform(text):
    with pytest.raises(UsageError, match="not a platform"):
        parse_platform(text)


def test_this_machine_has_one():
    assert host_platform().os == "linux"
    assert "_" not in host_platform().architecture
