# SPDX-License-Identifier: Apache-2.0
"""Writes what is derived from the settings' definition: `make generate`, or `--check` to compare only.

From `warplens.settings.Settings` come the extension's `contributes.configuration`, the list of settings an
untrusted workspace may not set, the JSON schema of `warplens.toml` and the reference page.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from warplens.settings import Settings
from warplens_tools.evidence import Tier

ROOT = Path(__file__).resolve().parents[1]
MANIFEST = ROOT / "extension" / "package.json"
SCHEMA = ROOT / "docs" / "schema" / "settings.json"
PAGE = ROOT / "docs" / "settings.md"

#: They name programs or options that are run, or whom code is sent to, so only a trusted workspace may set them.
RESTRICTED = (
    *("interpreter", "cuda-path", "flags", "compile-commands", "program"),
    *("model.provider", "model.base-url", "model.key-variable"),
)
#: Tables with names of the user's code as keys: they have their place beside the code, not in an editor's settings.
FILE_ONLY = ("launch",)

Schema = dict[str, Any]

#: msgspec sorts the values of a choice; tiers read better cheapest first.
TIERS = {tier: place for place, tier in enumerate(("auto", *get_args(Tier)))}


class EditorSettings(msgspec.Struct, frozen=True, rename="kebab"):
    """What only the extension reads."""

    interpreter: Annotated[
        str,
        Meta(
            description="Python that runs the server, with Warplens installed; "
            "Warplens' own environment, the Python extension's interpreter or PATH if empty."
        ),
    ] = ""


TRACE: Schema = {
    "type": "string",
    "enum": ["messages", "verbose"],
    "default": "messages",
    "description": "What the channel Warplens Trace holds of the traffic with the language server, "
    "once its log level is Trace.",
    "scope": "window",
}


def resolve(schema: Schema, components: Mapping[str, Schema]) -> Schema:
    """A schema with its reference, alone or with a default beside it, put in place."""
    own = dict(schema)
    for reference in [own.pop("$ref", None), *(part.get("$ref") for part in own.pop("allOf", []))]:
        if reference is not None:
            own = {**components[reference.rsplit("/", 1)[1]], **own}
    if "items" in own:
        own["items"] = resolve(own["items"], components)
    if "properties" in own:
        own["properties"] = {k: resolve(v, components) for k, v in own["properties"].items()}
    if isinstance(own.get("additionalProperties"), dict):
        own["additionalProperties"] = resolve(own["additionalProperties"], components)
    if "anyOf" in own and all("enum" in resolve(part, components) for part in own["anyOf"]):
        parts = [resolve(part, components) for part in own.pop("anyOf")]
        own |= {"type": "string", "enum": [value for part in parts for value in part["enum"]]}
    elif "anyOf" in own:
        own["anyOf"] = [resolve(part, components) for part in own["anyOf"]]
    if "enum" in own:
        own.setdefault("type", "string")
        own["enum"] = sorted(own["enum"], key=lambda value: TIERS.get(value, len(TIERS)))
    own.pop("title", None)
    return own


def schema_of(struct: type[msgspec.Struct]) -> Schema:
    """The JSON schema of a settings type, without references."""
    (top,), components = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    return resolve(top, components)


def flat(schema: Schema, prefix: str = "") -> Iterator[tuple[str, Schema]]:
    """Every leaf setting with its dotted key in kebab case; tables become prefixes."""
    for key, item in schema["properties"].items():
        if item.get("type") == "object" and "properties" in item:
            yield from flat(item, f"{prefix}{key}.")
        else:
            yield prefix + key, item


def camel(key: str) -> str:
    """`code-lens` as editors write it: `codeLens`."""
    return re.sub(r"-(\w)", lambda match: match[1].upper(), key)


def camel_items(schema: Schema) -> Schema:
    """A schema for the editor: keys inside lists of tables in camel case too."""
    own = dict(schema)
    if "items" in own:
        own["items"] = camel_items(own["items"])
    if "properties" in own:
        own["properties"] = {camel(k): camel_items(v) for k, v in own["properties"].items()}
        own["required"] = [camel(key) for key in own.get("required", [])]
    return own


def configuration() -> Schema:
    """`contributes.configuration` of the extension."""
    properties: Schema = {}
    for key, item in [*flat(schema_of(EditorSettings)), *flat(schema_of(Settings))]:
        if key in FILE_ONLY:
            continue
        scope = "machine-overridable" if key in ("interpreter", "cuda-path") else "resource"
        properties[f"warplens.{camel(key)}"] = {**camel_items(item), "scope": scope}
    return {"title": "Warplens", "properties": {**properties, "warplens.trace.server": TRACE}}


def manifest() -> str:
    """`package.json` with the generated parts put in."""
    package = json.loads(MANIFEST.read_text("utf-8"))
    package["contributes"]["configuration"] = configuration()
    untrusted = package["capabilities"]["untrustedWorkspaces"]
    untrusted["restrictedConfigurations"] = [f"warplens.{camel(key)}" for key in RESTRICTED]
    return json.dumps(package, indent=2, ensure_ascii=False) + "\n"


def file_schema() -> str:
    """The JSON schema of `warplens.toml`."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "warplens.toml",
        **schema_of(Settings),
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def page() -> str:
    """The reference page."""
    lines = [
        "# Settings",
        "",
        "<!-- Generated by `make generate` from server/warplens/settings.py. -->",
        "",
        "Read from the nearest `warplens.toml`, or from `[tool.warplens]` in `pyproject.toml`, upward from the",
        "file; over it the editor's settings, over them `WARPLENS_ARCHITECTURE` and `WARPLENS_CUDA_PATH`.",
        "In `warplens.toml` keys are in kebab case; in editors they begin with `warplens.` and are in camel case.",
        "What is wrong in a settings file stops the command line; an editor takes the default for it, and marks",
        "its line.",
        "",
        "| `warplens.toml` | editor | default | |",
        "| --- | --- | --- | --- |",
    ]
    for key, item in flat(schema_of(Settings)):
        default = json.dumps(item.get("default"), ensure_ascii=False)
        text = item["description"].replace("|", "\\|")
        editor = "–" if key in FILE_ONLY else f"`{camel(key)}`"
        lines.append(f"| `{key}` | {editor} | `{default}` | {text}{values(item)} |")
    lines += [
        "",
        "Only the VS Code extension reads these:",
        "",
        "| editor | default | |",
        "| --- | --- | --- |",
    ]
    for key, item in [*flat(schema_of(EditorSettings)), ("trace.server", TRACE)]:
        lines.append(f"| `{key}` | `{json.dumps(item['default'])}` | {item['description']}{values(item)} |")
    tables = schema_of(Settings)["properties"]
    launch = tables["launch"]["items"]
    data = next(
        p for p in launch["properties"]["arguments"]["additionalProperties"]["anyOf"] if "properties" in p
    )
    lines += _keys("Keys of a `[[program]]` table:", tables["program"]["items"])
    lines += _keys("Keys of a `[[launch]]` table, see [launch-specs.md](launch-specs.md):", launch)
    lines += _keys("Keys of an array in `arguments`, `buffers` and `symbols` there:", data)
    return "\n".join(lines) + "\n"


def _keys(title: str, table: Schema) -> list[str]:
    lines = ["", title, "", "| `warplens.toml` | default | |", "| --- | --- | --- |"]
    for key, item in table["properties"].items():
        default = f"`{json.dumps(item['default'])}`" if "default" in item else "required"
        lines.append(f"| `{key}` | {default} | {item['description']}{values(item)} |")
    return lines


def values(item: Schema) -> str:
    """The values a choice may take, as a sentence."""
    return " One of " + ", ".join(f"`{value}`" for value in item["enum"]) + "." if "enum" in item else ""


def main(mode: Literal["write", "check"]) -> int:
    """Write the files, or say which are stale; the exit status."""
    stale = []
    for path, text in ((MANIFEST, manifest()), (SCHEMA, file_schema()), (PAGE, page())):
        if path.exists() and path.read_text("utf-8") == text:
            continue
        stale.append(path)
        if mode == "write":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    if mode == "check" and stale:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        sys.stderr.write(f"stale: {names}; run `make generate`\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main("check" if "--check" in sys.argv else "write"))
