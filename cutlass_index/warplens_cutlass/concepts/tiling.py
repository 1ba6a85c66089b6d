"""Dividing tensors into tiles and handing them to threads."""

from __future__ import annotations

from warplens_cutlass.concepts.model import Concept

CONCEPTS = (
    Concept(
        does="computes tile offsets from block indices",
        phrases=(
            "tile tensor cta",
            "cta tile",
            "block tile coordinate",
            "tile by block",
            "local tile",
            "slice tile tensor",
            "tile matrix blocks",
        ),
        symbols=("local_tile", "inner_partition", "zipped_divide"),
        examples=("tutorial/sgemm_1.cu", "tutorial/tiled_copy.cu"),
        structure=("tile offset",),
        weight=0.5,
    ),
    Concept(
        does="hands elements to threads by index arithmetic",
        phrases=(
            "partition threads",
            "thread partition tensor",
            "each thread gets",
            "local partition",
            "distribute elements threads",
        ),
        symbols=("local_partition", "outer_partition", "make_tiled_copy"),
        examples=("tutorial/sgemm_1.cu",),
        weight=0.5,
    ),
    Concept(
        does="divides a layout by a tile",
        phrases=(
            "divide layout",
            "logical divide",
            "zipped divide",
            "tile layout algebra",
            "split layout into tiles",
        ),
        symbols=("logical_divide", "zipped_divide", "tiled_divide", "flat_divide"),
    ),
    Concept(
        does="repeats a layout (product)",
        phrases=(
            "layout product",
            "blocked product",
            "raked product",
            "repeat layout",
            "tile to shape",
            "replicate layout",
        ),
        symbols=("logical_product", "blocked_product", "raked_product", "tile_to_shape"),
    ),
    Concept(
        does="composes layouts",
        phrases=("compose layouts", "layout composition", "composition", "function composition layout"),
        symbols=("composition", "ComposedLayout"),
    ),
    Concept(
        does="inverts a layout or takes its complement",
        phrases=("inverse layout", "layout inverse", "complement layout", "left inverse", "right inverse"),
        symbols=("right_inverse", "left_inverse", "complement"),
    ),
    Concept(
        does="simplifies a layout",
        phrases=("coalesce layout", "simplify layout", "flatten layout", "merge modes"),
        symbols=("coalesce", "flatten", "filter", "group_modes"),
    ),
    Concept(
        does="wraps a pointer as a tensor",
        phrases=(
            "wrap pointer tensor",
            "make tensor pointer",
            "tensor from raw pointer",
            "create tensor global memory",
            "gmem tensor",
        ),
        symbols=("make_tensor", "make_gmem_ptr", "make_smem_ptr"),
        examples=("tutorial/sgemm_1.cu",),
    ),
    Concept(
        does="allocates register fragments",
        phrases=(
            "register fragment",
            "register tensor",
            "make fragment",
            "accumulator fragment",
            "rmem tensor",
        ),
        symbols=("make_fragment_like", "make_tensor_like", "partition_fragment_C", "make_tensor"),
        examples=("tutorial/sgemm_2.cu",),
    ),
    Concept(
        does="builds coordinates for predication",
        phrases=("identity tensor", "coordinate tensor", "tensor of coordinates", "predicate tensor"),
        symbols=("make_identity_tensor", "make_identity_layout", "elem_less", "ArithmeticTuple"),
        examples=("tutorial/tiled_copy_if.cu",),
    ),
    Concept(
        does="multiplies cooperatively with a whole block",
        phrases=("cooperative gemm", "block wide gemm shared memory"),
        symbols=("cooperative_gemm",),
    ),
    Concept(
        does="fills or clears a tensor",
        phrases=("clear accumulator", "fill tensor", "zero tensor", "initialize tensor constant"),
        symbols=("clear", "fill"),
    ),
    Concept(
        does="combines tensors elementwise",
        phrases=("axpby", "scale and add tensors", "elementwise transform tensor", "elementwise tensor"),
        symbols=("axpby", "transform", "for_each"),
    ),
)
