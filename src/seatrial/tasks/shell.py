"""A shell script as its simple commands in the order of the text, each with what becomes of its exit status.

It reads what authors of tests write (lists, pipelines, compound commands, functions, here-documents, substitutions) and
executes nothing. A text that is no script gives some commands or none; nothing raises.
"""

import posixpath
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice

_OPERATOR = re.compile(r"\|\||&&|;;&?|;&|\|&|&>>|\d*(?:>>|>\||>&|&>|<&|<>|>|<)|&>|[;&|()\n]")
_HEREDOC = re.compile(r"\d*<<(?!<)(-?)[ \t]*(?=[^\s;&|()<>])")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_QUOTED = re.compile(r"\$'(?P<escaped>(?:[^'\\]|\\.)*)'|'([^']*)'|\$?\"((?:[^\"\\]|\\.)*)\"|\\(.)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{1,4})|([abeEfnrtv\\'\"?]))")
_ESCAPED = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True))
_BLANK = " \t\r"
_ENDS_WORD = frozenset(" \t\r\n;&|()<>")
_CONDITION = frozenset({"if", "elif", "while", "until"})
_WRAPPERS = frozenset({"sudo", "exec", "nohup", "env", "command", "builtin", "nice", "stdbuf", "xvfb-run", "setsid"})
_SHELLS = frozenset({"sh", "bash", "dash", "zsh"})
_MAX_NESTED = 20
_MAX_COMMANDS = 20_000
_MAX_REDIRECTS = 20
_MAX_ARITHMETIC = 300
_MAX_FILLED = 1_000_000


@dataclass(frozen=True, slots=True)
class Token:
    """A word as it is written, an operator, or a redirection with its target, which is a here-document's text."""

    text: str
    line: int
    kind: str = "word"
    target: str = ""


@dataclass(slots=True)
class Command:
    """A simple command: its words without quotes and without assignments in front of them."""

    words: tuple[str, ...]
    line: int
    assigned: dict[str, str] = field(default_factory=dict)
    redirects: tuple[tuple[str, str], ...] = ()
    """Operators and targets; of a here-document, `<<` and its text."""
    depth: int = 0
    """In how many compound commands it lies, functions included."""
    status: str = "plain"
    """`tested` where something decides by its exit status, `ignored` before `|| true`, `lost` in a substitution."""
    piped: bool = False
    """Whether another command of the pipeline follows, and its own exit status counts with `pipefail` only."""
    captured: bool = False
    """Whether its output is the value of something."""
    function: str = ""

    arguments: tuple[str, ...] = ()
    """The words from the name of the program on, without `sudo`, `timeout 60` and the like."""
    program: str = ""
    """The name of what is run."""

    def take_words(self, words: tuple[str, ...]) -> None:
        """Have these words, and what follows from them."""
        self.words = words
        first = 0
        while first < len(words) and (posixpath.basename(words[first]) in _WRAPPERS or words[first] == "timeout"):
            is_timed = words[first] == "timeout"
            first += 1
            while first < len(words) and (words[first].startswith("-") or _ASSIGNMENT.match(words[first])):
                first += 1
            first += is_timed
        self.arguments = words[first:]
        self.program = posixpath.basename(words[first]) if first < len(words) else ""

    @property
    def size(self) -> int:
        """How many characters and words it has, with its here-documents."""
        texts = (*self.words, *self.assigned.values(), *(target for _, target in self.redirects))
        return len(texts) + sum(map(len, texts))


