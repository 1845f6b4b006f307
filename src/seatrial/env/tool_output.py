"""What a program wrote, as a message that a model can read: not without words, and not without end."""

MAX_CHARS = 50_000
"""Some 15,000 tokens."""


def readable(stdout: str, stderr: str) -> str:
    """Both streams as one text."""
    parts = [stdout.strip(), f"stderr:\n{stderr.strip()}" if stderr.strip() else ""]
    return shortened("\n".join(part for part in parts if part) or "(no output)")


def shortened(text: str, limit: int = MAX_CHARS) -> str:
    """A text without its middle where it is too long."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"
