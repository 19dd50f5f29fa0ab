"""Readable names of C++ kernels that a trace has as mangled symbols, as ROCm writes them.

Grammar: https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling, as far as names of kernels use
it: nested and local names, templates with types and literals, substitutions and lambdas. A symbol
with anything else stays as it is.

Each substitution can double a name, so names are limited: the symbols are those of any file.
libstdc++'s `__cxa_demangle` has no limit: a symbol of 250 characters becomes 570 MB in 2.8 s.
The package itanium-demangler reads no local names, which the kernels of ATen have.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

# Names of ATen's longest functors have 2,000 characters.
MAX_CHARS = 20_000
_MAX_ALL_CHARS = 50 * MAX_CHARS
_MAX_DEPTH = 60
# The reason why the parser gives up, which nothing shows.
_UNKNOWN = "not a name that kernels have"
# ROCm's name of the descriptor of a kernel, which the runtime launches.
_DESCRIPTOR = ".kd"
_BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char",
    "h": "unsigned char", "s": "short", "t": "unsigned short", "i": "int", "j": "unsigned int",
    "l": "long", "m": "unsigned long", "x": "long long", "y": "unsigned long long",
    "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double", "e": "long double",
    "g": "__float128", "z": "...",
}  # fmt: skip
_BUILTIN_D = {"Dh": "half", "Dn": "decltype(nullptr)", "Di": "char32_t", "Ds": "char16_t"}
_STANDARD = {
    "St": "std", "Sa": "std::allocator", "Sb": "std::basic_string", "Ss": "std::string",
    "Si": "std::istream", "So": "std::ostream", "Sd": "std::iostream",
}  # fmt: skip
_OPERATORS = {
    "cl": "operator()", "pl": "operator+", "mi": "operator-", "ml": "operator*",
    "dv": "operator/", "eq": "operator==", "ne": "operator!=", "lt": "operator<",
    "gt": "operator>", "ix": "operator[]", "cv": "operator",
}  # fmt: skip
# The ends of literals; one of another type has the type before it.
_LITERALS = {
    "int": "", "unsigned int": "u", "long": "l", "unsigned long": "ul", "long long": "ll",
    "unsigned long long": "ull",
}  # fmt: skip
# Constructors and destructors, with the sign before the name of the class.
_MEMBERS = {"C1": " ", "C2": " ", "C3": " ", "D0": "~", "D1": "~", "D2": "~"}
_SUFFIXES = {"P": "*", "R": "&", "O": "&&"}
_DIGITS = re.compile(r"\d{1,9}")
_SEQUENCE = re.compile(r"[0-9A-Z]{0,6}_")
_NUMBER = re.compile(r"\d{0,9}_")
_VALUE = re.compile(r"n?\d+")
_ANONYMOUS = re.compile(r"_GLOBAL__N_")


@functools.lru_cache(maxsize=10_000)
def demangled(symbol: str) -> str:
    """Return the name of a mangled function with its template, any other name unchanged."""
    text = symbol.removesuffix(_DESCRIPTOR)
    if not text.startswith("_Z") or len(text) > MAX_CHARS:
        return text
    try:
        name = _Parser(text[2:]).function()
    except (ValueError, IndexError):
        return text
    return name if len(name) <= MAX_CHARS else text


class _Parser:
    """Reads a symbol from left to right, with the names that substitutions refer to."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.substitutions: list[str] = []
        self.parameters: list[str] = []
        self.num_chars = 0
        self.depth = 0
        # Properties of the name that was read last.
        self.qualifiers = ""
        self.is_template = False

    def function(self) -> str:
        """Return the name of the function with its arguments, if these are known."""
        start = self.position
        try:
            return self.encoding()
        except (ValueError, IndexError):
            self.position, self.substitutions, self.depth = start, [], 0
            return f"{self.name()}()"

    def peek(self, sign: str) -> bool:
        return self.text.startswith(sign, self.position)

    def take(self, sign: str) -> bool:
        """Advance past `sign` if it is next."""
        if self.peek(sign):
            self.position += len(sign)
            return True
        return False

    def take_one(self, signs: Mapping[str, str], *, length: int) -> str:
        """Return the meaning of the next `length` characters, "" if they have none."""
        meaning = signs.get(self.text[self.position : self.position + length], "")
        self.position += length if meaning else 0
        return meaning

    def take_match(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.position)
        if match is None:
            raise ValueError(_UNKNOWN)
        self.position = match.end()
        return match.group()

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise ValueError(_UNKNOWN)

    def remember(self, name: str) -> str:
        """Return `name` as the next substitution."""
        self.substitutions.append(self.counted(name))
        return name

    def counted(self, name: str) -> str:
        """Return `name`; raise ValueError if it or all names together are too long."""
        self.num_chars += len(name)
        if len(name) > MAX_CHARS or self.num_chars > _MAX_ALL_CHARS:
            raise ValueError(_UNKNOWN)
        return name

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise ValueError(_UNKNOWN)

    def encoding(self) -> str:
        """Return a function with the types of its arguments."""
        name = self.name()
        qualifiers = self.qualifiers
        has_result = self.is_template
        types = self.types()[1 if has_result else 0 :]
        return f"{name}({_arguments(types)}){qualifiers}"

    def types(self) -> list[str]:
        """Return the types until the end of the function."""
        types = []
        while self.position < len(self.text) and not self.peek("E"):
            types.append(self.type())
        return types

    def name(self) -> str:
        self.deeper()
        self.qualifiers, self.is_template = "", False
        if self.take("N"):
            name = self.nested()
        elif self.take("Z"):
            name = self.local()
        else:
            name = self.unscoped()
        self.depth -= 1
        return name

    def nested(self) -> str:
        qualifiers = ""
        while sign := self.take_one({"K": " const", "V": " volatile", "r": ""}, length=1):
            qualifiers = sign + qualifiers
        self.take("R") or self.take("O")
        name, is_template = "", False
        while not self.take("E"):
            is_template = self.peek("I")
            is_substitution = self.peek("S")
            name = self.component(name)
            if not (is_substitution or self.peek("E")):
                self.remember(name)
        if not name:
            raise ValueError(_UNKNOWN)
        self.qualifiers, self.is_template = qualifiers, is_template
        return name

    def component(self, scope: str) -> str:
        """Return `scope` with the next part of a nested name."""
        if self.peek("S"):
            return self.substitution()
        if self.peek("T"):
            return self.parameter()
        if self.peek("I"):
            return scope + self.template()
        if sign := self.take_one(_MEMBERS, length=2):
            return f"{scope}::{sign.strip()}{_last_part(scope)}"
        part = self.unqualified()
        return f"{scope}::{part}" if scope else part

    def local(self) -> str:
        function = self.encoding()
        self.expect("E")
        if self.take("s"):
            return f"{function}::{{string literal}}"
        name = f"{function}::{self.name()}"
        if self.take("_"):
            self.take("_")
            self.take_match(_DIGITS)
        return name

    def unscoped(self) -> str:
        if self.peek("S") and not self.peek("St"):
            name = self.substitution()
        else:
            name = f"std::{self.unqualified()}" if self.take("St") else self.unqualified()
            if self.peek("I"):
                self.remember(name)
        self.is_template = self.peek("I")
        return name + self.template() if self.is_template else name

    def unqualified(self) -> str:
        self.take("L")
        if self.take("Ul"):
            arguments = _arguments(self.types())
            self.expect("E")
            name = f"{{lambda({arguments})#{self.number()}}}"
        elif self.take("Ut"):
            name = f"{{unnamed type#{self.number()}}}"
        elif operator := self.take_one(_OPERATORS, length=2):
            name = operator + (f" {self.type()}" if operator == "operator" else "")
        else:
            name = self.source_name()
        while self.take("B"):
            name += f"[abi:{self.source_name()}]"
        return name

    def source_name(self) -> str:
        length = int(self.take_match(_DIGITS))
        name = self.text[self.position : self.position + length]
        if not length or len(name) < length:
            raise ValueError(_UNKNOWN)
        self.position += length
        return "(anonymous namespace)" if _ANONYMOUS.match(name) else name

    def number(self) -> int:
        """Return the number of a lambda in its function, from 1 on."""
        digits = self.take_match(_NUMBER)[:-1]
        return int(digits) + 2 if digits else 1

    def type(self) -> str:
        self.deeper()
        simple = self.take_one(_BUILTIN_D, length=2) or self.take_one(_BUILTIN, length=1)
        name = simple or self.compound()
        self.depth -= 1
        return name

    def compound(self) -> str:
        """Return a type that can be a substitution later."""
        qualifiers = ""
        while sign := self.take_one({"K": " const", "V": " volatile"}, length=1):
            qualifiers = sign + qualifiers
        if qualifiers:
            return self.remember(self.type() + qualifiers)
        if suffix := self.take_one(_SUFFIXES, length=1):
            return self.remember(self.type() + suffix)
        if self.take("F"):
            result, *arguments = self.types() or [""]
            self.expect("E")
            return self.remember(f"{result} ({_arguments(arguments)})")
        if self.take("A"):
            number = self.take_match(_NUMBER)[:-1]
            return self.remember(f"{self.type()} [{number}]")
        if self.take("Dp"):
            return self.remember(self.type())
        if self.take("u"):
            return self.remember(self.source_name())
        return self.named()

    def named(self) -> str:
        """Return a class, a template parameter, or an earlier one of these."""
        if self.peek("T"):
            name = self.remember(self.parameter())
        elif self.peek("S") and not self.peek("St"):
            name = self.substitution()
        else:
            return self.remember(self.name())
        return self.remember(name + self.template()) if self.peek("I") else name

    def substitution(self) -> str:
        if standard := self.take_one(_STANDARD, length=2):
            return standard
        self.expect("S")
        return self.counted(self.substitutions[_index(self.take_match(_SEQUENCE)[:-1], base=36)])

    def parameter(self) -> str:
        self.expect("T")
        index = _index(self.take_match(_NUMBER)[:-1], base=10)
        # The parameters of a generic lambda are not known.
        return self.counted(self.parameters[index]) if index < len(self.parameters) else "auto"

    def template(self) -> str:
        self.expect("I")
        arguments = self.template_arguments()
        self.parameters = arguments
        text = ", ".join(argument for argument in arguments if argument)
        return f"<{text}>"

    def template_arguments(self) -> list[str]:
        self.deeper()
        arguments = []
        while not self.take("E"):
            if self.position >= len(self.text):
                raise ValueError(_UNKNOWN)
            arguments.append(self.template_argument())
        self.depth -= 1
        return arguments

    def template_argument(self) -> str:
        if self.take("J"):
            return ", ".join(self.template_arguments())
        if not self.take("L"):
            return self.type()
        if self.take("_Z"):
            name = self.encoding().partition("(")[0]
            self.expect("E")
            return name
        kind = self.type()
        value = self.take_match(_VALUE)
        self.expect("E")
        return _literal(kind, value.replace("n", "-"))


def _arguments(types: list[str]) -> str:
    return "" if types == ["void"] else ", ".join(types)


def _index(digits: str, *, base: int) -> int:
    """Return the index of a reference: none is the first one, 0 the second."""
    return int(digits, base) + 1 if digits else 0


def _literal(kind: str, value: str) -> str:
    if kind == "bool":
        return "true" if value == "1" else "false"
    if kind in _LITERALS:
        return value + _LITERALS[kind]
    return f"({kind}){value}"


def _last_part(scope: str) -> str:
    return scope.partition("<")[0].rpartition("::")[2]
