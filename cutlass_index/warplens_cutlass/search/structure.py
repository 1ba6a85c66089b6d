"""Structural facts of CUDA text: what it does by hand, seen in the syntax tree where words are not enough."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec
from tree_sitter import Node

from warplens_cutlass.extract.parse import parse


class Fact(msgspec.Struct, frozen=True):
    """A structural fact and the 1-based line (of the text given) where it shows."""

    name: str
    line: int


class Loop(msgspec.Struct, frozen=True):
    """One `for` loop: its head, its body's text, the depth of loops around it."""

    head: str
    body: str
    line: int
    depth: int
    inner: int


class Code(msgspec.Struct, frozen=True):
    """The text without comments, and its loops."""

    text: str
    loops: tuple[Loop, ...]


_SUBSCRIPT_PRODUCT = re.compile(r"\+=[^;]*\][^;]*\*[^;]*\]|fmaf?\s*\([^;]*\][^;]*\]")
_OUTER = re.compile(
    r"\w+\s*(?:\[[^\]]+\]){1,2}\s*\+=\s*\w+\s*\[\s*(\w+)\s*\]\s*\*\s*\w+\s*\[\s*(?!\1\s*\])\w+\s*\]"
)


def facts_of(code: str) -> list[Fact]:
    """All structural facts of a text: a kernel, a selection, or loose statements."""
    source = _wrapped(code).encode()
    root = parse(source).tree.root_node
    seen = Code(_without_comments(code), tuple(_loops(root, source, 0)))
    return [Fact(name, line) for name, check in _CHECKS if (line := check(seen))]


def _wrapped(code: str) -> str:
    """Loose statements parse inside a function; the wrapper adds no line."""
    if re.search(
        r"__global__|__device__|^\s*(?:template|void|static|inline|class|struct|#include)\b", code, re.M
    ):
        return code
    return "void f() { " + code + "\n}"


def _without_comments(code: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), code, flags=re.S)


def _loops(node: Node, source: bytes, depth: int) -> Iterator[Loop]:
    stack = [(node, depth)]
    while stack:
        at, level = stack.pop()
        inside = at.type in ("for_statement", "while_statement", "for_range_loop")
        if inside:
            body = at.child_by_field_name("body")
            text = _text(body, source) if body is not None else ""
            start = body.start_byte if body is not None else at.end_byte
            head = source[at.start_byte : start].decode("utf-8", "replace")
            yield Loop(head, text, at.start_point[0] + 1, level, len(re.findall(r"\bfor\s*\(", text)))
        stack.extend((child, level + inside) for child in reversed(at.children) if level < 60)


