# SPDX-License-Identifier: Apache-2.0
"""The list of features is the folder of features."""

from __future__ import annotations

import pkgutil

from warplens.lsp import features, protocol


def test_every_feature_is_listed_once() -> None:
    folder = {module.name for module in pkgutil.iter_modules(features.__path__)}
    listed = [module.__name__.rsplit(".", 1)[-1] for module in features.FEATURES]
    assert sorted(listed) == sorted(folder)


def test_wire_names_are_camel_case() -> None:
    names = {
        name
        for kind in vars(protocol).values()
        if isinstance(kind, type) and issubclass(kind, protocol.Message)
        for name in kind.__struct_encode_fields__
    }
    assert names and not any("_" in name for name in names)
