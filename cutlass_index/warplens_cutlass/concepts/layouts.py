"""Layouts and swizzles: where an element lives."""

from __future__ import annotations

from warplens_cutlass.concepts.model import Concept

CONCEPTS = (
    Concept(
        does="swizzles shared memory addresses with XOR",
        phrases=(
            "swizzle",
            "bank conflict",
            "xor swizzle",
            "avoid bank conflicts",
            "shared memory swizzle",
            "conflict free shared layout",
            "permute shared memory",
            "swizzled layout",
        ),
        symbols=("Swizzle", "composition", "ComposedLayout", "Layout_K_SW128_Atom"),
        examples=("tutorial/sgemm_sm80.cu", "hopper/wgmma_sm90.cu"),
        traces=(
            (
                r"\^=?\s*\(*\s*\(?\s*\w+(?:\s*\)?\s*(?:>>|/|%|&)\s*\w+)",
                r"\[|smem|sm_|shared|swz|swizzle|\bs[AB]\b|<<",
            ),
            (r"\w+\s*\^=?\s*\w+", r"(?i)swiz|swz|smem|shared|tile\w*\s*\["),
            (r"(?i)\bswizzle\w*\s*[(<]",),
        ),
        weight=1.25,
    ),
    Concept(
        does="pads a shared tile against bank conflicts",
        phrases=("padding shared memory", "pad shared tile", "plus one padding"),
        symbols=("Swizzle", "composition", "make_layout", "make_stride"),
        examples=("tutorial/sgemm_sm80.cu",),
        traces=(
            (r"__shared__[^;]*\[[^\]]*(?:\+\s*(?:1|2|4|8|PAD\w*|pad\w*|SKEW\w*)|(?:17|33|65|129))\s*\]",),
        ),
        weight=0.75,
    ),
    Concept(
        does="chooses a shared memory layout for wgmma",
        phrases=(
            "shared memory layout wgmma",
            "gmma smem layout",
            "smem layout atom",
            "128 byte swizzle",
            "sw128",
            "swizzle mode tma",
        ),
        symbols=("Layout_K_SW128_Atom", "Layout_MN_SW128_Atom", "ss_smem_selector", "tile_to_shape"),
        examples=("hopper/wgmma_sm90.cu", "hopper/wgmma_tma_sm90.cu"),
    ),
    Concept(
        does="linearises coordinates by hand",
        phrases=(
            "row major layout",
            "column major layout",
            "strides layout",
            "index from coordinates",
            "make layout shape stride",
            "coordinate to index",
            "linear index",
        ),
        symbols=("make_layout", "Layout", "crd2idx", "make_stride", "make_shape", "GenRowMajor"),
        examples=("tutorial/sgemm_1.cu", "tutorial/tiled_copy.cu"),
        structure=("linear index",),
        weight=0.3,
    ),
    Concept(
        does="converts an index to coordinates",
        phrases=("index to coordinate", "delinearize", "coordinates from linear index"),
        symbols=("idx2crd", "FastDivmod", "crd2idx"),
    ),
    Concept(
        does="prints or draws a layout",
        phrases=(
            "print layout",
            "visualize layout",
            "latex layout",
            "draw layout",
            "layout svg",
            "picture of layout",
            "print tensor",
        ),
        symbols=("print_layout", "print_latex", "print_svg", "print_tensor"),
        examples=("03_visualize_layout",),
    ),
    Concept(
        does="reinterprets a tensor in another element type",
        phrases=("recast tensor", "reinterpret tensor type", "cast layout other type", "bit cast tensor"),
        symbols=("recast", "recast_layout", "recast_ptr", "upcast", "downcast"),
    ),
    Concept(
        does="permutes tensor modes",
        phrases=("permute tensor", "permute layout output", "transpose output gemm", "gemm permute"),
        symbols=("select", "permute", "GemmPermute"),
        examples=("39_gemm_permute", "53_hopper_gemm_permute"),
    ),
    Concept(
        does="interleaves or reorders data on the host",
        phrases=("reorder interleaved", "host reorder", "interleaved layout", "ncxhwx"),
        symbols=("reorder_column", "reorder_convK", "ColumnMajorInterleaved", "TensorNCxHWx"),
    ),
    Concept(
        does="converts image layouts",
        phrases=("nchw to nhwc", "nhwc to nchw", "convert image layout"),
        symbols=("nhwc_to_nchw", "nchw_to_nhwc", "nhwc_to_nchw_kernel", "TensorNHWC"),
        structure=("image layout",),
        weight=1.3,
    ),
)
