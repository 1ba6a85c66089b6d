# SPDX-License-Identifier: Apache-2.0
"""Modules that seem to solve a task on a card and do not, each with the verdict that is right.

Each has the honest `ModelNew` beside it as `Honest`, and gives something else than it where nobody might look.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Cheat(NamedTuple):
    """`body`: of `forward`, which may call `self.honest`."""

    name: str
    body: str
    state: str
    said: str
    task: str = "damped_wave"
    backward: bool = False


CHEATS = (
    Cheat(
        "remembers by place", "return SEEN.setdefault(x.data_ptr(), self.honest(x, t))", "wrong", "element"
    ),
    Cheat("remembers by shape", "return SEEN.setdefault(x.shape, self.honest(x, t))", "wrong", "element"),
    Cheat("gives a constant", "return torch.zeros_like(x)", "wrong", "element"),
    Cheat("gives its input", "return x", "wrong", "element"),
    Cheat(
        "is right on its own distribution alone",
        "y = self.honest(x, t)\nreturn y if x.abs().max() < 8 else x",
        "wrong",
        "on inputs x 3",
    ),
    Cheat(
        "is of a lower precision", "return self.honest(x, t).bfloat16().float()", "wrong", "lower precision"
    ),
    Cheat(
        "skips a part",
        "y = self.honest(x, t)\ny[-1, -3:] = x[-1, -3:]\nreturn y",
        "wrong",
        "element",
    ),
    Cheat("changes its inputs", "y = self.honest(x, t)\nx[0, 0] += 1\nreturn y", "wrong", "changes its inputs"),
    Cheat(
        "lets the library work",
        "return torch.sin(x) * torch.exp(-torch.abs(t)) + x",
        "refused",
        "library still does all",
    ),
    Cheat(
        "works after it has answered",
        "y = torch.zeros_like(x)\nimport threading\n"
        "threading.Timer(0.05, lambda: y.copy_(self.honest(x, t))).start()\nreturn y",
        "wrong",
        "element",
    ),
    Cheat("writes outside its folder", "open('/var/tmp/warplens-cheat', 'w')\nreturn self.honest(x, t)", "crashed",
          "PermissionError"),
    Cheat(
        "reads what is the user's",
        "import os\nos.listdir('/root')\nreturn self.honest(x, t)",
        "crashed",
        "PermissionError",
    ),
    Cheat(
        "asks the network",
        "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_STREAM)\nreturn self.honest(x, t)",
        "crashed",
        "PermissionError",
    ),
    Cheat("gives no gradients", "return self.honest(x.detach())", "wrong", "no gradient", "scale_shift", True),
    Cheat(
        "gives a gradient that is not its own",
        "return self.honest(x) + (x - x.detach())",
        "wrong",
        "gradients",
        "scale_shift",
        True,
    ),
)  # fmt: skip


def cheating(cheat: Cheat, modules: Path) -> str:
    """The file of a cheat; the honest module is of that folder."""
    honest = (modules / f"{cheat.task}.py").read_text()
    body = "".join(f"        {line}\n" for line in cheat.body.splitlines())
    return (
        honest.replace("class ModelNew(", "class Honest(")
        + "\n\nSEEN: dict = {}\n\n\nclass ModelNew(nn.Module):\n    def __init__(self, *given):\n"
        + "        super().__init__()\n        self.honest = Honest(*given)\n\n"
        + f"    def forward(self, x, t=None):\n{body}"
    )
