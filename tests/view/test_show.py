"""Every renderer on bytes that strangers chose: it never raises, and what comes out is bounded and tame."""

import base64
import io
import json
import tarfile
import zipfile

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.untrusted.files import BoundedContent, bounded
from seatrial.view import documents
from seatrial.view.content import RawAddress
from seatrial.view.documents import show_markdown
from seatrial.view.show import show_file
from tests.view.rendering.tame_html import check_tame

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SUFFIXES = (
    ".json .jsonl .csv .tsv .md .py .c .yaml .toml .xml .html .svg .ipynb .txt .log .zip .xlsx .tar .tar.gz .tar.bz2 "
    ".tar.xz .tar.zst .bin .pdf .png .sh .diff .js .unknown"
).split()
PIECES = st.sampled_from(
    [
        b"<script>alert(1)</script>", b'" onerror="alert(1)', b"<img src=x onerror=alert(1)>", b"</pre></code>",
        b"&lt;",
        b"[x](javascript:alert(1))", b"![x](http://evil/x.png)", b"<!--", b"]]>", b"\x1b[31m", b"\x1b]8;;http://evil\x07",
        b"\0", b"\xff\xfe", b"\r", b"\n", b"\t", b'{"a": [', b"}", b'"cells": [{"cell_type": "code", "source": ["',
        b",",
        b"PK\x03\x04", b"PK\x05\x06", b"%PDF-1.4", b"\x89PNG\r\n\x1a\n", b"\x1f\x8b\x08\0", b"BZh9", b"\xfd7zXZ\0",
        b"\x28\xb5\x2f\xfd", b"ustar", b"|a|b|\n|-|-|\n", b"```html\n", b"> ", b"1. ", "\u202e".encode(), b"&amp;",
    ]
)  # fmt: skip
STRANGE = st.one_of(st.binary(max_size=300), st.lists(PIECES | st.binary(max_size=8), max_size=30).map(b"".join))
RAW = RawAddress("/raw")


@given(st.sampled_from(SUFFIXES), STRANGE, st.integers(16, 400), st.sampled_from([RAW, None]))
@settings(max_examples=150, deadline=None)
def test_nothing_of_a_stranger_gets_through(suffix, content, limit, raw):
    shown = show_file(f"<b>{suffix}", bounded(content, limit), raw)
    check_tame(shown.html, RAW.href)
    assert len(shown.html) < 40_000