def _text(node: Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _product_loop(code: Code) -> int:
    """A loop that accumulates products of two subscripted (or fma) operands."""
    for loop in code.loops:
        if loop.inner == 0 and (
            _SUBSCRIPT_PRODUCT.search(loop.body) or re.search(r"\+=\s*__half2float[^;]*\*", loop.body)
        ):
            return loop.line
    called = re.search(r"\b(?:compute|mma|gemm|matmul)\w*\s*\(\s*\w*[Aa]s?\b[^;]*[Bb]s?\b", code.text)
    return _line(code.text, called) if called and code.loops else 0


def _outer_product(code: Code) -> int:
    return next((loop.line for loop in code.loops if loop.inner == 0 and _OUTER.search(loop.body)), 0)


def _matrix_vector(code: Code) -> int:
    pattern = re.compile(r"\+=\s*\w+\s*\[[^\]]*[*+][^\]]*\]\s*\*\s*\w+\s*\[\s*\w+\s*\]")
    output = re.search(r"\by\w*\s*\[\s*\w+\s*\]\s*\+?=", code.text)
    return next(
        (loop.line for loop in code.loops if output and loop.inner == 0 and pattern.search(loop.body)), 0
    )


def _triangular(code: Code) -> int:
    """A product loop that ends at the row it works on."""
    for loop in code.loops:
        if re.search(r"<=?\s*(?:i|row|r)\s*;|=\s*(?:i|row|r)\s*;", loop.head) and _SUBSCRIPT_PRODUCT.search(
            loop.body
        ):
            return loop.line
    return 0


def _double_buffer(code: Code) -> int:
    flip = re.compile(
        r"(\w+)\s*\^=\s*1|(\w+)\s*=\s*1\s*-\s*\2\b|(\w+)\s*=\s*!\s*\3\b|(\w+)\s*=\s*\4\s*\^\s*1|"
        r"\[\s*\(?\s*\w+\s*\+\s*1\s*\)?\s*%\s*\w+\s*\]|\w+\s*=\s*\(?\s*\w+\s*\+\s*1\s*\)?\s*%\s*(?:2|\w*[Ss]tages?|STAGES|NUM_STAGES)\b|"
        r"\w+\s*=\s*\w+\s*(?:%|&)\s*(?:2|1)\s*;|std::swap\s*\(\s*\w*(?:buf|stage|read|write|cur|next)"
    )
    for loop in code.loops:
        match = flip.search(loop.body) or flip.search(loop.head)
        if match and re.search(
            r"__syncthreads|__shared__|\[\s*\w*(?:buf|stage|cur|next|idx|ping|s)\w*\s*(?:\^\s*1)?\s*\]|wait|load",
            code.text,
        ):
            return loop.line
    return 0


def _persistent(code: Code) -> int:
    """A block strides over tiles by the size of the grid."""
    for loop in code.loops:
        if re.search(r"\+=\s*(?:\(\s*int\s*\)\s*)?gridDim\.x\s*[;)]", loop.head + loop.body) and re.search(
            r"=\s*(?:\(\s*int\s*\)\s*)?blockIdx\.x\s*[;,]", code.text
        ):
            return loop.line
    return 0


def _split_reduction(code: Code) -> int:
    shared_out = re.search(r"atomicAdd\s*\(\s*&?\s*\w*[CcDdOo]\w*\s*[\[+]|partial|workspace", code.text)
    range_of_block = re.search(
        r"blockIdx\.[zy]\s*\*\s*[(\w][^;]*[KkSs]\w*|\bk_?(?:start|begin|0|lo)\w*\s*=|(?:split_?k|slices?|k_?splits?)\b",
        code.text,
        re.I,
    )
    sums = re.search(r"for\s*\([^;]*;[^;]*<\s*\w*(?:split|slice)\w*[^)]*\)[^;]*\+=", code.text, re.I)
    if sums and shared_out:
        return _line(code.text, sums)
    has_product = _product_loop(code) or re.search(r"\+=[^;]*\*", code.text)
    return _line(code.text, range_of_block) if shared_out and range_of_block and has_product else 0


def _convolution(code: Code) -> int:
    window = re.search(
        r"\b\w+\s*\*\s*\w*(?:stride|sh|sw|str)\w*\s*(?:-\s*\w*pad\w*)?\s*\+|-\s*\w*pad\w*\s*\+\s*\w+|"
        r"\[[^\]]*\(?\s*\w*[yh]\w*\s*\+\s*(?:kh|r|ky|fh|i)\s*\)?[^\]]*\]", code.text)  # fmt: skip
    names = re.search(r"\b(?:kh|kw|ky|kx|fh|fw|filter|kernel_[hw]|KH|KW|FH|FW|R|S)\b", code.text)
    product = re.search(r"\+=[^;]*\*", code.text)
    return _line(code.text, window) if window and names and product and len(code.loops) >= 2 else 0


def _online_softmax(code: Code) -> int:
    exponentials = re.findall(
        r"\b(?:__)?(?:expf?|exp2f?|ex2\w*)\s*\(\s*[^()]*?[-*][^()]*(?:\([^()]*\))?[^()]*\)", code.text
    )
    rescale = re.search(
        r"\*=\s*(?:__)?(?:exp\w*\s*\(|\w*(?:corr|alpha|scale|rescale|factor)\w*)|\*\s*(?:__)?exp\w*\s*\([^;]*(?:m_?\w*|max\w*)\s*-",
        code.text,
    )
    maximum = re.search(r"f?max[f]?\s*\(", code.text)
    return _line(code.text, rescale) if len(exponentials) >= 2 and rescale and maximum and code.loops else 0


def _row_softmax(code: Code) -> int:
    shifted = re.search(r"\b(?:__)?exp\w*\s*\(\s*[^()]*(?:\[[^\]]*\])?\s*-\s*\w*(?:max|mx|m)\w*", code.text)
    divided = re.search(r"/=?\s*\w*(?:sum|denom|total|norm|l)\w*|\*=?\s*\w*inv\w*", code.text)
    return _line(code.text, shifted) if shifted and divided and re.search(r"max", code.text) else 0


def _transposed_tile(code: Code) -> int:
    stores = re.findall(r"(\w+)\s*\[([^\]]+)\]\s*\[([^\]]+)\]\s*=[^=]", code.text)
    for name, first, second in stores:
        read = re.search(
            rf"=[^=;]*\b{re.escape(name)}\s*\[\s*{re.escape(second.strip())}\s*\]\s*\[\s*{re.escape(first.strip())}\s*\]",
            code.text,
        )
        if read and not re.search(r"\+=[^;]*\*", code.text):
            return _line(code.text, read)
    flipped = re.search(
        r"\bout\w*\s*\[\s*(\w+)\s*\*\s*\w+\s*\+\s*(\w+)\s*\]\s*=\s*\w+\s*\[\s*\2\s*\*\s*\w+\s*\+\s*\1\s*\]",
        code.text,
    )
    return _line(code.text, flipped) if flipped else 0


def _guarded(code: Code) -> int:
    return _line(code.text, re.search(r"\bif\s*\([^{;]*<\s*[\w.]+\s*(?:&&[^{;]*<\s*[\w.]+)", code.text))


def _indexed_rows(code: Code) -> int:
    pattern = (
        r"\w+\s*\[[^\[\]]*\b\w*(?:idx|ind|index|indices|perm|map|ids|offsets?)\w*\s*\[[^\]]+\]"
        r"|\w*(?:idx|index|indices|perm|row_ids)\w*\s*\[[^\]]+\]\s*\*\s*\w+"
        r"|\b\w*(?:idx|ind|index|row|src|dst|id)\w*\s*=\s*\w*(?:idx|ind|indices|index|perm|map|ids)\w*\s*\["
    )
    return _line(code.text, re.search(pattern, code.text, re.I))


def _image_layout(code: Code) -> int:
    """Linear indices of both NHWC and NCHW order in one text."""
    channels_last = re.search(r"\*\s*\w*[Ww]\w*\s*\+\s*\w+\s*\)\s*\*\s*\w*[Cc]\w*\s*\+", code.text)
    planar = re.search(r"\*\s*\w*[Hh]\w*\s*\+\s*\w+\s*\)\s*\*\s*\w*[Ww]\w*\s*\+", code.text)
    copies = re.search(r"\]\s*=\s*\w+\s*\[", code.text)
    return _line(code.text, planar) if channels_last and planar and copies else 0


def _rms(code: Code) -> int:
    """A sum of squares, its root, and no mean taken away."""
    squares = re.search(r"\+=\s*(\w+(?:\[[^\]]*\])?)\s*\*\s*\1\s*;|\+=\s*powf?\(", code.text)
    root = re.search(r"\br?sqrtf?\s*\(", code.text)
    mean = re.search(r"-\s*\w*(?:mean|mu|avg)\w*", code.text)
    return _line(code.text, root) if squares and root and not mean else 0


def _block_reduction(code: Code) -> int:
    for loop in code.loops:
        halves = re.search(r">>=\s*1|/=\s*2|>>\s*1", loop.head)
        if halves and re.search(
            r"\w+\s*\[\s*\w[\w.]*\s*\]\s*(?:\+=|=\s*\w*max)[^;]*\[[^\]]*\+[^\]]*\]", loop.body
        ):
            return loop.line
    unrolled = re.search(r"(\w+)\s*\[\s*(\w[\w.]*)\s*\]\s*\+=\s*\1\s*\[\s*\2\s*\+\s*\w+\s*\]", code.text)
    return _line(code.text, unrolled)


def _batched_launch(code: Code) -> int:
    for loop in code.loops:
        if re.search(r"<<<.*?>>>|cublas\w*gemm\w*\s*\(|cudaLaunchKernel", loop.body, re.S | re.I):
            return loop.line
    return 0


def _batched_product(code: Code) -> int:
    stride = re.search(
        r"blockIdx\.z\s*\*\s*\w*(?:stride|batch|M|N|K)\w*|\+=?\s*(?:blockIdx\.z|batch\w*)\s*\*", code.text
    )
    return (
        _line(code.text, stride)
        if stride and re.search(r"\+=[^;]*\*", code.text) and not _split_reduction(code)
        else 0
    )


def _grouped(code: Code) -> int:
    pattern = (
        r"\bproblem(?:s|_sizes?)\s*\[|\b[MNK]s?\s*\[\s*(?:g|group|i|e|p)\w*\s*\]"
        r"|\w*ptrs?\s*\[\s*(?:g|group|e|expert|p)\w*\s*\]"
    )
    match = re.search(pattern, code.text)
    return _line(code.text, match) if match and code.loops else 0


def _rasterised(code: Code) -> int:
    pattern = r"(?:blockIdx\.x|pid|tile|block)\w*\s*(?:/|%)\s*\(?\s*\w*(?:group|swizzle|GROUP|panel|width)\w*"
    return _line(code.text, re.search(pattern, code.text))


def _tile_offset(code: Code) -> int:
    return _line(code.text, re.search(r"blockIdx\.[xy]\s*\*\s*(?:\d+|[A-Z]\w*)\s*(?:\+|\*|;)", code.text))


def _linear_index(code: Code) -> int:
    return _line(code.text, re.search(r"\[\s*\(?\s*\w[\w.]*\s*\*\s*\w+\s*\+[^\]]*\]", code.text))


def _line(code: str, match: re.Match[str] | None) -> int:
    return code.count("\n", 0, match.start()) + 1 if match else 0


_CHECKS: tuple[tuple[str, Callable[[Code], int]], ...] = (
    ("product loop", _product_loop),
    ("outer product", _outer_product),
    ("matrix vector product", _matrix_vector),
    ("triangular product", _triangular),
    ("double buffer", _double_buffer),
    ("persistent loop", _persistent),
    ("split reduction", _split_reduction),
    ("convolution window", _convolution),
    ("online softmax", _online_softmax),
    ("row softmax", _row_softmax),
    ("transposed tile", _transposed_tile),
    ("guarded access", _guarded),
    ("indexed rows", _indexed_rows),
    ("image layout", _image_layout),
    ("root mean square", _rms),
    ("block reduction", _block_reduction),
    ("batched launch", _batched_launch),
    ("batched product", _batched_product),
    ("grouped problems", _grouped),
    ("rasterised blocks", _rasterised),
    ("tile offset", _tile_offset),
    ("linear index", _linear_index),
)
