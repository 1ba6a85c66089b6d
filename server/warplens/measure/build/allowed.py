# SPDX-License-Identifier: Apache-2.0
"""What of a candidate is refused on sight, before anything is compiled; what passes here is not allowed yet.

What is allowed is decided on what the host compiler is given (`host_gate.py`). Here the text alone is looked at, for
directives by which it would make the compiler read files, and for another signature of the kernel. What does not parse
is the compiler's to say: there is C++ that this parser misreads.
"""

from __future__ import annotations

import re
from collections import Counter

from warplens_tools.cuda.model import Kernel
from warplens_tools.cuda.parse import model_of
from warplens_tools.cuda.syntax.functions import find_functions
from warplens_tools.cuda.syntax.lexical import to_ascii, without_comments
from warplens_tools.cuda.syntax.tree import SourceTree, parse_tree
from warplens_tools.text import SourceText

#: Directives that read files or change what others read.
_READING = {"include_next", "import", "embed", "line", "pragma", "ident", "sccs", "assert"}
#: Directives by which another build could be given other code.
_CONDITIONS = {"if", "ifdef", "ifndef", "elif", "elifdef", "elifndef"}
_ASKING = re.compile(r"\b__has_\w+|\b_Pragma\b")
#: What is not the same where the candidate is judged and where it is shipped, or at another time.
_ELSEWHERE = re.compile(
    r"\b(?:__FILE__|__BASE_FILE__|__FILE_NAME__|__builtin_FILE|__builtin_FILE_NAME|source_location|__TIME__|__DATE__"
    r"|__TIMESTAMP__|__COUNTER__|__INCLUDE_LEVEL__|__builtin_LINE|__GNUC\w*|__clang\w*|__NVCC__|__VERSION__"
    r"|__(?:CUDACC|CUDA_API)_VER_\w+|CUDART_VERSION|CUDA_VERSION|__cplusplus|__EDG\w*|__CUDA_ARCH\w*|NV_(?:IF|DISPATCH|PROVIDES|IS)_\w+|NDEBUG|__OPTIMIZE__|__CUDACC_DEBUG__)\b"
)
_ASSEMBLER = re.compile(r"\b(?:__)?asm(?:__)?\b|incbin")
#: What a refusal for host code's sake says besides.
HOST_EDITS = "with the setting optimize.host-edits it would be judged from outside the program"
_BRACKETS = {"()": "parentheses", "{}": "braces", "[]": "brackets"}
_DEVICE_VARIABLE = re.compile(r"__(?:device|constant|managed)__")


def why_not_allowed(before: SourceText, after: SourceText, kernel: str, path: str) -> str:
    """Why a candidate's text may not be judged in place, as far as that is plain to see; "" for no reason yet.

    `kernel` is the qualified name of the kernel in question, `path` the file's.
    """
    never, host = why_outside(before, after, kernel, path)
    if not never:
        host = host or _adds_host_functions(parse_tree(before), parse_tree(after))
    return never or (f"{host} ({HOST_EDITS})" if host else "")


def why_outside(before: SourceText, after: SourceText, kernel: str, path: str) -> tuple[str, str]:
    """Why a text may not even be compiled, and why its launches are no longer the kernel's; "" for neither."""
    trees = parse_tree(before), parse_tree(after)
    old, new = (model_of(tree, path) for tree in trees)
    never = _reads_changed(before.text, after.text) or _embeds(_apart(trees[0]), _apart(trees[1]))
    return never, _signature_changed(old.kernel(kernel), new.kernel(kernel), kernel)


def why_open(before: SourceText, after: SourceText) -> str:
    """Why a text cannot be whole, as an answer that was cut off leaves it: its brackets do not match as the original's
    do. "" where they do. No reason to refuse a candidate: with `#if` they need not."""
    old, new = (without_comments(to_ascii(text.text)) for text in (before, after))
    return next(
        (
            f"its {name} do not match"
            for pair, name in _BRACKETS.items()
            if _open(old, pair) != _open(new, pair)
        ),
        "",
    )


def _open(code: str, pair: str) -> int:
    return code.count(pair[0]) - code.count(pair[1])


def _adds_host_functions(before: SourceTree, after: SourceTree) -> str:
    added = _host_functions(after) - _host_functions(before)
    return f"the edit adds host code: {next(iter(added))}" if added else ""


def _host_functions(tree: SourceTree) -> Counter[str]:
    on_host = (f for f in find_functions(tree) if not (f.is_kernel or f.is_device) or "__host__" in f.header)
    return Counter(tree.text_of(f.name_node) for f in on_host)