@given(
    st.recursive(
        st.none() | st.floats() | st.text() | st.integers(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
    )
)
@settings(max_examples=25, deadline=None)
def test_any_value_is_shown_as_a_tree_or_as_text(value):
    content = json.dumps(value).encode()
    for name in ("a.json", "a.jsonl", "a.ipynb"):
        check_tame(show_file(name, bounded(content)).html)


def text_of(name: str, content: bytes | str, raw: RawAddress | None = RAW) -> str:
    data = content.encode() if isinstance(content, str) else content
    return check_tame(show_file(name, bounded(data), raw).html, RAW.href)


def note_of(name: str, content: bytes | str) -> str:
    return show_file(name, bounded(content.encode() if isinstance(content, str) else content), RAW).note


def test_json_keeps_numbers_and_doubled_keys_as_they_were_written():
    words = text_of("a.json", '{"n": 12345678901234567890123, "f": 1.500, "n": null, "deep": {"x": ["<b>"]}}')
    assert "12345678901234567890123" in words
    assert "1.500" in words
    assert words.count("n: ") == 4  # twice in the summary, twice in the tree
    assert "<b>" in words


def test_broken_json_is_text_and_says_where_it_breaks():
    assert note_of("a.json", '{"a": 1,\n "b": nan}').startswith("shown as text: not JSON")
    assert "(line 2, column" in note_of("a.json", '{"a": 1,\n "b": nan}')
    assert text_of("a.json", '{"a": nan}') == '{"a": nan}'


def test_json_of_a_hundred_thousand_values_is_cut():
    shown = show_file("a.json", bounded(json.dumps([0] * 100_000).encode(), 2**20))
    assert "… and more, which the raw file has" in shown.html
    assert len(shown.html) < 500_000


def test_json_lines_of_the_beginning_and_the_end():
    lines = b"".join(b'{"number": %d}\n' % number for number in range(1_000))
    shown = show_file("calls.jsonl", bounded(lines + b"{broken\n", 400))
    words = check_tame(shown.html)
    assert "number: 0" in words
    assert "not JSON" in words
    assert "number: 500" not in words
    assert "bytes between are left out" in shown.note


def test_rows_that_do_not_fit_the_header_are_marked():
    shown = show_file("a.csv", bounded(b'a,b\n1,2\n3\n"x,y",<b>\n'))
    assert shown.html.count('<tr class="odd">') == 1
    assert shown.note == "3 rows, 1 of them with more or fewer fields than the header's 2"
    assert "x,y" in check_tame(shown.html)
    assert note_of("a.csv", 'a,b\n"').startswith("shown as text")
    assert note_of("a.tsv", "a\tb\n" + "1\t2\n" * 300) == "the first 200 rows"


def test_markdown_fetches_nothing_and_shows_where_links_lead():
    html = show_file(
        "a.md",
        bounded(
            b"# Title\n[out](https://example.org/?a=1&b=2) [in](data.csv) [bad](javascript:alert(1)) [bad](//evil/x)\n"
            b"![plot](http://evil/plot.png) <b onclick=alert(1)>\n\n|a|b|\n|:-|-:|\n|1|2|\n\n```python\nx = 1\n```\n"
        ),
    ).html
    words = check_tame(html)
    assert "<h3>Title</h3>" in html
    assert '<a href="https://example.org/?a=1&amp;b=2" rel="noopener noreferrer">out</a>' in html
    assert "(https://example.org/?a=1&b=2)" in words
    assert '<span class="link">in</span>' in html
    assert "[picture: plot, http://evil/plot.png]" in words
    assert html.count("<a ") == 1
    assert '<span class="mi">1</span>' in html


@pytest.mark.parametrize(
    "text", ["[" * 15_000, "*a " * 9_000, "> " * 30_000, "`" * 60_000, "a" * 70_000, "- " * 30_000]
)
def test_odd_markdown_gets_no_longer(text):
    words = text_of("a.md", text)
    assert len(words) <= len(text) + 100


def test_markdown_that_uses_one_long_address_everywhere_is_shown_as_it_is_written():
    text = f"[a]: <{'x' * 9_000}>\n\n{'[a] ' * 9_000}"
    page, note = show_markdown(text)
    assert len(page) < 2 * len(text)
    assert note == "shown as it is written: its links have more than 262,144 characters"


def test_source_is_marked_by_classes_alone():
    html = show_file("solve.py", bounded(b"import os  # <script>\n")).html
    check_tame(html)
    assert '<span class="kn">import</span>' in html
    assert "style=" not in html
    assert '<span class="n' not in show_file("solve.py", bounded(b"x = 1\n" * 20_000)).html  # too long for marks
    assert text_of("a.unknown", "plain <b>").strip() == "1plain <b>"


def test_text_loses_the_colours_of_terminals_and_no_words():
    assert (
        text_of("a.log", "\x1b[1;31mred\x1b[0m \x1b]8;;http://evil\x07link\x1b]8;;\x07\rhidden\u202e")
        == "red link hidden "
    )


def test_pictures_come_from_their_address_or_are_in_the_page():
    assert 'src="/raw"' in show_file("<a>.png", bounded(PNG), RAW).html
    assert f'src="data:image/png;base64,{base64.b64encode(PNG).decode()}"' in show_file("a.png", bounded(PNG)).html
    assert show_file("picture.txt", bounded(PNG), RAW).kind == "image"
    assert (
        show_file("a.png", BoundedContent(PNG, b"", 10**7)).html
        == "<p>The picture is too large to be a part of this page.</p>"
    )


SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script></svg>'
PAGE = b"<html><body onload=alert(1)><script>alert(1)</script></body></html>"


def test_drawings_and_pages_are_never_a_part_of_ours():
    exported = RawAddress("raw/a", "exported")
    assert '<img class="drawn-file" alt="a.svg" src="/raw">' in show_file("a.svg", bounded(SVG), RAW).html
    assert 'src="data:image/svg+xml;base64,' in show_file("a.svg", bounded(SVG), exported).html
    assert '<iframe class="frame" sandbox="" title="a.html" src="/raw">' in show_file("a.html", bounded(PAGE), RAW).html
    for raw in (exported, None):
        assert "iframe" not in show_file("a.html", bounded(PAGE), raw).html
        assert "iframe" not in show_file("a.pdf", bounded(b"%PDF-1.4"), raw).html
    document = show_file("a.pdf", bounded(b"%PDF-1.4"), RAW).html
    assert document.startswith('<p><a href="/raw">Open the document</a></p><details><summary>')


def notebook(*outputs: object, **cell: object) -> str:
    code = {"cell_type": "code", "source": ["import os\n", "x"], "outputs": [*outputs], **cell}
    words = {"cell_type": "markdown", "source": "# Study\n<script>alert(1)</script>"}
    return json.dumps({"nbformat": 4, "cells": [words, code, {"cell_type": "raw", "source": "as it is"}, 3]})


def test_notebooks_show_sources_texts_and_pictures():
    data = {"image/png": base64.b64encode(PNG).decode(), "text/plain": ["<Fig", "ure>"], "text/html": "<b onclick=x>"}
    book = notebook({"output_type": "display_data", "data": data}, {"output_type": "stream", "text": "said"})
    html = show_file("a.ipynb", bounded(book.encode())).html
    words = check_tame(html)
    for expected in ("Study", "said", "<Figure>", "<b onclick=x>", "text/html, as text", "as it is", "<script>"):
        assert expected in words
    assert '<span class="kn">import</span>' in html
    assert html.count("<img") == 1


def test_cells_of_a_large_notebook_are_shown_as_they_are_written_once_enough_are_laid_out(monkeypatch):
    monkeypatch.setattr(documents, "_MAX_LAID_OUT", 20)
    monkeypatch.setattr(documents, "_MAX_PUT_OUT", 60)
    said = {"cell_type": "code", "source": "x = 1", "outputs": [{"output_type": "stream", "text": "<" * 40}] * 2}
    cells = [{"cell_type": "markdown", "source": "**loud**"}, said, {"cell_type": "markdown", "source": "**later**"}]
    shown = show_file("a.ipynb", bounded(json.dumps({"cells": [*cells, said]}).encode()))
    assert "<strong>loud</strong>" in shown.html
    assert "**later**" in shown.html
    assert shown.html.count("&lt;" * 40) == 1
    assert shown.html.count('<span class="mi">1</span>') == 1
    assert shown.html.count("x = 1") == 1
    assert shown.note == (
        "4 cells; later cells are shown as they are written: there is much in this notebook; "
        "of what cells put out, the rest is left out"
    )


@pytest.mark.parametrize(
    "output",
    [
        {"output_type": "display_data", "data": {"image/png": base64.b64encode(SVG).decode()}},
        {"output_type": "display_data", "data": {"image/svg+xml": SVG.decode()}},
        {"output_type": "display_data", "data": {"image/png": "no base64", "application/x": {"a": 1}}},
        {"output_type": "display_data", "data": 7},
        {"output_type": "error", "traceback": ["\x1b[31mTrace<b>\x1b[0m"]},
        {"output_type": "error", "traceback": 3},
        {"output_type": 3},
        7,
    ],
)
def test_no_output_of_a_notebook_is_drawn_that_is_no_picture(output):
    assert "<img" not in show_file("a.ipynb", bounded(notebook(output).encode())).html
    text_of("a.ipynb", notebook(output))


def packed(kind: str) -> bytes:
    file = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("../<b>.txt", b"x" * 1_000)
            archive.writestr("xl/workbook.xml", b"")
        return file.getvalue()
    with tarfile.open(fileobj=file, mode="w" if kind == "zst" else f"w:{kind}") as tar:  # type: ignore[call-overload]
        member = tarfile.TarInfo("../<b>.txt")
        member.size = 1_000
        tar.addfile(member, io.BytesIO(b"x" * 1_000))
    return zstandard.compress(file.getvalue()) if kind == "zst" else file.getvalue()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.xlsx", "zip"), ("a.tar", ""), ("a.tgz", "gz"), ("a.tar.bz2", "bz2"), ("a.tar.xz", "xz"), ("a.tar.zst", "zst")],
)
def test_archives_are_listed_and_not_unpacked(name, kind):
    words = text_of(name, packed(kind))
    assert "../<b>.txt1,000" in words


def test_a_large_archive_is_listed_from_its_end():
    content = packed("zip")
    whole = b"PK\x03\x04" + b"\0" * 10**6 + content[4:]
    shown = show_file("a.zip", bounded(whole, 4_000))
    assert "xl/workbook.xml" in shown.html


def test_an_archive_that_unpacks_to_too_much_is_read_no_further():
    bomb = zstandard.compress(packed("") + b"\0" * 50_000_000)
    assert "the first 1 entry" in note_of("a.tar.zst", bomb)


def test_what_nobody_can_read_is_shown_as_bytes():
    shown = show_file("a.sqlite", bounded(b"SQLite format 3\0" + bytes(range(256)) * 100))
    assert shown.kind == "binary"
    assert shown.html.startswith('<pre class="bytes">00000000  53 51 4c 69')
    assert shown.html.count("\n") == 63
    assert "cannot be read as zip" in note_of("a.zip", b"PK\x03\x04 and nothing more\0\0")
