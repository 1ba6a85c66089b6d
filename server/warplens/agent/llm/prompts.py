# SPDX-License-Identifier: Apache-2.0
"""The prompts: files in `prompts/`, with `{{name}}` where a run puts something in."""

from __future__ import annotations

import functools
import re
from importlib import resources

from warplens.agent.llm.provider import Role

_PLACE = re.compile(r"\{\{(\w+)\}\}")
#: What may be edited, in the prompts' words.
DEVICE_ONLY = (
    "kernels and other device code, shared and constant memory, named constants, includes, and sizes: what a launch "
    "says in `<<<grid, block, bytes>>>`, numbers among a launched kernel's template arguments, bytes of a cudaMalloc, "
    "and host variables that are used for nothing else (not one that is also printed, looped over or passed to a "
    "kernel). A size is arithmetic on numbers, named constants and variables in scope there, with `dim3`, `min`, `max` "
    "and `?:`; it calls no other function. No host statement or variable is added: write the expression into the "
    "launch itself. Other host code stays exactly as it is, and so do the kernels' names and parameters. A block gets "
    "at most 48 KiB of shared memory, static and dynamic together: more takes a host call, which cannot be added "
    "(where the source has it, its bytes are a size). No file is read, no `#if` asks for a name that the file does not "
    "define itself, and no assembler is added to host code. No writable `__device__` variable is added: nothing may be "
    "kept from one launch to the next, nor handed from block to block in one."
)
HOST_TOO = (
    "device code, launch configurations and the host code around them. What the program prints, writes and exits "
    "with stays as it is."
)


#: The same of a solution of a PyTorch task.
SOLUTION = (
    "everything in the file but what the task gives (`get_inputs`, `get_init_inputs`, the module's parameters): "
    "imports, strings of CUDA, functions, `ModelNew`. Nothing is read but the file itself and what Python, PyTorch and "
    "the CUDA toolkit bring; no network. Nothing of one call may be kept for the next but the parameters and buffers "
    "whose contents do not rest on inputs."
)

#: How a planner is asked for one plan, and for several at once.
ONE_PLAN = {
    "what": "one change that makes",
    "turn": "You get one change per turn: choose the one that is most likely to win.",
    "form": "",
}
SEVERAL_PLANS = {
    "what": "changes that make",
    "turn": "This turn you plan {0} changes, each for itself, all on the version below and all judged at once: the "
    "{0} that are most likely to win, the most likely first, different in what they do and not only in their numbers.",
    "form": ', {{"plans": [...]}} with {0} plans, each in this form',
}


@functools.cache
def prompt_file(name: str) -> str:
    """The text of one prompt file."""
    return resources.files(__package__).joinpath("prompts", f"{name}.md").read_text("utf-8")


def filled(name: str, **values: str) -> str:
    """A prompt with its places filled.

    Raises:
        KeyError: a place has no value; a test of each prompt keeps that from a user.
    """
    return _PLACE.sub(lambda place: values[place[1]], prompt_file(name))


def places(name: str) -> set[str]:
    """The names that a prompt wants values for."""
    return set(_PLACE.findall(prompt_file(name)))


def system_prompt(
    role: Role,
    *,
    host_edits: bool,
    lower_precision: bool,
    most_anchors: int,
    looks: int = 0,
    arch: str = "",
    plans: int = 1,
    module: bool = False,
) -> str:
    """What a role is told before its case. `looks` is how often it may look into CUTLASS, 0 for never; `plans` how
    many a planner gives at once; `module` says that it is about a module of PyTorch and not about a kernel."""
    library = ""
    if looks:
        form = prompt_file("look_planner" if role == "planner" else "look_coder").strip()
        library = filled("library", looks=str(looks), form=form, arch=arch or "sm_90a").rstrip("\n")
    values = {
        "allowed": SOLUTION if module else HOST_TOO if host_edits else DEVICE_ONLY,
        "library": library,
        "most_anchors": str(most_anchors),
        "precision": " unless it clearly pays: half, bfloat16 and TF32 are allowed here"
        if lower_precision
        else "",
    } | {name: words.format(plans) for name, words in (SEVERAL_PLANS if plans > 1 else ONE_PLAN).items()}
    name = f"{role}_task" if module else role
    return filled(name, **{place: values[place] for place in places(name)}).strip() + "\n"