@lru_cache(maxsize=64)
def read_script(text: str) -> tuple[Command, ...]:
    """The commands that a script carries out, those of a function where it is called.

    Thousands of tasks share a few scripts, so the answers are kept, and nobody may change them.
    """
    tokens: list[Token] = []
    with suppress(RecursionError):  # quotes within brackets within quotes, thousands deep
        tokens.extend(_tokens(text.replace("\r\n", "\n")))
    reader = _Reader(tokens, 0)
    with suppress(RecursionError):
        reader.read_list(0, "")
    commands = list(_called(reader.commands, reader.functions, (), iter(range(_MAX_COMMANDS))))
    values = _Values()
    for command in commands:
        values.known |= {name: values.fill(value) for name, value in command.assigned.items()}
        if any("$" in word for word in command.words):
            command.take_words(tuple(values.fill(word) for word in command.words))
        command.redirects = tuple((operator, values.fill(target)) for operator, target in command.redirects)
    return tuple(commands)


def _called(
    commands: list[Command], functions: dict[str, list[Command]], within: tuple[str, ...], visits: Iterator[int]
) -> Iterator[Command]:
    """The commands with the bodies of functions in the place of their calls.

    All levels take from the same `visits`, calls included: functions that call each other without a command of their
    own would take forever otherwise. A long command counts as several where calls repeat it.
    """
    for command, _ in zip(commands, visits, strict=False):
        if within:
            next(islice(visits, extra := command.size // 50, extra), None)
        body = functions.get(command.program) if command.program not in within else None
        if command.function and not within:
            continue
        if body is None or len(within) > _MAX_NESTED:
            yield replace(command, assigned=dict(command.assigned))
            continue
        for inner in _called(body, functions, (*within, command.program), visits):
            inner.depth += command.depth
            inner.piped = inner.piped or command.piped
            inner.captured = inner.captured or command.captured
            inner.status = inner.status if command.status == "plain" else command.status
            yield inner


class _Values:
    """The variables that are known, and how many characters they may still put into words."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self._left = _MAX_FILLED

    def fill(self, text: str) -> str:
        """A word with the variables that are known."""
        return _VARIABLE.sub(self._value, text) if self._left > 0 and "$" in text else text

    def _value(self, found: re.Match[str]) -> str:
        value = self.known.get(found[1] or found[2]) if self._left > 0 else None
        self._left -= 1 if value is None else len(value[:1000]) + 1
        return found[0] if value is None else value[:1000]


def unquote(word: str) -> str:
    """A word without its quotes."""
    if not {"'", '"', "\\"} & set(word):
        return word
    return _QUOTED.sub(_unquoted, word)


def _unquoted(found: re.Match[str]) -> str:
    if found["escaped"]:
        return _ESCAPE.sub(_unescaped, found["escaped"])
    return found[2] or found[3] or found[4] or ""


def _unescaped(found: re.Match[str]) -> str:
    if number := found[1] or found[3]:
        return chr(int(number, 16))
    return chr(int(found[2], 8)) if found[2] else _ESCAPED.get(found[4], found[4])


# Tokens.


def _tokens(text: str, line: int = 1) -> Iterator[Token]:
    position, behind = 0, 0
    """`behind` is where the line ends that is being read, with its here-documents."""
    while position < len(text):
        letter = text[position]
        if letter in _BLANK or text.startswith("\\\n", position):
            line += letter == "\\"
            position += 2 if letter == "\\" else 1
        elif letter == "#":
            position = _index(text, "\n", position)
        elif found := _HEREDOC.match(text, position):
            position = _word_end(text, found.end())
            name = unquote(text[found.end() : position])
            body, behind = _document(text, behind or _index(text, "\n", position) + 1, name, strip=bool(found[1]))
            yield Token("<<", line, "redirect", body)
            line += text.count("\n", found.end(), position)
        elif text.startswith("((", position) and (end := _arithmetic_end(text, position)):
            yield from (Token("((", line), Token(text[position + 2 : end - 2].strip(), line), Token("))", line))
            line += text.count("\n", position, end)
            position = end
        elif found := _OPERATOR.match(text, position):
            position = found.end()
            token, position, line = _operator(text, found[0], position, line)
            yield token
            if token.text == "\n" and behind:
                line += text.count("\n", position, behind)
                position, behind = max(position, behind), 0
        else:
            end = _word_end(text, position)
            yield Token(text[position:end], line)
            line += text.count("\n", position, end)
            position = end


def _operator(text: str, operator: str, position: int, line: int) -> tuple[Token, int, int]:
    if "<" not in operator and ">" not in operator:
        return Token(operator, line, "operator"), position, line + (operator == "\n")
    if text.startswith("<<", position):  # `<<<`
        position += 2
    while position < len(text) and text[position] in _BLANK:
        position += 1
    end = _word_end(text, position)
    token = Token(operator, line, "redirect", unquote(text[position:end]))
    return token, end, line + text.count("\n", position, end)


def _document(text: str, position: int, name: str, *, strip: bool) -> tuple[str, int]:
    start = position
    while position < len(text):
        end = _index(text, "\n", position)
        line = text[position:end]
        if (line.lstrip("\t") if strip else line) == name:
            return text[start:position], end + 1
        position = end + 1
    return text[start:], len(text)


def _arithmetic_end(text: str, position: int) -> int:
    """The index behind the `))` of an arithmetic command, 0 where a subshell within a subshell begins."""
    part = text[position : position + _MAX_ARITHMETIC]
    end = _bracket_end(part, 1)
    return position + end + 1 if part[end - 1 : end + 1] == "))" else 0


def _index(text: str, mark: str, position: int) -> int:
    found = text.find(mark, position)
    return len(text) if found < 0 else found


def _word_end(text: str, position: int) -> int:
    start = position
    while position < len(text):
        letter = text[position]
        if letter == "\\":
            position += 2
        elif letter in "'\"`":
            position = _quote_end(text, position)
        elif letter == "$":
            position = _dollar_end(text, position)
        elif letter == "(" and position > start and text[position - 1] == "=":  # a list as a value
            position = _bracket_end(text, position)
        elif letter in _ENDS_WORD:
            break
        else:
            position += 1
    return max(min(position, len(text)), start + 1)


def _dollar_end(text: str, position: int) -> int:
    """The index behind `$(…)`, `${…}` or `$'…'`, or behind the sign alone."""
    following = text[position + 1 : position + 2]
    if following in ("(", "{"):
        return _bracket_end(text, position + 1)
    if following == "'":
        return _quote_end(text, position + 1, has_escapes=True)
    return position + 1


def _quote_end(text: str, position: int, *, has_escapes: bool = False) -> int:
    """The index behind the quote that ends what begins at a position."""
    quote = text[position]
    position += 1
    while position < len(text) and text[position] != quote:
        if text[position] == "\\" and (has_escapes or quote != "'"):
            position += 2
        elif quote == '"' and text.startswith(("$(", "${"), position):
            position = _bracket_end(text, position + 1)
        else:
            position += 1
    return position + 1


def _bracket_end(text: str, position: int) -> int:
    """The index behind the bracket that closes the one at a position.

    An apostrophe begins a quote even in `"${x:-…}"`, as it does in bash.
    """
    opening, closing = text[position], ")" if text[position] == "(" else "}"
    depth = 1
    position += 1
    while position < len(text) and depth:
        letter = text[position]
        if letter == "\\":
            position += 2
        elif letter in "'\"":
            position = _quote_end(text, position)
        elif letter == "$":
            position = _dollar_end(text, position)
        elif letter == "#" and opening == "(" and text[position - 1] in _ENDS_WORD:  # a comment
            position = _index(text, "\n", position)
        else:
            depth += (letter == opening == "(") - (letter == closing)
            position += 1
    return position


# Commands.


class _Reader:
    """Goes through the tokens once."""

    def __init__(self, tokens: list[Token], nested: int) -> None:
        self._tokens = tokens
        self._nested = nested
        self._next = 0
        self.commands: list[Command] = []
        self.functions: dict[str, list[Command]] = {}

    def _peek(self) -> Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self, *texts: str) -> bool:
        token = self._peek()
        if token is None or token.text not in texts:
            return False
        self._next += 1
        return True

    def read_list(self, depth: int, function: str, *ends: str) -> None:
        """Read up to one of some words, or to the end."""
        while (token := self._peek()) is not None and len(self.commands) < _MAX_COMMANDS:
            if token.text in ends:
                return
            if token.kind != "word" and token.text != "(":
                self._next += 1
                continue
            self._and_or(depth, function)

    def _and_or(self, depth: int, function: str) -> None:
        """Commands joined by `&&` and `||`: the exit status of all but the last decides what comes next."""
        links: list[tuple[int, str]] = []
        start = len(self.commands)
        while True:
            self._pipeline(depth, function)
            token = self._peek()
            operator = token.text if token and token.text in ("&&", "||") else ""
            links.append((len(self.commands), operator))
            if not operator:
                break
            self._next += 1
            while self._take("\n"):
                pass
        for index, (end, operator) in enumerate(links[:-1]):
            ignored = operator == "||" and self._is_nothing(links[index][0], links[index + 1][0])
            status = "ignored" if ignored else "tested"
            for command in self.commands[start:end]:
                if command.status == "plain":
                    command.status = status
            start = end

    def _is_nothing(self, start: int, end: int) -> bool:
        return end - start == 1 and self.commands[start].words in (("true",), (":",))

    def _pipeline(self, depth: int, function: str) -> None:
        negated = False
        while self._take("!", "time"):
            negated = True
        start = len(self.commands)
        while True:
            before = len(self.commands)
            self._command(depth, function)
            if not self._take("|", "|&"):
                break
            while self._take("\n"):
                pass
            for command in self.commands[before:]:
                command.piped = True
        if negated:
            self._mark(start, "tested")

    def _mark(self, start: int, status: str) -> None:
        for command in self.commands[start:]:
            command.status = status if command.status == "plain" else command.status

    def _command(self, depth: int, function: str) -> None:
        token = self._peek()
        if token is None or self._nested > _MAX_NESTED:
            self._next = len(self._tokens)
            return
        self._nested += 1
        if token.text in _CONDITION:
            self._condition(depth, function)
        elif token.text in ("for", "select"):
            self._skip_to("do", "{")
            self._body(depth + 1, function, "done", "}")
        elif token.text == "case":
            self._case(depth, function)
        elif token.text == "{" or (token.text == "(" and token.kind == "operator"):
            self._next += 1
            self._body(depth + (token.text == "("), function, "}" if token.text == "{" else ")")
        elif name := self._function_name():
            self._function(name)
        else:
            self._simple(depth, function)
        self._nested -= 1

    def _body(self, depth: int, function: str, *ends: str) -> None:
        start = len(self.commands)
        self.read_list(depth, function, *ends)
        self._take(*ends)
        redirects = self._redirects()
        for command in self.commands[start:]:
            command.redirects += redirects

    def _redirects(self) -> tuple[tuple[str, str], ...]:
        found: list[tuple[str, str]] = []
        while (token := self._peek()) is not None and token.kind == "redirect":
            found.append((token.text, token.target))
            self._next += 1
        return tuple(found[:_MAX_REDIRECTS])

    def _condition(self, depth: int, function: str) -> None:
        """`if`, `while` and `until` with all that belongs to them."""
        is_loop = self._take("while", "until")
        if not is_loop:
            self._next += 1
        while True:
            start = len(self.commands)
            self.read_list(depth, function, "then", "do", "fi", "done")
            self._mark(start, "tested")
            self._next += 1
            start = len(self.commands)
            self._body(depth + 1, function, "elif", "else", "fi", "done")
            last = self._tokens[min(self._next, len(self._tokens)) - 1].text
            if last == "else":
                self._body(depth + 1, function, "fi")
            if last != "elif" or self._peek() is None:
                return

    def _case(self, depth: int, function: str) -> None:
        self._skip_to("in")
        while (token := self._peek()) is not None:
            if self._take("esac"):
                return
            if token.text in ("\n", ";;"):
                self._next += 1
                continue
            self._skip_to(")")
            self.read_list(depth + 1, function, ";;", ";&", ";;&", "esac")

    def _skip_to(self, *texts: str) -> None:
        while (token := self._peek()) is not None:
            self._next += 1
            if token.text in texts:
                return

    def _function_name(self) -> str:
        """The name of a function whose definition begins here; what follows is its body then."""
        texts = [token.text for token in self._tokens[self._next : self._next + 5]]
        if texts[:1] == ["function"] and len(texts) > 2:
            self._next += 2
            name = texts[1]
            self._take("(")
            self._take(")")
        elif texts[1:3] == ["(", ")"]:
            self._next += 3
            name = texts[0]
        else:
            return ""
        while self._take("\n"):
            pass
        return name

    def _function(self, name: str) -> None:
        inside = _Reader(self._tokens, self._nested)
        inside._next = self._next
        inside._command(1, name)
        self._next = inside._next
        self.functions[name] = inside.commands
        self.functions |= inside.functions

    def _simple(self, depth: int, function: str) -> None:
        words: list[Token] = []
        redirects: list[tuple[str, str]] = []
        while (token := self._peek()) is not None:
            is_test = bool(words) and words[0].text == "[["
            if token.kind == "redirect" and not is_test:
                redirects.append((token.text, token.target))
            elif token.kind == "word" or (is_test and token.text != "\n"):
                words.append(token)
            else:
                break
            self._next += 1
            if is_test and token.text == "]]":
                is_test = False
                break
        if not words and not redirects:
            self._next += 1  # an operator that stands where no command can begin
            return
        line = words[0].line if words else 0
        command = Command((), line, redirects=tuple(redirects[:_MAX_REDIRECTS]), depth=depth, function=function)
        self._divide(command, words)
        self._add_substitutions(command, words)
        self.commands.append(command)
        self._add_nested(command)

    def _divide(self, command: Command, words: list[Token]) -> None:
        first = 0
        while first < len(words) and (found := _ASSIGNMENT.match(words[first].text)):
            command.assigned[found[0].rstrip("+=")] = unquote(words[first].text[found.end() :])
            first += 1
        command.take_words(tuple(unquote(word.text) for word in words[first:]))
        if command.words[:1] in (("export",), ("local",), ("readonly",), ("declare",)):
            for word in command.words[1:]:
                name, equals, value = word.partition("=")
                if equals:
                    command.assigned[name] = value

    def _add_substitutions(self, command: Command, words: list[Token]) -> None:
        """What is run within `$(…)`; its exit status is that of an assignment, and lost elsewhere."""
        for word in words:
            position = word.text.find("$(")
            while position >= 0 and not word.text.startswith(("'", "$'")):
                end = _bracket_end(word.text, position + 1)
                if not word.text.startswith("$((", position):
                    self._nest(word.text[position + 2 : end - 1], command, "lost" if command.words else "plain")
                position = word.text.find("$(", end)

    def _add_nested(self, command: Command) -> None:
        """The script that `bash -c` is given."""
        words = command.arguments
        flags = [index for index, word in enumerate(words[:-1]) if word.startswith("-") and word.endswith("c")]
        if command.program in _SHELLS and flags:
            self.commands.pop()  # the command itself
            start = len(self.commands)
            self._nest(words[flags[0] + 1], command, "plain")
            for inner in self.commands[start:]:
                inner.redirects += command.redirects
                inner.captured = command.captured

    def _nest(self, text: str, command: Command, status: str) -> None:
        inside = _Reader(list(_tokens(text, command.line)), self._nested)
        inside.read_list(command.depth, command.function)
        for inner in inside.commands:
            inner.captured = inner.captured or not command.words or status == "lost"
            inner.status = inner.status if status == "plain" else status
        self.commands += inside.commands
