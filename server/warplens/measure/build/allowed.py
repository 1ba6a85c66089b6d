# SPDX-License-Identifier: Apache-2.0
"""What of a candidate is refused on sight, before anything is compiled; what passes here is not allowed yet.

What is allowed is decided on what the host compiler is given (`host_gate.py`). Here the text alone is looked at, for
directives by which it would make the compiler read files, and for edits of host code that are plain to see.
"""

from __future__ import annotations

import re
from collections import Counter

import msgspec

from warplens_tools.cuda.model import Kernel, SourceModel
from warplens_tools.cuda.parse import model_of
from warplens_tools.cuda.syntax.functions import find_functions
from warplens_tools.cuda.syntax.lexical import to_ascii, without_comments
from warplens_tools.cuda.syntax.tree import SourceTree, parse_tree
from warplens_tools.text import SourceText

_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)[^\n]*(?:\\\n[^\n]*)*", re.MULTILINE)
#: Directives that only choose among the text that is there.
_HARMLESS = {"if", "ifdef", "ifndef", "elif", "else", "endif", "pragma", "error", "warning"}
#: Directives that read files or change what others read.
_READING = {"include_next", "import", "embed", "line", "pragma", "ident", "sccs", "assert"}
_ASKING = re.compile(r"\b__has_\w+|\b_Pragma\b")
#: What is not the same where the candidate is judged and where it is shipped, or at another time.
_ELSEWHERE = re.compile(
    r"\b(?:__FILE__|__BASE_FILE__|__FILE_NAME__|__builtin_FILE|__builtin_FILE_NAME|source_location|__TIME__|__DATE__"
    r"|__TIMESTAMP__|__COUNTER__|__INCLUDE_LEVEL__|__builtin_LINE|__GNUC\w*|__clang\w*|__NVCC__|__VERSION__"
    r"|__(?:CUDACC|CUDA_API)_VER_\w+|CUDART_VERSION|CUDA_VERSION|__cplusplus|__EDG\w*|__CUDA_ARCH_LIST__)\b"
)
_ASSEMBLER = re.compile(r"\b(?:__)?asm(?:__)?\b|incbin")
#: What a refusal for host code's sake says besides.
HOST_EDITS = "with the setting optimize.host-edits it would be judged from outside the program"
_DIMENSIONS = re.compile(r"\bdim3\s+\w+\s*(?:\([^;{}]*\)|\{[^;{}]*\}|=\s*[^;{}]*)\s*;")
_NAME = re.compile(r"[A-Za-z_]\w*")
_INTEGER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_NUMBER_OF = r"(?<![\w.]){}\s*=\s*(\d+)[uU]?\s*(?=[;,])"
_DEVICE_VARIABLE = re.compile(r"__(?:device|constant|managed)__")
#: Integer expressions over names: no calls but of what makes a size.
_SIZE = re.compile(r"[\w\s+\-*/%()<>&|^~?:,.{}=;!]*")
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\(")
_SIZE_CALLS = {"dim3", "min", "max", "sizeof", "uint3", "make_uint3", "int", "unsigned", "size_t"}


class _Parts(msgspec.Struct, frozen=True):
    """A text taken apart: what runs on the host, and what does not."""

    host: str
    device: str
    #: Expressions that the host evaluates but a candidate may change.
    sizes: tuple[str, ...]
    constants: dict[str, str]


def why_not_allowed(before: SourceText, after: SourceText, kernel: str, path: str) -> str:
    """Why a candidate's text may not be judged; "" if it may.

    `kernel` is the qualified name of the kernel in question, `path` the file's.
    """
    never, host = why_outside(before, after, kernel, path)
    return never or (f"{host} ({HOST_EDITS})" if host else "")


def why_outside(before: SourceText, after: SourceText, kernel: str, path: str) -> tuple[str, str]:
    """Why a text may not even be compiled, and why it may be judged only from outside its program; "" for neither."""
    trees = parse_tree(before), parse_tree(after)
    models = model_of(trees[0], path), model_of(trees[1], path)
    if models[1].errors and not models[0].errors:
        return "the edited text does not parse", ""
    old, new = _parts(trees[0], models[0]), _parts(trees[1], models[1])
    host = (
        _host_changed(old, new)
        or _directives_changed(old, new)
        or _sizes_changed(old, new)
        or _constants_changed(old, new)
        or _signature_changed(models[0].kernel(kernel), models[1].kernel(kernel), kernel)
    )
    return _reads_changed(before.text, after.text) or _embeds(old, new), host


def _embeds(old: _Parts, new: _Parts) -> str:
    if "incbin" in re.sub(r'"\s*"', "", new.device):
        return "the edit embeds a file"
    if len(_ASSEMBLER.findall(new.host)) > len(_ASSEMBLER.findall(old.host)):
        return "the edit adds assembler to host code, which may embed any file"
    return ""


def sizes_of(text: SourceText, path: str) -> tuple[object, ...]:
    """What of a text decides its launch geometries, within what a candidate may change."""
    tree = parse_tree(text)
    parts = _parts(tree, model_of(tree, path))
    return (parts.sizes, tuple(sorted(parts.constants.items())))


def _parts(tree: SourceTree, model: SourceModel) -> _Parts:
    text = tree.text
    device = _device_spans(tree)
    cut: list[tuple[int, int, str]] = [(start, end, " @device ") for start, end in device]
    sizes: list[str] = []
    for launch in {site.span: site for site in model.launches}.values():
        for span in (launch.grid_span, launch.block_span):
            start, end = text.offset(span.line, span.column), text.offset(span.end_line, span.end_column)
            cut.append((start, end, " @size "))
    constants = {}
    local = _host_bodies(tree)
    for constant in model.constants:
        span = constant.span
        start, end = text.offset(span.line, span.column), text.offset(span.end_line, span.end_column)
        # what a host function declares for itself is host code, not shared with the kernels
        if constant.kind == "define" or not any(low <= start < high for low, high in local):
            constants[constant.name] = constant.text
            cut.append((start, end, " "))
    cut += [(start, end, " @size ") for start, end in _host_sizes(text, model)]
    host, kept = _cut(text.text, cut)
    sizes += [piece for mark, piece in kept if mark == " @size "]
    host = _stripped(host)
    dimensions = _DIMENSIONS.findall(host)
    return _Parts(
        host=_squeezed(_without_includes(_DIMENSIONS.sub(" @size ", host))),
        device="\n".join(_stripped(piece) for mark, piece in kept if mark == " @device "),
        sizes=tuple(_squeezed(_stripped(piece)) for piece in [*sizes, *dimensions]),
        constants=constants,
    )


def _host_sizes(text: SourceText, model: SourceModel) -> list[tuple[int, int]]:
    """Numbers in launches' template arguments, dynamic shared sizes, numbers that make up a block."""
    code = without_comments(to_ascii(text.text))
    spans: list[tuple[int, int]] = []
    names: set[str] = set()
    for launch in {site.span: site for site in model.launches}.values():
        after = text.offset(launch.block_span.end_line, launch.block_span.end_column)
        end = text.offset(launch.span.end_line, launch.span.end_column)
        at = (
            code.find(launch.shared, after, max(code.find(">>>", after, end), after)) if launch.shared else -1
        )
        if at >= 0:
            spans.append((at, at + len(launch.shared)))
        start = text.offset(launch.span.line, launch.span.column)
        opening = max(code.find("<<<", start, end), start)
        arguments = code.find("<", start, opening)
        spans += [m.span() for m in _INTEGER.finditer(code, arguments, opening)] if arguments >= 0 else []
        names |= set(_NAME.findall(launch.block))
    for dimension in _DIMENSIONS.finditer(code):
        declared, *used = _NAME.findall(dimension[0].removeprefix("dim3"))
        names |= set(used) if declared in names else set()
    for name in names:
        spans += [match.span(1) for match in re.finditer(_NUMBER_OF.format(name), code)]
    return spans


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


def _host_bodies(tree: SourceTree) -> list[tuple[int, int]]:
    return [
        (f.body.start_byte, f.body.end_byte)
        for f in find_functions(tree)
        if not (f.is_kernel or f.is_device) or "__host__" in f.header
    ]


def _cut(text: str, cuts: list[tuple[int, int, str]]) -> tuple[str, list[tuple[str, str]]]:
    """The text with every stretch replaced by its mark, and the stretches; of nested ones the outer counts."""
    kept, pieces, at = [], [], 0
    for start, end, mark in sorted(cuts, key=lambda cut: (cut[0], -cut[1])):
        if start < at:
            continue
        pieces += [text[at:start], mark]
        kept.append((mark, text[start:end]))
        at = end
    return "".join([*pieces, text[at:]]), kept


def _stripped(text: str) -> str:
    return without_comments(to_ascii(text), keep_strings=True)


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"\s*([^\w\s\"'])\s*", r"\1", text)).strip()


