# SPDX-License-Identifier: Apache-2.0
"""managed-faults

**What.** A kernel works on managed memory that the host has filled, and nothing brings its pages to the device before.

**Why it costs.** Each page is on the host when the kernel first touches it: the thread faults, the driver moves some
64 KB to 2 MB, and the warp waits for tens of microseconds. A kernel that goes through an array once then runs at a part
of the speed of the link, far below that of a copy; the host's reads afterwards fault the pages back.

**Wrong**

```cuda
cudaMallocManaged(&x, bytes);
fill(x, n);
scale<<<grid, block>>>(x, n);
```

**Right**

```cuda
cudaMallocManaged(&x, bytes);
fill(x, n);
cudaMemPrefetchAsync(x, bytes, device);                 // or cudaMalloc and cudaMemcpy
scale<<<grid, block>>>(x, n);
```

**Evidence.** `cudaMallocManaged` of a pointer that a launch in the same function is passed, in a file without
`cudaMemPrefetchAsync` and `cudaMemAdvise`.

**Threshold.** None: how often the pages move a run shows, so it is information, on the first kernel that is launched
with such a pointer.

**References.** CUDA C++ Programming Guide, "Unified Memory Programming" (data prefetching).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplens_tools.cuda.model import LaunchSite
from warplens_tools.finding import Finding, RelatedSpan
from warplens_tools.micro.base import MicroTool
from warplens_tools.text import Span

_ALLOCATES = re.compile(
    r"\bcudaMallocManaged\s*(?:<[^<>]*>)?\s*\(\s*(?:\([^()]*\)\s*)?&\s*([A-Za-z_]\w*)\s*,"
    r"(?!\s*sizeof\s*\([^()]*\)\s*\))"
)
_BRINGS = re.compile(r"\bcudaMem(?:PrefetchAsync|Advise|PrefetchBatchAsync)\b")


class ManagedFaults(MicroTool):
    """Managed memory comes to the device page by page, by faults."""

    code = "WL408"
    slug = "managed-faults"
    title = "Managed memory is brought to the device by page faults"
    avoid = "Do not prefetch what the host changes again before the launch."
    of_program = True
    tiers = ("source", "binary")
    relevant = ("launch", "latency", "memory", "compute")

    def check(self) -> Iterator[Finding]:
        """One finding per function that allocates and launches, on the first allocation."""
        code = self.view.tree.masked.source
        if "cudaMallocManaged" not in code or _BRINGS.search(code):
            return
        for site in self.view.sites:
            taken = self._taken(site)
            earlier = (s for s in self.view.model.launches if s.host_function == site.host_function)
            if not taken or any(s.span < site.span and self._taken(s) for s in earlier):
                continue
            (name, place), *others = taken.items()
            yield self.finding(
                place,
                severity="information",
                confidence="medium",
                message=(
                    f"Managed memory without prefetch: {', '.join([name, *(n for n, _ in others)])} come to the device "
                    f"page by page, by faults of the threads of {self.view.kernel.name} that touch them first."
                ),
                guidance=(
                    "Call cudaMemPrefetchAsync for each array before the launch, and back before the host reads; or "
                    "use cudaMalloc and cudaMemcpy, from pinned memory."
                ),
                evidence=(
                    self.view.observe(
                        "managed arrays of the launch", float(len(taken)), "", 0.0, tier="source"
                    ),
                ),
                related=(RelatedSpan(site.span, "the launch that faults first"),),
            )
            return

    def _taken(self, site: LaunchSite) -> dict[str, Span]:
        """The managed pointers that a launch is passed, with where its function allocates them."""
        if site.path:
            return {}
        tree = self.view.tree
        start = tree.text.offset(site.span.line, site.span.column)
        function = tree.function_at(start, start)
        if function is None:
            return {}
        code = tree.masked.source[function.start_byte : start]
        passed = {word for a in site.arguments for word in re.findall(r"[A-Za-z_]\w*", a)}
        return {
            found[1]: tree.text_span(function.start_byte + found.start(), function.start_byte + found.end())
            for found in _ALLOCATES.finditer(code)
            if found[1] in passed
        }
