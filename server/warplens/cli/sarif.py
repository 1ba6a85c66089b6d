# SPDX-License-Identifier: Apache-2.0
"""A report as SARIF 2.1.0 (OASIS, 2020), which code hosts and editors read."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from warplens.service.baseline import mark
from warplens.service.pages import page_title
from warplens.service.report import FileReport, Report, page_url
from warplens_tools.collect.sanitizer import Fault
from warplens_tools.evidence import Unknown
from warplens_tools.finding import Finding, Fix
from warplens_tools.text import Span

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "information": "note", "hint": "note"}
Json = dict[str, Any]


def sarif_log(report: Report) -> Json:
    """The log with one run. Columns count Unicode code points; paths are relative to the current folder."""
    findings = [(file, finding) for file in report.files for finding in file.findings]
    rules = {finding.code: finding for _, finding in findings}
    order = {code: index for index, code in enumerate(rules)}
    results = [_result(file, finding, order) for file, finding in findings]
    results += [_fault(file, fault) for file in report.files for fault in file.faults or ()]
    failed = [unknown for unknown in report.unknown if unknown.failed]
    run: Json = {
        "tool": {"driver": _driver(report, list(rules.values()))},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"uri": Path.cwd().as_uri() + "/"}},
        "invocations": [
            {
                "executionSuccessful": not failed,
                "toolExecutionNotifications": [_notification(unknown) for unknown in report.unknown],
            }
        ],
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _driver(report: Report, findings: list[Finding]) -> Json:
    name, _, version = report.tool.partition(" ")
    return {
        "name": name,
        "version": version,
        "informationUri": "https://github.com/warplens/warplens",
        "rules": [
            {
                "id": f.code,
                "name": f.slug,
                "shortDescription": {"text": page_title(f.slug) or f.slug.replace("-", " ")},
            }
            | ({"helpUri": where} if (where := page_url(f.code, f.slug)) else {})
            for f in findings
        ],
    }


def _result(file: FileReport, finding: Finding, order: dict[str, int]) -> Json:
    text = finding.message + (f"\n{finding.guidance}" if finding.guidance else "")
    result: Json = {
        "ruleId": finding.code,
        "ruleIndex": order[finding.code],
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [_location(file.path, _region(finding.span), finding.kernel)],
        "partialFingerprints": {"warplens/v1": _fingerprint(file, finding)},
        "properties": {"confidence": finding.confidence, "architecture": file.arch},
    }
    if finding.gain is not None:
        result["properties"]["expectedSpeedup"] = finding.gain.estimate
    if finding.related:
        result["relatedLocations"] = [
            {**_location(file.path, _region(other.span)), "message": {"text": other.message}}
            for other in finding.related
        ]
    fixes = [_fix(file.path, fix) for fix in finding.fixes if fix.edits]
    return result | ({"fixes": fixes} if fixes else {})


def _region(span: Span) -> Json:
    return {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }


def _location(path: str, region: Json | None, kernel: str = "") -> Json:
    physical: Json = {"artifactLocation": _artifact(path)}
    location: Json = {"physicalLocation": physical | ({"region": region} if region else {})}
    if kernel:
        location["logicalLocations"] = [{"fullyQualifiedName": kernel, "kind": "function"}]
    return location


def _artifact(path: str) -> Json:
    absolute = os.path.abspath(path)  # noqa: PTH100
    here = str(Path.cwd())
    if os.path.commonpath([absolute, here]) != here:
        return {"uri": Path(absolute).as_uri()}
    return {"uri": quote(os.path.relpath(absolute, here)), "uriBaseId": "SRCROOT"}


def _fix(path: str, fix: Fix) -> Json:
    changes = [
        {
            "deletedRegion": _region(edit.span),
            "insertedContent": {"text": edit.new_text},
        }
        for edit in fix.edits
    ]
    title = f"{fix.title} ({fix.status})" + (f"; results may change: {fix.caveat}" if fix.caveat else "")
    return {
        "description": {"text": title},
        "artifactChanges": [{"artifactLocation": _artifact(path), "replacements": changes}],
    }


def _fault(file: FileReport, fault: Fault) -> Json:
    region = {"startLine": fault.place.line} if fault.place is not None and fault.place.line > 0 else None
    path = fault.place.path if fault.place is not None else file.path
    return {
        "ruleId": fault.tool,
        "level": "error",
        "message": {"text": fault.message},
        "locations": [_location(path, region, fault.function)],
    }


def _notification(unknown: Unknown) -> Json:
    remedy = f" ({unknown.remedy})" if unknown.remedy else ""
    return {
        "level": "error" if unknown.failed else "note",
        "message": {"text": f"{unknown.what}: {unknown.why}{remedy}"},
    }


def _fingerprint(file: FileReport, finding: Finding) -> str:
    """The same for the same cause when lines and figures have moved."""
    return hashlib.sha256("\0".join(mark(file.path, finding)).encode(errors="replace")).hexdigest()[:32]
