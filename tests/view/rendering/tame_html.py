"""Whether some HTML is tame: only elements and attributes that our own code writes, and addresses that run nothing."""

from html.parser import HTMLParser

ELEMENTS = set(
    "a blockquote br caption code del details div em h3 h4 h5 h6 hr iframe img ins li ol p pre s section span strong "
    "summary table tbody td th thead tr ul".split()
)
ATTRIBUTES = set(
    "alt aria-label class colspan href loading open rel role sandbox scope src start tabindex title".split()
)
_WITHOUT_END = {"br", "hr", "img"}


class TameReader(HTMLParser):
    """Reads HTML as a browser would, and notes whatever is not tame or not well nested."""

    def __init__(self) -> None:
        super().__init__()
        self.troubles: list[str] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ELEMENTS:
            self.troubles.append(f"<{tag}>")
        for name, value in attrs:
            if name not in ATTRIBUTES:
                self.troubles.append(f"<{tag} {name}>")
            if name in ("href", "src"):
                self.addresses.append(value or "")
        if tag not in _WITHOUT_END:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in _WITHOUT_END and (not self.open or self.open.pop() != tag):
            self.troubles.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_comment(self, data: str) -> None:
        self.troubles.append(f"<!--{data}")

    def handle_decl(self, decl: str) -> None:
        self.troubles.append(f"<!{decl}")

    def handle_pi(self, data: str) -> None:
        self.troubles.append(f"<?{data}")


def check_tame(html: str, *expected_addresses: str) -> str:
    """The words of some HTML, which is tame and leads only to other machines by links, or where it is expected to."""
    reader = TameReader()
    reader.feed(html)
    reader.close()
    assert reader.troubles == []
    assert reader.open == []
    strange = [
        address
        for address in reader.addresses
        if address not in expected_addresses and not address.startswith(("https://", "http://", "data:image/"))
    ]
    assert strange == []
    return "".join(reader.words)
