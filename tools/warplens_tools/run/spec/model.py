# SPDX-License-Identifier: Apache-2.0
"""What a launch spec says. It is a table `[[launch]]` of warplens.toml, or a comment above the kernel."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

#: A number, or an expression in C++ over the shape's sizes and what the file defines.
Value = int | float | bool | str
Fill = Literal["uniform", "zeros", "ones", "ramp", "permutation"]


class Data(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """What a pointer points to."""

    count: Annotated[int | str, Meta(description="Elements, a number or an expression in the sizes.")]
    low: Annotated[
        Value, Meta(description='Least value, -1 for floating-point and 0 for integers if "".')
    ] = ""
    high: Annotated[
        Value, Meta(description='Greatest value, 1 for floating-point and 100 for integers if "".')
    ] = ""
    fill: Annotated[
        Fill,
        Meta(
            description="Drawn anew for every launch between low and high, all zeros, all ones, rising evenly from "
            "low to high, or each of 0 to count - 1 once."
        ),
    ] = "uniform"
    type: Annotated[
        str,
        Meta(description="Element type, where the parameter does not say it (void*) or its parts are meant."),
    ] = ""
    each: Annotated[
        int | str,
        Meta(description="For a pointer to pointers: elements of each of `count` arrays."),
    ] = ""


class LaunchSpec(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """How one kernel is launched: its sizes, arguments and geometry."""

    source: Annotated[
        str, Meta(description="Glob of the files it is for, relative to the settings file; not in a comment.")
    ] = ""
    kernel: Annotated[
        str, Meta(description="The kernel, plain or qualified; in a comment it is the next one.")
    ] = ""
    template: Annotated[tuple[Value, ...], Meta(description="Template arguments.")] = ()
    shapes: Annotated[
        tuple[dict[str, Value], ...],
        Meta(description="Sizes by name, one table a shape; each is launched and measured."),
    ] = ({},)
    grid: Annotated[Value | tuple[Value, ...], Meta(description="Blocks: one to three extents.")] = 1
    block: Annotated[Value | tuple[Value, ...], Meta(description="Threads: one to three extents.")] = 256
    shared: Annotated[Value, Meta(description="Dynamic shared memory in bytes.")] = 0
    arguments: Annotated[
        dict[str, Data | Value],
        Meta(
            description="By the parameter's name: a table for a pointer, a value or expression for anything else; "
            "a parameter with the name of a size has its value."
        ),
    ] = {}
    buffers: Annotated[
        dict[str, Data],
        Meta(
            description="Further arrays with a type of their own, whose device pointers expressions may name."
        ),
    ] = {}
    symbols: Annotated[
        dict[str, Data],
        Meta(description="`__constant__` and `__device__` arrays that are filled before each launch."),
    ] = {}
    reference: Annotated[
        str,
        Meta(
            description="Function of the file that computes the same on the host, with the kernel's parameters; "
            "called with double where it takes that."
        ),
    ] = ""
    reference_python: Annotated[
        str,
        Meta(
            description="Statements in Python that set the kernel's outputs, by name, from its arguments: arrays of "
            "float64 (numpy's, or torch's where the text says torch), one-dimensional, and numbers."
        ),
    ] = ""
    python: Annotated[str, Meta(description="The Python that runs them, with numpy or torch.")] = "python3"
    tolerance: Annotated[
        float,
        Meta(ge=0, description="Relative difference from the reference; by the element type if 0."),
    ] = 0.0
    launches: Annotated[int, Meta(ge=1, le=1000, description="Launches of each shape.")] = 5
    seed: Annotated[int, Meta(ge=0, description="Seed of what is drawn.")] = 1


class PlacedSpec(msgspec.Struct, frozen=True):
    """A spec, the kernel it is for, and where it stands."""

    spec: LaunchSpec
    #: Qualified.
    kernel: str
    #: "k.cu:12" or "warplens.toml", for messages.
    place: str
