# SPDX-License-Identifier: Apache-2.0
"""The gates for one baseline's host side: as it is, and with the headers that candidates add."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from warplens.measure.build.fence import Fence
from warplens.measure.build.host_gate import HostGate
from warplens.measure.build.host_object import HostObject, objects_differ
from warplens.measure.build.host_split import HostSplit
from warplens.measure.build.includes import Added, added_includes, with_includes
from warplens_tools.process.guard import die_with_parent
from warplens_tools.process.task import Task


class HostGates:
    """Each gate is made once, beside whatever else is going on. `folder` is the builder's."""

    def __init__(self, split: HostSplit, text: str, folder: Path, fence: Fence) -> None:
        self._split, self._text, self._folder, self._fence = split, text, folder, fence
        # one opens gates, the other tells lines of one that is open
        self._openers, self._opening = ThreadPoolExecutor(2), threading.Lock()
        self._gates: dict[Added, Future[HostGate]] = {}
        #: The host objects of the gates' baselines, by the gate's number.
        self._objects: dict[int, HostObject] = {}
        #: Texts with no size of their own.
        self._alike: set[str] = set()

    def open(self, task: Task) -> None:
        """Begin with the baseline's own gate."""
        self._with((), task)

    def why_not(self, text: str, folder: Path, task: Task) -> str:
        """Why the host compiler is given more than other sizes by a candidate's text; "" if it is not.

        Raises:
            CompileError, ToolFailedError: the text, or the baseline's, cannot be split into host and device code.
            TimeLimitError, CancelledError: as named.
        """
        # what the baseline reads is known once its gate is open
        self._with((), task).result()
        gate = self._with(added_includes(self._text, text), task).result()
        return gate.why_not(self._split.split(text, folder, self._fence.around(folder), task, gate.side))

    def why_not_built(self, text: str, folder: Path, task: Task) -> str:
        """How the host object of an allowed text is not the baseline's once its sizes are; "" if it is.

        Raises:
            as `why_not`.
        """
        self._with((), task).result()
        added = added_includes(self._text, text)
        gate = self._with(added, task).result()
        number = list(self._gates).index(added)
        inside = self._fence.around(folder)
        side = self._split.split(text, folder, inside, task, gate.side)
        if why := gate.why_not(side):
            return why
        own = self._folder / f"host-{number}"
        with self._opening:
            if number not in self._objects:
                around = self._fence.around(own)
                self._objects[number] = self._split.compiled(own, gate.side.host, (), around, task)
        back = gate.put_back(side)
        if not back:
            self._alike.add(text)
        candidate = self._split.compiled(folder, side.host, back, inside, task)
        return objects_differ(self._objects[number], candidate)

    def keeps_sizes(self, text: str) -> bool:
        """Whether a text that `why_not_built` has nothing against has the baseline's sizes too."""
        return text in self._alike

    def _with(self, added: Added, task: Task) -> Future[HostGate]:
        with self._opening:
            if added not in self._gates:
                self._gates[added] = self._openers.submit(self._open, added, len(self._gates), task)
            return self._gates[added]

    def _open(self, added: Added, number: int, task: Task) -> HostGate:
        folder = self._folder / f"host-{number}"
        if added:
            text = with_includes(self._text, added)
            return self._split.gate(text, folder, self._fence.around(folder), task)
        gate = self._split.gate(self._text, folder, die_with_parent, task)
        self._fence.also(self._split.dependencies(folder))
        # nearly every edit moves lines
        self._openers.submit(gate.count_lines)
        return gate
