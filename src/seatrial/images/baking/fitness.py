"""Why the program of a baked tree does not start in an image, as far as its end tells."""

_OWN_BUILD = "or bring a build of your own with --agent-layer"
_OTHER_MACHINE = "the image is for another architecture than this machine; use one that is made for it"
# What programs and loaders say, and what it means.
_TELLING = {
    "GLIBC": f"the image's C library is too old for it; use a newer image, {_OWN_BUILD}",
    "Exec format error": _OTHER_MACHINE,
    "cannot execute binary file": _OTHER_MACHINE,
}
_LAUNCHER = "cannot start in this image"
_SIGNALS = {
    4: "it uses an instruction that this processor does not have",
    11: "it crashed",
    31: "a system call is refused",
}
_NOT_STARTED = (126, 127)


def why_unfit(exit_code: int | None, stderr: str) -> str:
    """What kept a program from starting, and what to do about it, as the end of a sentence."""
    lines = stderr.strip().splitlines()
    if _LAUNCHER in stderr:
        return f"{lines[-1]}; use an image that has it, {_OWN_BUILD}"
    if told := next((meaning for words, meaning in _TELLING.items() if words in stderr), None):
        return told
    if exit_code in _NOT_STARTED and not lines:
        return "the image has no /bin/sh, which its launcher needs; use an image with a shell"
    return f"{_ending(exit_code)}: {lines[-1]}" if lines else f"{_ending(exit_code)}, silently"


def _ending(exit_code: int | None) -> str:
    if exit_code is None:
        return "it did not end in time"
    if exit_code >= 0:
        return f"it ended with exit code {exit_code}"
    return f"it was ended by signal {-exit_code} ({_SIGNALS.get(-exit_code, 'from outside')})"