def _signature_changed(old: Kernel | None, new: Kernel | None, kernel: str) -> str:
    if new is None:
        return f"the edited text has no kernel {kernel}"
    if old is None:
        return ""
    if [_plain(p.type) for p in old.parameters] != [_plain(p.type) for p in new.parameters]:
        return "the edit changes the kernel's parameters"
    if old.template_parameters != new.template_parameters:
        return "the edit changes the kernel's template parameters"
    return ""


def host_text(text: SourceText) -> str:
    """What the host runs of a text, as it is written, and its constants: all that launch geometries come from."""
    return _squeezed(_without_includes(_stripped(_apart(parse_tree(text))[0])))


def _embeds(before: tuple[str, str], after: tuple[str, str]) -> str:
    """`before` and `after`: host and device code."""
    if "incbin" in re.sub(r'"\s*"', "", _stripped(after[1])):
        return "the edit embeds a file"
    if len(_ASSEMBLER.findall(_stripped(after[0]))) > len(_ASSEMBLER.findall(_stripped(before[0]))):
        return "the edit adds assembler to host code, which may embed any file"
    return ""


def _apart(tree: SourceTree) -> tuple[str, str]:
    """The text without device code, and device code."""
    host, device, at = [], [], 0
    data = tree.text.text
    for start, end in sorted(_device_spans(tree)):
        host.append(data[at : max(start, at)])
        device.append(data[max(start, at) : max(end, at)])
        at = max(end, at)
    return " ".join([*host, data[at:]]), "\n".join(device)


def _device_spans(tree: SourceTree) -> list[tuple[int, int]]:
    spans = [
        (f.start, f.body.end_byte)
        for f in find_functions(tree)
        if (f.is_kernel or f.is_device) and "__host__" not in f.header
    ]
    for node in tree.captures("(declaration) @it").get("it", []):
        outer = node.parent is not None and node.parent.type in ("translation_unit", "declaration_list")
        if outer and _DEVICE_VARIABLE.search(tree.text_of(node)):
            spans.append((node.start_byte, node.end_byte))
    return spans


def _stripped(text: str) -> str:
    return without_comments(to_ascii(text), keep_strings=True)


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"\s*([^\w\s\"'])\s*", r"\1", text)).strip()


def _without_includes(text: str) -> str:
    return re.sub(r"^[ \t]*#[ \t]*include[^\n]*", "", text, flags=re.MULTILINE)


def _reads_changed(before: str, after: str) -> str:
    """Every other way by which a text makes the compiler open a file, or ask whether there is one."""
    known = set(_directives(before))
    for word, rest in _directives(after):
        if (word, rest) in known:
            continue
        if word == "include" and re.fullmatch(r"<(?!/)(?:(?!\.\.)[^<>])+>", rest):
            continue
        if word == "include":
            return f"the edit includes {rest}; only the toolkit's and CUTLASS' own headers may be added"
        pragma = word == "pragma" and not re.match(
            r"(?:GCC|clang|push_macro|pop_macro|include_alias)\b", rest
        )
        if (word in _READING and not pragma) or word.isdigit():
            return f"the edit adds #{word} {rest}, which may open any file".rstrip()
        if word in _CONDITIONS and (name := _unknown_name(rest, after)):
            return f"the edit asks by what it is built: #{word} {rest} ({name} is not the text's own)"
    old, new = _joined(before), _joined(after)
    for pattern, what in (
        (_ASKING, "asks for files by"),
        (_ELSEWHERE, "asks where, when or by what it is built, by"),
    ):
        more = Counter(pattern.findall(new)) - Counter(pattern.findall(old))
        if more:
            return f"the edit {what} {next(iter(more))}"
    return ""


def _unknown_name(condition: str, text: str) -> str:
    """A name in a directive's condition that the text itself does not define: another build may."""
    own = {rest.split("(")[0].split()[0] for word, rest in _directives(text) if word == "define" and rest}
    names = re.findall(r"\b[A-Za-z_]\w*", condition)
    return next((name for name in names if name not in own | {"defined", "true", "false"}), "")


def _joined(text: str) -> str:
    """Lines as the preprocessor joins them, also by trigraphs, without comments."""
    text = text.replace("??/", "\\").replace("??=", "#").replace("%:", "#")
    return _stripped(re.sub(r"\\[ \t\f\v]*\r?\n", "", text))


def _directives(text: str) -> list[tuple[str, str]]:
    """Preprocessor directives as the compiler sees them: lines joined, comments gone, digraphs replaced."""
    found = re.findall(r"^[ \t\f\v]*#[ \t]*(\w+)[ \t]*([^\n]*)", _joined(text), re.MULTILINE)
    return [(word, rest.strip()) for word, rest in found]


def _plain(type_text: str) -> str:
    return re.sub(
        r"\b(?:const|volatile|__restrict__|__restrict|restrict|__grid_constant__)\b|\s+", "", type_text
    )
