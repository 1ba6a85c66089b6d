# SPDX-License-Identifier: Apache-2.0
"""Whether code may change a variable: by a write, by its address, by a call."""

from __future__ import annotations

import re
from typing import Literal

from warplens_tools.cuda.syntax.lexical import split_arguments
from warplens_tools.cuda.syntax.tree import SourceTree
from warplens_tools.cuda.values.bindings import Binding

#: Calls that cannot change an `int` passed by name.
_BY_VALUE = re.compile(
    r"(?:cuda\w*|cublas\w*|printf|fprintf|malloc|calloc|sizeof|dim3|if|while|switch|return|free|memset|memcpy"
    r"|assert|__\w+|atomic\w+|make_\w+|f?abs|u?min|u?max|f(?:abs|min|max)f"
    r"|fmaf?|r?sqrtf?|r?cbrtf?|expf?|exp2f?|expm1f?|log(?:2|10|1p)?f?|powf?|(?:sin|cos|tan)h?f?|(?:sin|cos)pif?|erfc?f?|floorf?|ceilf?"
    r"|curand\w*|(?:tex|surf)[123]D\w*|clampf?|lerp|atan2?f?|a(?:sin|cos)f?|hypotf?|u?(?:int|char|short|long)[1-4]?|float[1-4]"
    r"|roundf?|truncf?|fmodf?|int|unsigned|float|double|size_t|int64_t|uint32_t|min|max)\Z"
)

#: Which calls may change a variable that they are given.
Calls = Literal["every", "seen", "none"]


def is_set_once(tree: SourceTree, binding: Binding) -> bool:
    """Whether nothing after the declaration can change the variable."""
    key = ("set once", binding.name, binding.kind, binding.declaration, binding.end)
    return tree.remembered(key, lambda: _is_set_once(tree, binding))


def _is_set_once(tree: SourceTree, binding: Binding) -> bool:
    start, end = binding.declaration
    declared = tree.masked.code[start:end].decode("ascii")
    if binding.kind not in ("pointer", "array") and _CONSTANT.match(declared):
        return True
    code = tree.masked.code[end : binding.end].decode("ascii")
    by_call: Calls = "none" if binding.kind == "pointer" else "every"
    if by_call == "every" and _IN_PARAMETERS.match(code):
        by_call = "seen"
    return not changes(tree, code, binding.name, by_call=by_call)


#: A declaration of what keeps its value, no pointer to it; what follows the declaration of a parameter.
_CONSTANT = re.compile(r"\s*(?:const|constexpr)\b[^*&]*\Z|[^*&=]*\bconst\b[^*&]*\Z")
_IN_PARAMETERS = re.compile(r"\s*[,)]")


def changes(tree: SourceTree, code: str, name: str, *, by_call: Calls = "every") -> bool:
    """Whether `code` may change the variable: a write, its address, a reference, a call that may take it by one.

    Where calls count as "seen", those of functions that the file does not define do not: that another file's changes
    its caller's parameter by a reference, as any does a pointer, is next to unheard of.
    """
    stream = "cin" in code or "stream" in code
    at = code.find(name)
    while at >= 0:
        end = at + len(name)
        if not (_is_word(code[at - 1 : at]) or _is_word(code[end : end + 1])) and (
            _is_written(code, at, end, stream=stream)
            or (by_call != "none" and _PASSED.match(code, end) and _is_passed(tree, code, at, by_call))
        ):
            return True
        at = code.find(name, end)
    return False


_PASSED = re.compile(r"\s*[,)]")
_ASSIGNED = re.compile(r"[\s)]*(?:\.\s*\w+\s*)?(=(?!=)|[-+*/%&|^]=|<<=|>>=|\+\+|--)")
_REFERENCE = re.compile(r"(?<!&)&\s*\w+\s*=\s*\Z")


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _is_written(code: str, at: int, end: int, *, stream: bool) -> bool:
    """Whether the name in [at, end) is assigned, stepped, or has its address taken."""
    before = code[max(0, at - 60) : at].rstrip("( \n\t")
    if before.endswith((".", "->")):
        return False
    after = code[end : end + 1]
    assigned = _ASSIGNED.match(code, end) if after != "[" else None
    # `(x) = 1` sets it, `*(p + x) = 1` what the sum points to.
    if assigned and assigned[0].count(")") <= _opened(code[max(0, at - 60) : at]):
        # `*p = x` writes through the pointer; `*p++ = x` also steps it.
        return assigned[1] in ("++", "--") or not before.endswith("*")
    if before.endswith(("++", "--")) or (stream and before.endswith(">>") and not before.endswith(">>>")):
        return True
    is_element = code[end : end + 20].lstrip().startswith("[")
    if before.endswith("&") and not before.endswith("&&"):
        left = before[:-1].rstrip()[-1:]
        return not (is_element or _is_word(left) or left in (")", "]"))
    return not is_element and before.endswith("=") and bool(_REFERENCE.search(before))