def _without_includes(text: str) -> str:
    return re.sub(r"^[ \t]*#[ \t]*include[^\n]*", "", text, flags=re.MULTILINE)


def _host_changed(old: _Parts, new: _Parts) -> str:
    # new device functions and variables leave a mark more, which is no host code
    marks = re.compile(r"(?:@device\s*)+")
    if marks.sub("", old.host) != marks.sub("", new.host):
        return "the edit changes host code"
    return ""


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
    old, new = _joined(before), _joined(after)
    for pattern, what in (
        (_ASKING, "asks for files by"),
        (_ELSEWHERE, "asks where, when or by what it is built, by"),
    ):
        more = Counter(pattern.findall(new)) - Counter(pattern.findall(old))
        if more:
            return f"the edit {what} {next(iter(more))}"
    return ""


def _joined(text: str) -> str:
    """Lines as the preprocessor joins them, also by trigraphs, without comments."""
    text = text.replace("??/", "\\").replace("??=", "#").replace("%:", "#")
    return _stripped(re.sub(r"\\[ \t\f\v]*\r?\n", "", text))


def _directives(text: str) -> list[tuple[str, str]]:
    """Preprocessor directives as the compiler sees them: lines joined, comments gone, digraphs replaced."""
    found = re.findall(r"^[ \t\f\v]*#[ \t]*(\w+)[ \t]*([^\n]*)", _joined(text), re.MULTILINE)
    return [(word, rest.strip()) for word, rest in found]


