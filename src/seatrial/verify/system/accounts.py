"""Accounts are the agent's to make; those that the verifier works as keep the home and the shell of the image.

Settings are read from a home and commands run by a shell, so whoever moves them moves the verifier.
"""

from collections.abc import Collection, Sequence

ACCOUNTS = "/etc/passwd"
_FIELDS = 7


def keep_accounts(text: str, original: str, users: Collection[str]) -> str | None:
    """The agent's list of accounts with those of some users (names or numbers) as in the image; None if they are so."""
    lines, known = text.splitlines(), original.splitlines()
    kept = [line for line in known if _matches(line, users)]
    if all(_found(line, lines) for line in kept):
        return None
    names = {line.partition(":")[0] for line in kept}
    rest = [line for line in lines if line.partition(":")[0] not in names]
    return "".join(f"{line}\n" for line in (*kept, *rest))


def _matches(line: str, users: Collection[str]) -> bool:
    fields = line.split(":")
    return len(fields) == _FIELDS and (fields[0] in users or fields[2] in users)


def _found(line: str, lines: Sequence[str]) -> bool:
    """Whether a search by name and one by number both lead to this account, unchanged but for its password."""
    fields = line.split(":")
    entries = [entry.split(":") for entry in lines]
    by_name = next((entry for entry in entries if entry[0] == fields[0]), None)
    by_number = next((entry for entry in entries if len(entry) > 2 and entry[2] == fields[2]), None)
    return by_name is not None and by_name is by_number and by_name[2:] == fields[2:]
