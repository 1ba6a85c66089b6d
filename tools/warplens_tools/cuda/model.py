# SPDX-License-Identifier: Apache-2.0
"""Plain data of the source model. Made by `warplens_tools.cuda.parse`; holds no syntax-tree nodes.

Expressions are kept as written. Where a value follows from literals, `#define`s, `constexpr` and
`const` integers of the same file it is also given as an `int`; otherwise that field is None.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from warplens_tools.text import Span


class Parameter(msgspec.Struct, frozen=True):
    """One kernel parameter."""

    name: str
    #: The type as written, without the name: "const float* __restrict__".
    type: str
    span: Span
    #: "float" of "const float*"; the type itself for a by-value parameter.
    element_type: str
    pointer: bool = False
    #: The pointed-to data is const.
    const: bool = False
    restrict: bool = False


class ArrayDeclaration(msgspec.Struct, frozen=True):
    """An array declared in a kernel body, or a `__constant__` or `__device__` array of the file."""

    name: str
    element_type: str
    space: Literal["shared", "local", "constant", "global"]
    #: Extents as written, outermost first; empty for `extern __shared__ T name[]`.
    extents: tuple[str, ...]
    #: The extents as integers, each None where it does not follow from constants.
    sizes: tuple[int | None, ...]
    #: The whole declaration.
    span: Span
    #: Each extent's expression, as `extents`.
    extent_spans: tuple[Span, ...] = ()
    dynamic: bool = False


class LaunchBounds(msgspec.Struct, frozen=True):
    """`__launch_bounds__(max_threads, min_blocks)` as written and, where constant, as integers."""

    max_threads: str
    min_blocks: str = ""
    max_threads_value: int | None = None
    min_blocks_value: int | None = None
    span: Span | None = None


class Kernel(msgspec.Struct, frozen=True):
    """A `__global__` function with a body."""

    name: str
    #: With namespaces and classes, without template arguments: "ns::scale". Anonymous namespaces are
    #: spelled "(anonymous namespace)", as a demangler does.
    qualified_name: str
    parameters: tuple[Parameter, ...]
    #: The whole definition, from `template`/`extern`/`__global__` to the closing brace.
    #: What a macro writes stands where the macro is used; see `macro`.
    span: Span
    name_span: Span
    body: Span
    template_parameters: tuple[str, ...] = ()
    launch_bounds: LaunchBounds | None = None
    arrays: tuple[ArrayDeclaration, ...] = ()
    extern_c: bool = False
    #: Names of functions called in the body that this file defines.
    calls: tuple[str, ...] = ()
    #: Name of the textual macro the kernel is written through; "" for a plain kernel.
    macro: str = ""
    #: The text has syntax errors inside the definition: what is listed may be incomplete.
    broken: bool = False

    def moved(self, lines: int) -> Kernel:
        """The same so many lines further down."""
        if not lines:
            return self
        replace, bounds = msgspec.structs.replace, self.launch_bounds
        if bounds is not None and bounds.span is not None:
            bounds = replace(bounds, span=bounds.span.moved(lines))
        return replace(
            self,
            parameters=tuple(replace(p, span=p.span.moved(lines)) for p in self.parameters),
            span=self.span.moved(lines),
            name_span=self.name_span.moved(lines),
            body=self.body.moved(lines),
            launch_bounds=bounds,
            arrays=tuple(
                replace(
                    array,
                    span=array.span.moved(lines),
                    extent_spans=tuple(extent.moved(lines) for extent in array.extent_spans),
                )
                for array in self.arrays
            ),
        )


class LaunchSite(msgspec.Struct, frozen=True):
    """One `kernel<<<grid, block, shared, stream>>>(…)`, or a call of a `cudaLaunchKernel` form."""

    #: As written, e.g. "ns::scale"; "" where it is launched through a pointer that may hold several.
    kernel_name: str
    #: Template arguments as written, e.g. ("float", "4").
    template_arguments: tuple[str, ...]
    grid: str
    block: str
    shared: str
    stream: str
    #: Extents where they follow from constants; (x, y, z), each None if not.
    grid_value: tuple[int | None, int | None, int | None]
    block_value: tuple[int | None, int | None, int | None]
    #: 0 where the launch gives no size.
    shared_value: int | None
    span: Span
    grid_span: Span
    block_span: Span
    arguments: tuple[str, ...]
    #: Name of the host function it stands in; "" at file scope.
    host_function: str = ""
    #: Nesting depth of loops around it in that function.
    loop_depth: int = 0
    #: Counters of those loops that go on by one, innermost first.
    counters: tuple[str, ...] = ()
    #: The file it stands in; "" for that of the model. Spans are of that file.
    path: str = ""
    #: What the arguments come to, None each where that is not known; empty where the model's own text tells.
    argument_values: tuple[int | None, ...] = ()
    #: As `grid_value` and `block_value` in a run of the program without arguments, where they hang on those; else None.
    untold: (
        tuple[tuple[int | None, int | None, int | None], tuple[int | None, int | None, int | None]] | None
    ) = None

    def moved(self, lines: int) -> LaunchSite:
        """The same so many lines further down."""
        if not lines:
            return self
        span, grid, block = (s.moved(lines) for s in (self.span, self.grid_span, self.block_span))
        return msgspec.structs.replace(self, span=span, grid_span=grid, block_span=block)


class Constant(msgspec.Struct, frozen=True):
    """An integer that the file fixes: a `#define`, or a `constexpr`/`const` variable."""

    name: str
    value: int | None
    text: str
    kind: Literal["define", "constexpr", "const"]
    span: Span
    value_span: Span


class Include(msgspec.Struct, frozen=True):
    """One `#include`."""

    target: str
    system: bool
    span: Span


class SourceModel(msgspec.Struct, frozen=True):
    """What one file says, in file order."""

    path: str
    kernels: tuple[Kernel, ...]
    launches: tuple[LaunchSite, ...]
    constants: tuple[Constant, ...]
    includes: tuple[Include, ...]
    #: Places the parser could not read; empty for a clean file.
    errors: tuple[Span, ...] = ()
    has_main: bool = False
    #: The text uses CuTe/CUTLASS, wgmma, TMA or setmaxnreg, so sm_90 means sm_90a.
    needs_arch_specific: bool = False
    #: Launches of this file's kernels in other files, see `surroundings`.
    elsewhere: tuple[LaunchSite, ...] = ()

    def kernel(self, name: str) -> Kernel | None:
        """The kernel of that qualified or plain name; the first when a plain name is shared."""
        return next((k for k in self.kernels if k.qualified_name == name), None) or next(
            (k for k in self.kernels if k.name == name), None
        )

    def same(self, kernel: Kernel, before: SourceModel) -> Kernel | None:
        """What a kernel of `before`, the model of another form of this text, is here: by its place among those of its
        name, as overloads have one. None where their number differs."""
        here, there = (
            [k for k in model.kernels if k.qualified_name == kernel.qualified_name]
            for model in (self, before)
        )
        return here[there.index(kernel)] if kernel in there and len(here) == len(there) else None

    def launches_of(self, kernel: Kernel) -> tuple[LaunchSite, ...]:
        """Launch sites of this file that name the kernel."""
        return tuple(s for s in self.launches if s.kernel_name.rsplit("::", 1)[-1] == kernel.name)

    def all_launches_of(self, kernel: Kernel) -> tuple[LaunchSite, ...]:
        """Launch sites that name the kernel: this file's, then those of others."""
        return (
            *self.launches_of(kernel),
            *(s for s in self.elsewhere if s.kernel_name.rsplit("::", 1)[-1] == kernel.name),
        )
