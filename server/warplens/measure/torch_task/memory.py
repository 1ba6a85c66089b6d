# SPDX-License-Identifier: Apache-2.0
"""Arrays that the examiner shares with a worker, described by plain data: no socket carries them, nothing is unpickled.

On a CPU they are files that both map, on a card the driver's handles of its memory. Imported by path on either side.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import torch

_COUNT = itertools.count()


def shared(x: Any, folder: Path) -> Any:
    """A copy of an array in memory that can be shared; anything else as it is."""
    if not isinstance(x, torch.Tensor):
        return x
    if x.is_cuda or not x.numel():
        return x.detach().clone(memory_format=torch.contiguous_format)
    path = folder / f"array-{next(_COUNT)}"
    held = torch.from_file(str(path), shared=True, size=x.numel(), dtype=x.dtype).view(x.shape)
    held.warplens_path = str(path)
    return held.copy_(x.detach())


def described(x: Any) -> Any:
    """How a worker finds such an array. The array must outlive the worker's use of it."""
    if not isinstance(x, torch.Tensor):
        return x
    made: dict[str, Any] = {"dtype": str(x.dtype).removeprefix("torch."), "shape": list(x.shape)}
    if x.is_cuda:
        device, handle, size, start, counter, counter_start, _, _ = x.untyped_storage()._share_cuda_()
        # whoever writes waits for the card before it says so: no event is needed
        made["cuda"] = (device, handle, size, start, counter, counter_start, b"", False)
        made["offset"] = x.storage_offset()
    elif x.numel():
        made["path"] = x.warplens_path
    return {"array": made}


def opened(said: Any, device: str) -> Any:
    """The array that was described."""
    if not isinstance(said, dict) or "array" not in said:
        return said
    made = said["array"]
    dtype, shape = getattr(torch, made["dtype"]), made["shape"]
    if "cuda" in made:
        torch.cuda.init()
        storage = torch.UntypedStorage._new_shared_cuda(*made["cuda"])
        stride = torch.empty(shape, device="meta").stride()
        return torch.empty(0, dtype=dtype, device=storage.device).set_(storage, made["offset"], shape, stride)
    if "path" in made:
        count = torch.Size(shape).numel()
        return torch.from_file(made["path"], shared=True, size=count, dtype=dtype).view(shape)
    return torch.empty(shape, dtype=dtype, device=device)


def each(slots: list[dict[str, Any]], change: Any) -> list[dict[str, Any]]:
    """Slots with each of their arrays changed."""
    return [{part: [change(x) for x in arrays] for part, arrays in slot.items()} for slot in slots]
