# SPDX-License-Identifier: Apache-2.0
"""Runs one module where it can do no harm to what is measured: a script, `python worker.py FD`.

Gets pickled messages from the examiner, whom it trusts; answers with JSON, since nobody should unpickle what it says.
Arrays lie in memory that both share (`memory.py`): inputs are read from it, and outputs are copied into it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch


def _beside(name: str) -> Any:
    """A module of this folder, which itself stays off the path: what is imported by name is the candidate's own."""
    spec = importlib.util.spec_from_file_location(f"_warplens_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MEMORY = _beside("memory")


class Runner:
    """One module and the memory of its calls."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.model: Any = None
        self.mode = "eager"
        self.slots: list[dict[str, Any]] = []
        self._scratches: dict[Any, tuple[torch.Tensor, torch.Tensor]] = {}

    def load(self, message: dict[str, Any]) -> dict[str, Any]:
        """Make the module with the reference's parameters."""
        spec = importlib.util.spec_from_file_location("candidate", message["path"])
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["candidate"] = module
        spec.loader.exec_module(module)
        made = getattr(module, message["name"], None)
        if made is None:
            return {"error": f"it defines no {message['name']}"}
        given = torch.load(io.BytesIO(message["given"]), map_location=self.device, weights_only=False)
        self.model = made(*given["init"]).to(self.device)
        self.model.train(message["training"])
        self.mode = message["mode"]
        if error := self._adopt(given["state"]):
            return {"error": error}
        if self.mode == "tf32":
            torch.set_float32_matmul_precision("high")
        if self.mode == "compile":
            self.model = torch.compile(self.model)
        return {}

    def _adopt(self, state: dict[str, Any]) -> str:
        """The reference's parameters, by name or else in order; why not, else ""."""
        own = self.model.state_dict()
        if set(own) != set(state):
            same = [tuple(t.shape) for t in own.values()] == [tuple(t.shape) for t in state.values()]
            if not same:
                return "its parameters are not the reference's, by name or in order"
            state = dict(zip(own, state.values(), strict=True))
        self.model.load_state_dict(state)
        return ""

    def run(self, message: dict[str, Any]) -> dict[str, Any]:
        """Call the module on each slot in turn; what it gave is in the slots when this is answered."""
        for number in message["slots"]:
            error = self._call(self.slots[number], backward=message["backward"])
            if error:
                return {"error": error}
        if self.device.startswith("cuda"):
            torch.cuda.synchronize()
        return {}

    def _call(self, slot: dict[str, Any], *, backward: bool) -> str:
        given = slot["inputs"]
        if backward:
            given = [x.detach().requires_grad_() if _differs(x) else x for x in given]
            self.model.zero_grad(set_to_none=True)
        with torch.set_grad_enabled(backward), self._precision():
            outputs = _listed(self.model(*given))
        if len(outputs) != len(slot["outputs"]):
            return f"it gives {len(outputs)} tensors, the reference {len(slot['outputs'])}"
        for is_, should in zip(outputs, slot["outputs"], strict=True):
            if not isinstance(is_, torch.Tensor) or tuple(is_.shape) != tuple(should.shape):
                return f"it gives {getattr(is_, 'shape', type(is_).__name__)}, the reference {tuple(should.shape)}"
        if backward:
            return self._backward(slot, given, outputs)
        for is_, buffer in zip(outputs, slot["outputs"], strict=True):
            buffer.copy_(is_)
        return ""

    def _backward(self, slot: dict[str, Any], given: list[Any], outputs: list[Any]) -> str:
        along = [(o, c) for o, c in zip(outputs, slot["cotangents"], strict=True) if o.requires_grad]
        if not along:
            return "no gradient reaches its inputs or parameters"
        torch.autograd.backward([o for o, _ in along], [c for _, c in along])
        leaves = [x.grad for x in given if _differs(x)] + [p.grad for p in self.model.parameters()]
        with torch.no_grad():
            for is_, buffer in zip(outputs, slot["outputs"], strict=True):
                buffer.copy_(is_)
            for number, (grad, buffer) in enumerate(zip(leaves, slot["gradients"], strict=True)):
                if buffer is None:
                    continue
                if grad is None:
                    return f"there is no gradient of input or parameter {number}"
                buffer.copy_(grad)
        return ""

    @contextlib.contextmanager
    def _precision(self) -> Iterator[None]:
        if self.mode != "bf16":
            yield
            return
        with torch.autocast(self.device.partition(":")[0], dtype=torch.bfloat16):
            yield

    def beside(self, message: dict[str, Any]) -> dict[str, Any]:
        """What `run` does beside calling the module, after something was written as the module writes it: with
        `copies` the outputs written are copied into the slots, without they are only written."""
        for number in message["slots"]:
            slot = self.slots[number]
            for buffer in (*slot["outputs"], *(g for g in slot["gradients"] if g is not None)):
                noise, scratch = self._scratch(buffer)
                scratch.copy_(noise)
                if message["copies"]:
                    buffer.copy_(scratch)
        if self.device.startswith("cuda"):
            torch.cuda.synchronize()
        return {}

    def _scratch(self, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Numbers such as a module gives (zeros are moved faster), and room to write them."""
        key = (tuple(like.shape), like.dtype)
        if key not in self._scratches:
            noise = torch.rand(like.shape, device=like.device).mul_(251).to(like.dtype)
            self._scratches[key] = noise, torch.empty_like(like)
        return self._scratches[key]

    def trace(self, message: dict[str, Any]) -> dict[str, Any]:
        """Names of the library's operations that a call comes to, and with `backward` those of its gradients."""
        slot = self.slots[message["slot"]]
        given, backward = slot["inputs"], message["backward"]
        if backward:
            given = [x.detach().requires_grad_() if _differs(x) else x for x in given]
        with torch.set_grad_enabled(backward), _listing() as operations:
            outputs = _listed(self.model(*given))
        along = list(zip(outputs, slot["cotangents"], strict=True)) if backward else []
        along = [(o, c) for o, c in along if o.requires_grad]
        with _listing() as gradients:
            if along:
                torch.autograd.backward([o for o, _ in along], [c for _, c in along])
        return {"operations": operations, "gradients": gradients}


@contextlib.contextmanager
def _listing() -> Iterator[list[str]]:
    """The names of the library's operations meanwhile."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Listing(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.__name__.split(".")[0])
            return func(*args, **(kwargs or {}))

    with Listing():
        yield seen


def _said(error: Exception) -> str:
    """An error in a few lines: those in which a compiler names errors, else the last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if ": error" in line or "error:" in line]
    return f"{type(error).__name__}: {' | '.join((named or lines[-1:])[:4])}"


def _differs(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def _listed(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def main() -> None:
    """Answer until the other end closes."""
    channel = Connection(int(sys.argv[1]))
    # what the module prints is no answer, and it gets no input
    os.dup2(2, 1)
    runner = Runner(sys.argv[2])
    while True:
        try:
            message = channel.recv()
        except EOFError:
            return
        try:
            if message["do"] == "slots":
                slots = MEMORY.each(message["slots"], lambda said: MEMORY.opened(said, runner.device))
                runner.slots, answer = slots, {}
            else:
                answer = {
                    "load": runner.load,
                    "run": runner.run,
                    "beside": runner.beside,
                    "trace": runner.trace,
                }[message["do"]](message)
        except Exception as error:  # noqa: BLE001 - whatever a candidate raises is said
            answer = {"error": _said(error), "raised": True}
        channel.send_bytes(json.dumps(answer).encode())


if __name__ == "__main__":
    main()
