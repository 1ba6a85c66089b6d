# SPDX-License-Identifier: Apache-2.0
"""Launches between copies of the same call: what the kernel works on comes over the link to the host and goes back."""

from __future__ import annotations

from warplens_tools.cuda.facts.host_copies import HostCopy, host_copies
from warplens_tools.cuda.model import LaunchSite, SourceModel
from warplens_tools.cuda.syntax.functions import functions_of
from warplens_tools.cuda.syntax.tree import SourceTree

#: Launches of a function up to which its copies are much beside them.
FEW = 4
Copies = tuple[list[HostCopy], list[HostCopy]]


def copies_around(tree: SourceTree, model: SourceModel, site: LaunchSite) -> Copies:
    """The copies to the device before a launch and those back behind it, in its function; none where that is `main`,
    or a loop launches it again."""
    beside = sum(s.host_function == site.host_function for s in model.launches)
    if site.host_function in ("", "main") or site.loop_depth or beside > FEW:
        return [], []
    bodies = [tree.span(f.body) for f in functions_of(tree) if not f.is_kernel]
    body = next((b for b in bodies if b.contains_line(site.span.line)), None)
    if body is None:
        return [], []
    own = [c for c in host_copies(tree, [site.span]) if body.contains_line(c.call.span.line)]
    into = [c for c in own if c.direction == "in" and c.call.span < site.span]
    return into, [c for c in own if c.direction == "out" and site.span < c.call.span]
