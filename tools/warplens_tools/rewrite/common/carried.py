# SPDX-License-Identifier: Apache-2.0
"""What statements inside a loop take along from outside when they are done for several outputs."""

from __future__ import annotations

import msgspec
from tree_sitter import Node

from warplens_tools.rewrite.common.declared import Declared


class Carried(msgspec.Struct, frozen=True):
    """What the groups inside a loop take from outside: locals to declare again, and conditions to skip by."""

    locals: tuple[Declared, ...] = ()
    skips: tuple[Node, ...] = ()
    #: Conditions under which there is work, as written.
    tests: tuple[str, ...] = ()
