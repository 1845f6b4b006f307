"""How loud the library is, and short ways to print things, under the names that environments call."""

import functools
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

_LOGGERS = ("seatrial", "verifiers")
_UNITS = ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))


def setup_logging(level: str | None = "INFO", log_format: str | None = None, **_no_effect: Any) -> None:
    """Let Seatrial and environments log to stderr from this level on, unless something handles their records."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.setLevel((level or "WARNING").upper())
        if not logger.hasHandlers():
            handler = logging.StreamHandler(sys.stderr)
            handler.setFormatter(logging.Formatter(log_format or "%(asctime)s %(levelname)s %(name)s: %(message)s"))
            logger.addHandler(handler)


@contextmanager
def log_level(level: str | int) -> Iterator[None]:
    """Log from this level on, for the length of a block."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(level.upper() if isinstance(level, str) else level)
    try:
        yield
    finally:
        for logger, old in zip(loggers, before, strict=True):
            logger.setLevel(old)


def quiet_verifiers() -> AbstractContextManager[None]:
    """Log warnings and worse only, for the length of a block."""
    return log_level("WARNING")


@functools.cache
def _warn(logger: logging.Logger, msg: str) -> None:
    logger.warning("%s", msg)


def warning_once(logger: logging.Logger, msg: str) -> None:
    """Log a warning, unless that logger had the same one before."""
    _warn(logger, msg)


def truncate(s: str, limit: int = 200) -> str:
    """The beginning of a text, with three dots behind it if there is more."""
    return f"{s[:limit]}..." if len(s) > limit else s


def print_time(time_s: float) -> str:
    """Seconds as people read them: 2d 3h, 5m 10s, 7s, 20ms."""
    for size, unit, part, smaller in _UNITS:
        if time_s >= size:
            whole, rest = divmod(time_s, size)
            return f"{whole:.0f}{unit}" + (f" {rest // part:.0f}{smaller}" if rest >= part else "")
    return f"{time_s:.0f}s" if time_s >= 1 else f"{time_s * 1000:.0f}ms"


def print_prompt_completions_sample(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    errors: Sequence[Any],
    rewards: Sequence[float | None],
    step: int,
    num_samples: int = 1,
) -> None:
    """Print the first rollouts of a training step: what was asked, what was said, and the reward."""
    from rich.console import Console  # noqa: PLC0415 - slow, and only for those who print
    from rich.table import Table  # noqa: PLC0415

    table = Table("Prompt", "Completion", "Reward", title=f"Step {step}", show_lines=True)
    for prompt, completion, error, reward in list(zip(prompts, completions, errors, rewards, strict=False))[
        :num_samples
    ]:
        said = _spoken(completion) + (f"\n\nerror: {error}" if error else "")
        table.add_row(_spoken(prompt), said, "-" if reward is None else f"{reward:.2f}")
    Console().print(table)


def _spoken(messages: Any) -> str:
    if isinstance(messages, str):
        return messages
    return "\n\n".join(f"{each['role']}: {each.get('content') or ''}" for each in messages or [])
