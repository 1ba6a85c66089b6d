# SPDX-License-Identifier: Apache-2.0
"""The reference of a task, how far others may be from it, and whether the task can tell right from wrong.

Imported by `examiner.py` from beside it.
"""

from __future__ import annotations

import copy
import importlib.util
import secrets
from typing import Any

import torch
from remote import WorkerError

#: Largest output that counts as near zero, and least spread relative to its size that counts as none: the figures of
#: robust-kbench's filters.
NEAR_ZERO, NO_SPREAD = 0.01, 0.01
#: What a sum in another order may add to the reference's own error.
SLACK = 4.0
#: Units of rounding by which values are moved to see where gradients jump (ReLU, maxima, absolute values), and how
#: often: a sum in another order lands on the other side of such a point within about as many, every second time.
NEARBY, TRIALS = 16.0, 24
#: Relative error below which results are those of a lower precision rather than wrong.
LOWERED = 2.0**-6


class Task:
    """The reference: its module file is the user's, and trusted."""

    def __init__(self, path: str, device: str, training: bool) -> None:
        spec = importlib.util.spec_from_file_location("task", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.path, self.device, self.training = path, device, training
        for name in ("Model", "get_inputs", "get_init_inputs"):
            if not hasattr(module, name):
                raise WorkerError("refused", f"the task defines no {name}")
        self._inputs = module.get_inputs
        torch.manual_seed(secrets.randbits(60))
        self.init = list(module.get_init_inputs())
        self.model = module.Model(*self.init).to(device)
        self.model.train(training)
        self.double = self._doubled()
        self._example: tuple[list[Any], list[torch.Tensor]] | None = None

    @property
    def example(self) -> tuple[list[Any], list[torch.Tensor]]:
        """Inputs, and the outputs for them: shapes for whoever needs room."""
        if self._example is None:
            inputs = self.inputs()
            self._example = inputs, self.outputs(inputs)
        return self._example

    def inputs(self, scale: float = 1.0) -> list[Any]:
        """Inputs of a seed that nobody else knows."""
        torch.manual_seed(secrets.randbits(60))
        # where the task names no device they are made on the card, which takes a hundredth of the time
        with torch.device(self.device):
            return [self.placed(x, scale) for x in self._inputs()]

    def placed(self, x: Any, scale: float) -> Any:
        """An input on the device; a floating-point one scaled."""
        if not isinstance(x, torch.Tensor):
            return x
        x = x.to(self.device)
        return x * scale if x.is_floating_point() and scale != 1.0 else x

    def outputs(self, inputs: list[Any], *, double: bool = False) -> list[torch.Tensor]:
        """What the reference gives; in double precision where that is asked for and can be."""
        model = self.double if double and self.double is not None else self.model
        if model is self.double:
            inputs = [wide_of(x) for x in inputs]
        with torch.no_grad():
            return tensors(model(*copied(inputs)))

    def gradients(
        self, inputs: list[Any], cotangents: list[torch.Tensor], *, double: bool = False
    ) -> list[torch.Tensor | None]:
        """Gradients of the floating-point inputs, then of the parameters, along the cotangents."""
        model = self.double if double and self.double is not None else self.model
        if model is self.double:
            inputs, cotangents = [wide_of(x) for x in inputs], [wide_of(c) for c in cotangents]
        return _gradients(model, inputs, cotangents)

    def jumps(self, inputs: list[Any], cotangents: list[torch.Tensor]) -> list[torch.Tensor | None]:
        """How far each gradient moves, at most, where inputs and parameters move by what rounding may move them."""
        kept = self.double if self.double is not None else self.model
        wide = [wide_of(x) if kept is self.double else x for x in inputs]
        along = [wide_of(c) if kept is self.double else c for c in cotangents]
        exact = _gradients(kept, wide, along)
        most = [None if g is None else torch.zeros_like(g) for g in exact]
        for _ in range(TRIALS):
            model = copy.deepcopy(kept)
            with torch.no_grad():
                for moved, own in zip(model.parameters(), self.model.parameters(), strict=True):
                    moved.copy_(_shaken(moved, own.dtype))
            given = [_shaken(x, o.dtype) if floating(o) else x for x, o in zip(wide, inputs, strict=True)]
            for number, (there, here) in enumerate(zip(_gradients(model, given, along), exact, strict=True)):
                if here is not None and there is not None:
                    most[number] = torch.maximum(most[number], (there - here).abs())
        return most

    def _doubled(self) -> Any:
        try:
            double = copy.deepcopy(self.model).double()
            with torch.no_grad():
                double(*[wide_of(x) for x in self.inputs()])
        except Exception:  # noqa: BLE001 - a module that knows no double precision is compared in its own
            return None
        return double


def _gradients(model: Any, inputs: list[Any], cotangents: list[torch.Tensor]) -> list[torch.Tensor | None]:
    given = [x.clone().requires_grad_() if floating(x) else x for x in inputs]
    model.zero_grad(set_to_none=True)
    # not detached: gradients go back through them
    outputs = tensors(model(*given))
    pairs = [(o, c) for o, c in zip(outputs, cotangents, strict=True) if o.requires_grad]
    torch.autograd.backward([o for o, _ in pairs], [c for _, c in pairs])
    found = [x.grad for x in given if floating(x)] + [p.grad for p in model.parameters()]
    return [None if g is None else g.detach().clone() for g in found]


def _shaken(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Each number moved by up to `NEARBY` units of rounding of that type."""
    return x * (1.0 + NEARBY * torch.finfo(dtype).eps * (2.0 * torch.rand_like(x) - 1.0))


def floating(x: Any) -> bool:
    """Whether it is an array of floating-point numbers."""
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def wide_of(x: Any) -> Any:
    """The same in double precision."""
    return x.double() if floating(x) else x


def copied(inputs: list[Any]) -> list[Any]:
    """Copies, which a call may change."""
    return [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]


def tensors(outputs: Any) -> list[torch.Tensor]:
    """The arrays that a call gave, as it gave them."""
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def unlike(
    is_: torch.Tensor, truth: torch.Tensor, reference: torch.Tensor, jump: torch.Tensor | None = None
) -> tuple[str, float, bool]:
    """How an output is wrong ("" if not), its error in units of the bound, and whether it is of a lower precision.

    The bound rests on the reference's own error against double precision, where there is one, and on how far each
    element of it jumps where rounding alone decides.
    """
    if not truth.is_floating_point():
        same = torch.equal(is_, reference)
        return ("" if same else "whole numbers differ", 0.0 if same else float("inf"), False)
    is_, wide, own = is_.double(), truth.double(), reference.double()
    if bool((torch.isfinite(wide) & ~torch.isfinite(is_)).any()):
        return "it gives values that are not finite, or leaves some unwritten", float("inf"), False
    finite = torch.isfinite(wide)
    wide, own, is_ = wide[finite], own[finite], is_[finite]
    if wide.numel() == 0:
        return "", 0.0, False
    eps = torch.finfo(reference.dtype).eps
    scale = float(wide.abs().mean())
    bound = SLACK * float((own - wide).abs().max()) + 8 * eps * wide.abs() + 32 * eps * scale
    if jump is not None:
        bound = bound + SLACK * jump.double()[finite]
    ratio = float(((is_ - wide).abs() / bound.clamp_min(1e-300)).max())
    if ratio <= 1.0:
        return "", ratio, False
    lowered = bool(((is_ - wide).abs() <= LOWERED * (wide.abs() + scale)).all())
    at = int(((is_ - wide).abs() / bound.clamp_min(1e-300)).argmax())
    said = f"element {at} is {float(is_[at]):.6g}, the reference {float(wide[at]):.6g}"
    return f"{said} ({ratio:.3g} times the bound)", ratio, lowered


def defect(task: Task) -> str:
    """Why a task says nothing of whoever solves it; "" for a sound one."""
    first = task.inputs()
    runs = [task.outputs(first), task.outputs(first), *(task.outputs(task.inputs()) for _ in range(3))]
    if any(not torch.isfinite(o).all() for run in runs for o in run if floating(o)):
        return "its output is not finite"
    if any(not torch.equal(a, b) for a, b in zip(runs[0], runs[1], strict=True)):
        return "its output changes from run to run on the same inputs"
    values = [torch.cat([o.double().flatten() for o in run]) for run in runs[1:]]
    size = max(float(v.abs().max()) for v in values)
    if size < NEAR_ZERO:
        return f"its output is near zero everywhere: at most {size:.2g}, and wrong results would pass"
    spread = max(float(v.std()) if v.numel() > 1 else 0.0 for v in values)
    change = max(float((v - values[0]).abs().max()) for v in values[1:])
    if change <= NO_SPREAD * max(spread, NO_SPREAD * size):
        return "its output does not depend on its inputs"
    if spread < NO_SPREAD * size and change < NO_SPREAD * size:
        return "its output is constant"
    return ""