def _directives_changed(old: _Parts, new: _Parts) -> str:
    known = {_squeezed(match[0]) for match in _DIRECTIVE.finditer(old.device)}
    for match in _DIRECTIVE.finditer(new.device):
        if match[1] not in _HARMLESS and _squeezed(match[0]) not in known:
            return f"the edit puts a #{match[1]} into device code, which host code would see"
    return ""


def _sizes_changed(old: _Parts, new: _Parts) -> str:
    known = set(old.sizes)
    calls = _SIZE_CALLS | {name for size in old.sizes for name in _CALL.findall(size)}
    for size in new.sizes:
        if size not in known and not _is_size(size, calls):
            return f"the edit changes a launch configuration to more than sizes: {size}"
    return ""


def _is_size(text: str, calls: set[str]) -> bool:
    names = _CALL.findall(_DIMENSION_NAME.sub("dim3(", text))
    return _SIZE.fullmatch(text) is not None and set(names) <= calls and not _ASSIGNS.search(text)


_DIMENSION_NAME = re.compile(r"^dim3\s+\w+\s*[({=]")
_ASSIGNS = re.compile(r"\+\+|--|[^=!<>]=[^=].*=|;.+|[-+*/%&|^]=")


def _constants_changed(old: _Parts, new: _Parts) -> str:
    host = set(re.findall(r"\w+", old.host))
    for name, text in new.constants.items():
        if old.constants.get(name) == text:
            continue
        if name not in old.constants and name in host:
            return f"the edit gives {name}, which host code uses, another meaning"
        if not _is_size(text, _SIZE_CALLS):
            return f"the edit makes the constant {name} more than a number: {text}"
    missing = next((name for name in old.constants if name not in new.constants and name in host), "")
    return f"the edit takes away {missing}, which host code uses" if missing else ""


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


def _plain(type_text: str) -> str:
    return re.sub(
        r"\b(?:const|volatile|__restrict__|__restrict|restrict|__grid_constant__)\b|\s+", "", type_text
    )
