"""What an added file may stand in front of: tools that look for the same name in several places take the first.

Programs, libraries and modules are known by name (`facts.py`). This is about everything else: headers, objects and
helpers of compilers, descriptions of packages, data below a prefix that comes first.
"""

import re

_LOCAL = re.compile(r"/usr/local/((?:include|lib|lib64|libexec|share)/.+)")
# Where compilers look for their parts, and for headers, before they look anywhere else.
_COMPILER = re.compile(r"/usr/(?:local/)?(?:lib|libexec)/gcc(?:-cross)?/([^/]+)/[^/]+/((?:include(?:-fixed)?/)?)(.+)")
_MACHINE = re.compile(r"/usr/(?:local/)?([\w]+-linux-[\w]+)/(bin|include|lib)/(.+)")
_HEADER = re.compile(r"/usr/include/[\w]+-linux-[\w]+/(.+)")
_LIBRARY = re.compile(r"/usr/(?:local/)?lib/(.+)")
# Nobody runs or loads what people read.
_TO_READ = re.compile(r"/usr/local/share/(?:doc|man|info|locale|licenses|applications|icons)/.*")


def covered_by(path: str) -> tuple[str, ...]:
    """The paths whose files an added one would be taken for, if the image has any of them."""
    if _TO_READ.fullmatch(path):
        return ()
    found: list[str] = []
    if match := _LOCAL.fullmatch(path):
        found += [f"/usr/{match[1]}", f"/{match[1]}"]
    if match := _COMPILER.fullmatch(path):
        machine, is_header, name = match.groups()
        folders = ("include", f"include/{machine}") if is_header else ("bin", "lib", f"lib/{machine}")
        found += [f"/usr/{folder}/{name}" for folder in folders]
    if match := _MACHINE.fullmatch(path):
        machine, folder, name = match.groups()
        found += [f"/usr/{folder}/{name}", f"/usr/{folder}/{machine}/{name}"]
    if match := _HEADER.fullmatch(path):
        found.append(f"/usr/include/{match[1]}")
    if match := _LIBRARY.fullmatch(path):
        found += _other_libraries(match[1])
    return tuple(other for other in dict.fromkeys(found) if other != path)


def _other_libraries(inside: str) -> list[str]:
    """The same file in folders of libraries for one kind of machine, or for all."""
    first, _, rest = inside.partition("/")
    if rest and re.fullmatch(r"\w+-linux-\w+", first):
        return [f"/usr/lib/{rest}", f"/lib/{inside}"]
    return [f"/lib/{inside}"] if rest else [f"/lib/{inside}", f"/usr/lib/{inside}"]
