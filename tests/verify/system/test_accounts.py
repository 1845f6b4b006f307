"""Accounts of the agent's making beside those that the verifier works as."""

from hypothesis import given
from hypothesis import strategies as st

from seatrial.verify.system.accounts import keep_accounts

IMAGE = "root:x:0:0::/root:/bin/sh\nal:x:1000:1000::/home/al:/bin/sh\n"
USERS = frozenset({"root", "al"})


def test_new_accounts_and_passwords_are_the_agents():
    assert keep_accounts(IMAGE + "new:x:1001:1001::/home/new:/bin/sh\n", IMAGE, USERS) is None
    assert keep_accounts(IMAGE.replace("al:x", "al:hash"), IMAGE, USERS) is None


def test_another_home_or_shell_is_not():
    moved = IMAGE.replace("/home/al", "/app/home") + "new:x:1001:1001::/:/bin/sh\n"
    assert keep_accounts(moved, IMAGE, USERS) == IMAGE + "new:x:1001:1001::/:/bin/sh\n"
    assert keep_accounts(moved, IMAGE, {"root"}) is None
    assert keep_accounts(moved, IMAGE, {"1000"}) is not None


def test_nobody_stands_in_front_of_root():
    assert keep_accounts(f"x:x:0:0::/app:/bin/sh\n{IMAGE}", IMAGE, USERS) == f"{IMAGE}x:x:0:0::/app:/bin/sh\n"


@given(st.text(alphabet="rot:x0/al\n", max_size=80))
def test_whatever_it_says_a_search_leads_to_the_images_accounts(text):
    lines = (keep_accounts(text, IMAGE, USERS) or text).splitlines()
    by_name = next(line for line in lines if line.startswith("root:"))
    assert by_name.split(":")[2:] == ["0", "0", "", "/root", "/bin/sh"]
