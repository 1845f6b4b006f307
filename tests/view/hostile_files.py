"""Files of somebody who would like to run something in a reviewer's browser, or have it tell somebody else of it."""

import base64
import json
from pathlib import Path

ELSEWHERE = "http://evil.example"
_SCRIPT = f"<script>alert('run');fetch('{ELSEWHERE}/fetched')</script>"
_PICTURE = f"<img src='{ELSEWHERE}/picture.png' onerror=\"alert('run')\"/>"

HOSTILE_FILES = {
    "report.md": f"# Report\n{_SCRIPT}\n{_PICTURE}\n[x](javascript:alert('run')) ![x]({ELSEWHERE}/x.png)\n\n"
    f'[y]: {ELSEWHERE} "onmouseover=alert(1)"\n[y] <a href="javascript:alert(1)">z</a> <svg onload=alert(1)>',
    "drawing.svg": "<svg xmlns='http://www.w3.org/2000/svg' width='90' height='40' onload=\"alert('run')\">"
    f"<script>alert('run')</script><image href='{ELSEWHERE}/i.png'/><foreignObject>{_PICTURE}</foreignObject>"
    "<rect width='90' height='40'/></svg>",
    "page.html": f"<html><head><link rel='stylesheet' href='{ELSEWHERE}/style.css'>"
    f"<meta http-equiv='refresh' content='0;url={ELSEWHERE}/away'></head><body onload=\"alert('run')\">"
    f"{_SCRIPT}{_PICTURE}"
    f"<iframe src='{ELSEWHERE}/frame'></iframe><form action='{ELSEWHERE}'><button autofocus>go</button></form>"
    "<h1>drawn all the same</h1></body></html>",
    "book.ipynb": json.dumps(
        {
            "nbformat": 4,
            "cells": [
                {"cell_type": "markdown", "source": _SCRIPT + _PICTURE},
                {
                    "cell_type": "code",
                    "source": _SCRIPT,
                    "outputs": [
                        {"output_type": "display_data", "data": {"text/html": _SCRIPT + _PICTURE}},
                        {"output_type": "display_data", "data": {"application/javascript": "alert('run')"}},
                        {
                            "output_type": "display_data",
                            "data": {"image/png": base64.b64encode(b"<svg onload=alert('run')>").decode()},
                        },
                    ],
                },
            ],
        }
    ),
    "table.csv": f'"{_SCRIPT}",b\n"{_PICTURE.replace(chr(34), chr(34) * 2)}",=HYPERLINK("javascript:alert(1)")\n',
    "values.json": json.dumps({_SCRIPT: _PICTURE, "constructor": {"__proto__": [_SCRIPT]}}),
    "solve.py": f"# {_SCRIPT}\n'''{_PICTURE}'''\n",
    "log.txt": f"\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07 {_SCRIPT}",
    "picture.png": f"\x89PNG\r\n\x1a\n{_SCRIPT}",
    "document.pdf": "%PDF-1.4\n1 0 obj<</Type/Catalog/OpenAction<</S/JavaScript/JS(app.alert\\(1\\))>>>>endobj\n%%EOF",
    "<img src=x onerror=alert(1)>.txt": "an odd name",
}


def write_hostile_files(folder: Path) -> None:
    """All of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in HOSTILE_FILES.items():
        (folder / name).write_bytes(content.encode("latin-1" if name.endswith(".png") else "utf-8"))
