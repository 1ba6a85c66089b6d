# SPDX-License-Identifier: Apache-2.0
"""What the text of a `ModelNew` says of where its work is done."""

from __future__ import annotations

import ast
import re

_LIBRARIES = re.compile(
    r"\b(?:cublas\w*|cudnn\w*|at::\w+|torch::(?:mm|matmul|conv\w*|softmax|relu|linear)\w*)"
)


def suspicions(text: str, task: str) -> tuple[str, ...]:
    """Why a candidate is refused on sight: it rests on the reference, or falls back where its own code fails.

    `task`: the name of the task's module.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        return (f"it does not parse: {error.msg} in line {error.lineno}",)
    found = []
    for node in ast.walk(tree):
        if task in _imported(node):
            found.append(f"it imports the reference (line {getattr(node, 'lineno', 0)})")
        elif isinstance(node, ast.ClassDef) and node.name == "ModelNew":
            found += _of_class(node)
    return tuple(dict.fromkeys(found))


def _imported(node: ast.AST) -> list[str]:
    """Last parts of the names of modules that a statement imports from."""
    if isinstance(node, ast.ImportFrom):
        return [(node.module or "").split(".")[-1]]
    return [a.name.split(".")[-1] for a in node.names] if isinstance(node, ast.Import) else []


def _of_class(node: ast.ClassDef) -> list[str]:
    found = []
    bases = [ast.unparse(base) for base in node.bases]
    if any(base.split(".")[-1] not in ("Module",) for base in bases):
        found.append(f"ModelNew is a {', '.join(bases)}, not a plain nn.Module")
    for part in ast.walk(node):
        if isinstance(part, ast.Try) and part.handlers:
            found.append(f"it has a way out where its own code fails (try, line {part.lineno})")
    return found


def libraries(text: str) -> tuple[str, ...]:
    """Libraries that its strings of C++ call."""
    return tuple(sorted(set(_LIBRARIES.findall(text))))
