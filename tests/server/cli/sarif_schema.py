# SPDX-License-Identifier: Apache-2.0
"""What SARIF 2.1.0 (OASIS standard, 27 March 2020) demands of the parts that Warplens writes.

Written from the text of the standard, whose section stands at each part; no installed package ships the schema.
Properties that Warplens does not write are not listed, and an unlisted one is refused.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def _object(required: tuple[str, ...] = (), **properties: Json) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _array(items: Json, **more: Any) -> Json:
    return {"type": "array", "items": items, **more}


_TEXT: Json = {"type": "string", "minLength": 1}
_URI: Json = {"type": "string", "format": "uri-reference", "pattern": r"^[^ \\]*$"}
_LEVEL: Json = {"enum": ["none", "note", "warning", "error"]}
_POSITIVE: Json = {"type": "integer", "minimum": 1}
#: 3.11
_MESSAGE = _object(("text",), text=_TEXT)
#: 3.4
_ARTIFACT = _object((), uri=_URI, uriBaseId=_TEXT)
#: 3.30: lines and columns are 1-based
_REGION = _object((), startLine=_POSITIVE, startColumn=_POSITIVE, endLine=_POSITIVE, endColumn=_POSITIVE) | {
    "anyOf": [{"required": ["startLine"]}]
}
#: 3.28, 3.29, 3.33
_LOCATION = _object(
    (),
    physicalLocation=_object(("artifactLocation",), artifactLocation=_ARTIFACT, region=_REGION),
    logicalLocations=_array(_object((), fullyQualifiedName=_TEXT, kind=_TEXT)),
    message=_MESSAGE,
)
#: 3.55 to 3.57
_FIX = _object(
    ("artifactChanges",),
    description=_MESSAGE,
    artifactChanges=_array(
        _object(
            ("artifactLocation", "replacements"),
            artifactLocation=_ARTIFACT,
            replacements=_array(
                _object(
                    ("deletedRegion",),
                    deletedRegion=_REGION,
                    insertedContent=_object((), text={"type": "string"}),
                ),
                minItems=1,
            ),
        ),
        minItems=1,
    ),
)
#: 3.27: a result has a message, and a rule by id or index
_RESULT = _object(
    ("message",),
    ruleId=_TEXT,
    ruleIndex={"type": "integer", "minimum": -1},
    level=_LEVEL,
    message=_MESSAGE,
    locations=_array(_LOCATION),
    relatedLocations=_array(_LOCATION, uniqueItems=True),
    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
    fixes=_array(_FIX, uniqueItems=True),
    properties={"type": "object"},
) | {"anyOf": [{"required": ["ruleId"]}, {"required": ["ruleIndex"]}]}
#: 3.49
_RULE = _object(
    ("id",), id=_TEXT, name=_TEXT, shortDescription=_MESSAGE, helpUri={"type": "string", "format": "uri"}
)
#: 3.19
_DRIVER = _object(
    ("name",),
    name=_TEXT,
    version=_TEXT,
    informationUri={"type": "string", "format": "uri"},
    rules=_array(_RULE, uniqueItems=True),
)
#: 3.20, 3.58
_INVOCATION = _object(
    ("executionSuccessful",),
    executionSuccessful={"type": "boolean"},
    toolExecutionNotifications=_array(_object(("message",), level=_LEVEL, message=_MESSAGE)),
)
#: 3.14; 3.14.14: the base of relative names ends with a slash
_RUN = _object(
    ("tool",),
    tool=_object(("driver",), driver=_DRIVER),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    originalUriBaseIds={
        "type": "object",
        "additionalProperties": _object(("uri",), uri={"type": "string", "pattern": "^file:///.*/$"}),
    },
    invocations=_array(_INVOCATION),
    results=_array(_RESULT),
)
#: 3.13
SCHEMA = _object(
    ("version", "runs"),
    **{"$schema": {"type": "string", "format": "uri"}},
    version={"const": "2.1.0"},
    runs=_array(_RUN),
)
