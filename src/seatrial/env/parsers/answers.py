"""Where answers usually stand in a text: in a box, after a row of hashes, after the thinking."""

BOX = r"\boxed{"
HASHES = "####"
THOUGHT_END = "</think>"


def extract_boxed_answer(text: str, strict: bool = False) -> str:  # noqa: FBT001, FBT002 - as authors call it
    r"""What is in the last `\boxed{…}`; without a whole one the text itself, or nothing when `strict`."""
    at = text.rfind(BOX)
    begin = at + len(BOX)
    end = _closing_brace(text, begin) if at >= 0 else None
    if end is None:
        return "" if strict else text
    return text[begin:end]


def _closing_brace(text: str, begin: int) -> int | None:
    depth = 1
    for at in range(begin, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at
    return None


def extract_hash_answer(text: str) -> str:
    """What stands between the first `####` and the next, or the end; the text itself without any."""
    parts = text.split(HASHES, 2)
    return parts[1].strip() if len(parts) > 1 else text


def strip_non_numeric(text: str) -> str:
    """The digits and points of a text."""
    return "".join(each for each in text if each.isdigit() or each == ".")


def strip_think(text: str) -> str:
    """What comes after the last `</think>`, or the whole text, without white space around it."""
    return text.rpartition(THOUGHT_END)[2].strip()