def _opened(before: str) -> int:
    """How many brackets are opened right before a name."""
    return before[len(before.rstrip("( \n\t")) :].count("(")


def _is_passed(tree: SourceTree, code: str, at: int, by_call: Calls) -> bool:
    """Whether the name at `at` is a whole argument of a call that may take it by reference."""
    before = code[max(0, at - 60) : at].rstrip()
    last = len(code[:at].rstrip()) - 1
    return before.endswith(("(", ",")) and not _passed_by_value(tree, code, last, by_call)


def _takes_by_value(tree: SourceTree, name: str, by_call: Calls, position: int) -> bool:
    """Whether the file defines `name` as a function without a reference at this position or as a macro that only reads,
    or nothing but what it defines counts."""
    macro = tree.macros.get(name)
    if macro is not None:
        return not re.search(r"(?<![=!<>])=(?!=)|\+\+|--|(?<!&)&(?!&)", macro.body)
    parameters = tree.parameter_lists(name)
    return (bool(parameters) or by_call == "seen") and not any(
        _is_changeable(_at_position(p, position)) for p in parameters
    )


def _is_changeable(parameter: str) -> bool:
    """Whether a parameter is a reference that its function may write through."""
    return "&" in parameter and not re.match(r"\s*(?:const\b|\w+\s+const\b)[^*,]*&[^,]*\Z", parameter)


def _at_position(parameters: str, position: int) -> str:
    """The parameter that an argument goes to; all of them where the list is not read well enough to say."""
    listed = split_arguments(parameters.strip().removeprefix("(").removesuffix(")"))
    return listed[position] if position < len(listed) else parameters


def _passed_by_value(tree: SourceTree, code: str, at: int, by_call: Calls) -> bool:
    """Whether the call whose argument list holds offset `at` cannot take it by reference."""
    depth = position = 0
    stop = max(0, at - 2000)
    while at >= stop:
        if code.startswith("<<<", at) and depth == 0:
            return True
        depth += {")": 1, "]": 1, "}": 1}.get(code[at], 0)
        if code[at] in "([{":
            if depth == 0:
                break
            depth -= 1
        elif code[at] == ";" and depth == 0:
            return False
        position += code[at] == "," and depth == 0
        at -= 1
    else:
        return False
    before = code[max(0, at - 120) : at].rstrip()
    if before.endswith('"'):
        return False  # An operand of inline assembly.
    if re.search(r"_cast\s*<[^<>()]*>\Z", before):
        return True
    if before.endswith(">>>") or not before or not (before[-1].isalnum() or before[-1] in "_>"):
        return True
    before = re.sub(r"(?<=\w)\s*<[^<>()]*>\Z", "", before)  # Template arguments.
    callee = re.search(r"(?:std::)?\w+\Z", before)
    if callee is None:
        return False
    if _BY_VALUE.match(callee[0].removeprefix("std::")) or _takes_by_value(
        tree, callee[0], by_call, position
    ):
        return True
    ahead = before[: callee.start()]
    if _DECLARED.search(ahead):
        return True
    # `std::vector<float> host(n)` and `int m(n)` declare; a declared type precedes the name.
    return bool(re.search(r"[\w>]\s+\Z", ahead)) and not re.search(r"\b(?:return|else)\s+\Z", ahead)


#: A declaration that goes on with another name, as `std::vector<float> in(n), `.
_DECLARED = re.compile(
    r"(?:[;{}]|\A)\s*(?!return\b|else\b)(?:const\s+)?[A-Za-z_][\w:]*(?:\s*<[^;{}()]*>)?\s+[*&]?\w+\s*\([^;{}]*\)\s*,\s*\Z"
)


#: What a run is told to have instead of a value, after "=" or as the place that `sscanf` fills.
_ARGUMENT = r"\b(?:argv|optarg)\b"


def is_default(tree: SourceTree, binding: Binding) -> bool:
    """Whether the variable keeps the value that it is declared with unless the program is told another:
    `if (argc > 1) n = atoi(argv[1]);`."""
    key = ("default", binding.name, binding.kind, binding.declaration, binding.end)
    return tree.remembered(key, lambda: _is_default(tree, binding))


def _is_default(tree: SourceTree, binding: Binding) -> bool:
    code = tree.masked.code[binding.declaration[1] : binding.end].decode("ascii")
    name = re.escape(binding.name)
    told = re.compile(
        rf"(?<![\w.>]){name}\s*=(?!=)[^;{{}}]*{_ARGUMENT}[^;{{}}]*;|\bsscanf\s*\([^;]*{_ARGUMENT}[^;]*&\s*{name}\s*\)\s*;"
    )
    left, count = told.subn(";", code)
    return count > 0 and not changes(tree, left, binding.name)
