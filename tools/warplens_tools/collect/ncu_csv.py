# SPDX-License-Identifier: Apache-2.0
"""Parses what `ncu --csv` prints: the pages raw, details and source.

Text around the table (ncu's own `==PROF==` lines, the program's output), a units row, thousands separators
of either kind, several launches, pages printed one after the other, and a text cut off anywhere are all
met in practice. A row that is not complete is dropped: half a number is worse than none.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from warplens_tools.collect import metrics as names
from warplens_tools.collect.profiled import Extent, ProfiledLaunch
from warplens_tools.errors import InputError
from warplens_tools.evidence import Advice, InstructionCounters, SourceLine
from warplens_tools.toolchain.demangle import strip_signature

_FIXED = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream",
          "Block Size", "Grid Size", "Device", "CC", "Section Name", "Metric Name", "Metric Unit",
          "Metric Value", "Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type",
          "Estimated Speedup")  # fmt: skip
#: Rows of a source page that say what the table below them speaks of.
_NAMES = ("Kernel Name", "Function Name", "File Path", "File Name")
_LINE_HEADERS = ("Line No", "#", "Line")
_LINE_NUMBER = re.compile(r'^"(\d+)",')
_DECIMAL_COMMA = re.compile(r"^[+-]?(\d{1,3}([.'  ]\d{3})+,\d+|\d+,(\d{1,2}|\d{4,}))$")
_DECIMAL_POINT = re.compile(r"^[+-]?(\d{1,3}([,'  ]\d{3})+\.\d+|\d+\.(\d{1,2}|\d{4,}))$")
_NUMBER = re.compile(r"^[+-]?[\d.,'  ]+(e[+-]?\d+)?$", re.IGNORECASE)

Row = dict[str, str]
#: Characters of one cell.
_LONGEST_FIELD = 1 << 30


def parse_csv(text: str, *, origin: str = "ncu --csv") -> tuple[ProfiledLaunch, ...]:
    """Every launch in `text`, whichever pages it holds; () where it holds no table of Nsight Compute.

    Launches of the raw and details pages are joined by their ID; a source page is joined by kernel name.
    """
    tables = list(_tables(text))
    comma = _decimal_comma(cell for _, rows in tables for row in rows for cell in row)
    launches: dict[str, ProfiledLaunch] = {}
    for header, rows in tables:
        if "Metric Name" in header:
            found = _details(header, rows, comma, origin)
        elif "ID" in header:
            found = _raw(header, rows, comma, origin)
        else:
            continue
        for key, launch in found.items():
            launches[key] = _joined(launches[key], launch) if key in launches else launch
    source = list(_source_pages(tables, comma, origin))
    return _with_sources(list(launches.values()), source)


def require_csv(text: str, *, name: str) -> tuple[ProfiledLaunch, ...]:
    """As `parse_csv`, for a text that the user named.

    Raises:
        InputError: it holds no profiled launch.
    """
    launches = parse_csv(text)
    if not launches:
        raise InputError(
            f"{name} holds no profiled kernel",
            remedy="export it with `ncu --import REPORT --csv --page raw`",
        )
    return launches


def _tables(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Header and complete rows of every table. A header starts with ID, Kernel Name, Address or #."""
    header: list[str] | None = None
    rows: list[list[str]] = []
    for row in _rows(text):
        if _is_header(row):
            if header is not None:
                yield header, rows
            header, rows = row, []
        elif header is not None and _complete(header, row):
            rows.append(row + [""] * (len(header) - len(row)))
        elif header is not None and header[0] in _LINE_HEADERS and row[0].isdigit():
            # A line of source text, whose own quotes ncu does not double: only its number is needed.
            rows.append([row[0]] + [""] * (len(header) - 1))
    if header is not None:
        yield header, rows


def _complete(header: Sequence[str], row: Sequence[str]) -> bool:
    """The details page leaves out the rule columns of metric rows; every other row is as long as its header."""
    if {"Metric Name", "Metric Value"} <= set(header):
        return header.index("Metric Value") < len(row) <= len(header)
    return len(row) == len(header)


def _rows(text: str) -> Iterator[list[str]]:
    for line in text.lstrip("\ufeff").splitlines():
        # One physical line at a time: a stray quote in the program's output cannot swallow the table. An
        # odd number of quotes is a cell cut in two.
        if not line.lstrip().startswith('"'):
            continue
        if line.count('"') % 2 == 0 and line.rstrip().endswith(('"', ",")):
            yield _cells(line)
        elif numbered := _LINE_NUMBER.match(line):
            yield [numbered[1]]


def _cells(line: str) -> list[str]:
    try:
        # a mangled name may be longer than the module's own limit of 128 KiB
        csv.field_size_limit(_LONGEST_FIELD)
        return next(csv.reader(io.StringIO(line.strip().replace("\0", ""))), [])
    except csv.Error:
        return []


def _is_header(row: Sequence[str]) -> bool:
    if len(row) < 2:
        return False
    if row[0] == "ID":
        return "Kernel Name" in row
    if row[0] in ("Address", *_LINE_HEADERS):
        return "Source" in row
    return row[0] in _NAMES


def _decimal_comma(cells: Iterable[str]) -> bool:
    """Whether the numbers of this text use a decimal comma, judged over all of them."""
    comma = point = 0
    for cell in cells:
        comma += bool(_DECIMAL_COMMA.match(cell))
        point += bool(_DECIMAL_POINT.match(cell))
    return comma > point


def number(text: str, *, decimal_comma: bool = False) -> float | None:
    """A number with separators; None for text, "", "-", "n/a", "nan" and infinities."""
    stripped = text.strip()
    if not _NUMBER.match(stripped):
        return None
    plain = re.sub(r"['  ]", "", stripped)
    plain = plain.replace(".", "").replace(",", ".") if decimal_comma else plain.replace(",", "")
    try:
        found = float(plain)
    except ValueError:
        return None
    return found if abs(found) != float("inf") else None


def extent(text: str) -> Extent:
    """ "(256, 1, 1)" or "256,1,1" as numbers; missing extents are 1, an empty text (0, 0, 0)."""
    parts = [int(re.sub(r"\D", "", p)) for p in re.findall(r"\d+", text)[:3]]
    if not parts:
        return (0, 0, 0)
    x, y, z = (*parts, 1, 1)[:3]
    return (x, y, z)


def _raw(header: list[str], rows: list[list[str]], comma: bool, origin: str) -> dict[str, ProfiledLaunch]:
    """The wide page: one column per metric, one row per launch, after it a row of units."""
    units: Row = {}
    found: dict[str, ProfiledLaunch] = {}
    for cells in rows:
        row = dict(zip(header, cells, strict=True))
        if not row["ID"]:
            units = {name: cell for name, cell in row.items() if cell}
            continue
        measured = {n: row[n] for n in header if n not in _FIXED}
        found[_key(row)] = _launch(row, measured, units, comma, origin)
    return found


def _launch(row: Row, measured: Row, units: Row, comma: bool, origin: str) -> ProfiledLaunch:
    values: dict[str, float] = {}
    base_units: dict[str, str] = {}
    texts: dict[str, str] = {}
    for name, cell in measured.items():
        amount = number(cell, decimal_comma=comma)
        if amount is not None:
            values[name], base_units[name] = names.to_base(amount, units.get(name, ""))
        elif cell not in ("", "-", "n/a", "nan", "inf", "-nan"):
            texts[name] = cell
    return ProfiledLaunch(
        origin=origin,
        kernel=row.get("Kernel Name", ""),
        gpu_name=texts.get("device__attribute_display_name", ""),
        compute_capability=row.get("CC", "") or _capability(values),
        grid=extent(row.get("Grid Size", "")) if row.get("Grid Size") else dimensions(values, "grid"),
        block=extent(row.get("Block Size", "")) if row.get("Block Size") else dimensions(values, "block"),
        metrics=names.canonical(values),
        units={name: unit for name, unit in base_units.items() if unit},
        texts=texts,
    )


def dimensions(values: dict[str, float], what: str) -> Extent:
    """Grid or block extents from the launch metrics; (0, 0, 0) where they are absent."""
    x, y, z = (int(values.get(f"launch__{what}_dim_{axis}", 0)) for axis in "xyz")
    return (x, max(y, 1), max(z, 1)) if x else (0, 0, 0)


def _capability(values: dict[str, float]) -> str:
    major = values.get("device__attribute_compute_capability_major")
    minor = values.get("device__attribute_compute_capability_minor")
    return "" if major is None or minor is None else f"{int(major)}.{int(minor)}"


def _details(header: list[str], rows: list[list[str]], comma: bool, origin: str) -> dict[str, ProfiledLaunch]:
    """The long page: one row per metric (by label, or by name for `--metrics`) or rule."""
    grouped: dict[str, list[Row]] = {}
    for cells in rows:
        row = dict(zip(header, cells, strict=True))
        grouped.setdefault(_key(row), []).append(row)
    return {key: _from_details(group, comma, origin) for key, group in grouped.items()}


def _from_details(group: list[Row], comma: bool, origin: str) -> ProfiledLaunch:
    measured: Row = {}
    units: Row = {}
    for row in group:
        name = _detail_name(row.get("Metric Name", ""), row.get("Metric Unit", ""))
        if name:
            measured[name], units[name] = row.get("Metric Value", ""), row.get("Metric Unit", "")
    first = dict(group[0])
    for label in ("Grid Size", "Block Size"):
        if not first.get(label):
            first[label] = next(
                (r.get("Metric Value", "") for r in group if r.get("Metric Name") == label), ""
            )
    launch = _launch(first, measured, units, comma, origin)
    return msgspec.structs.replace(launch, advice=tuple(_advice(group, comma)))


def _detail_name(label: str, unit: str) -> str | None:
    if "__" in label:
        return label
    kind = {"%": "%", "": "", "cycle": "cycle"}.get(unit)
    if kind is None:
        base = names.to_base(1.0, unit)[1]
        kind = "time" if base == "ns" else "rate" if base in ("hz", "byte/s") else ""
    return names.DETAIL_LABELS.get((label, kind))


def _advice(group: list[Row], comma: bool) -> Iterator[Advice]:
    for row in group:
        if row.get("Rule Description") and row.get("Rule Type", "OPT") in ("OPT", "WRN"):
            yield Advice(
                rule=row.get("Rule Name", ""),
                section=row.get("Section Name", ""),
                message=row["Rule Description"],
                speedup_percent=number(row.get("Estimated Speedup", ""), decimal_comma=comma),
            )


def _source_pages(
    tables: Sequence[tuple[list[str], list[list[str]]]], comma: bool, origin: str
) -> Iterator[ProfiledLaunch]:
    """Source pages: rows that name the kernel and the file, then a table of instructions, alone
    (`--print-source sass`) or under the source lines they came from (`--print-source cuda,sass`)."""
    kernel = path = ""
    for header, rows in tables:
        if header[0] in ("Kernel Name", "Function Name"):
            kernel = header[1]
        elif header[0] in ("File Path", "File Name"):
            path = header[1]
        elif "Address" in header and kernel:
            found = sorted(_instructions(header, rows, comma, path), key=lambda i: i.offset)
            start = found[0].offset if found else 0
            yield ProfiledLaunch(
                origin=origin,
                kernel=kernel,
                instructions=tuple(msgspec.structs.replace(i, offset=i.offset - start) for i in found),
            )


def _instructions(
    header: list[str], rows: list[list[str]], comma: bool, path: str
) -> Iterator[InstructionCounters]:
    """Instructions at their absolute addresses, each under the line above it."""
    columns = [(i, name) for i, label in enumerate(header) if (name := names.column_name(label))]
    at = header.index("Address")
    line = 0
    for row in rows:
        if at and row[0].isdigit():
            line = int(row[0])
        address = _address(row[at])
        if address is None:
            continue
        read = {name: number(row[i], decimal_comma=comma) for i, name in columns}
        yield InstructionCounters(
            offset=address,
            text=" ".join(row[at + 1].split()),
            place=SourceLine(path, line) if line and path else None,
            values={name: amount for name, amount in read.items() if amount},
        )


def _address(text: str) -> int | None:
    try:
        return int(text, 16 if text.lower().startswith("0x") else 10)
    except ValueError:
        return None


def _with_sources(
    launches: list[ProfiledLaunch], sources: list[ProfiledLaunch]
) -> tuple[ProfiledLaunch, ...]:
    """Source pages follow the order of the launches; the n-th of a name belongs to the n-th launch of it."""
    waiting: dict[str, list[ProfiledLaunch]] = {}
    for page in sources:
        waiting.setdefault(_plain_name(page.kernel), []).append(page)
    joined = []
    for launch in launches:
        pages = waiting.get(_plain_name(launch.kernel), [])
        instructions = pages.pop(0).instructions if pages else launch.instructions
        joined.append(msgspec.structs.replace(launch, instructions=instructions))
    alone = [page for pages in waiting.values() for page in pages]
    return (*joined, *alone)


def _plain_name(kernel: str) -> str:
    """The pages of one report print template arguments and namespaces of one kernel differently."""
    return strip_signature(kernel).rsplit("::", 1)[-1]


def _key(row: Row) -> str:
    return f"{row['ID']}/{row.get('Process ID', '')}/{row.get('Kernel Name', '')}"


def _joined(first: ProfiledLaunch, second: ProfiledLaunch) -> ProfiledLaunch:
    return msgspec.structs.replace(
        first,
        metrics={**second.metrics, **first.metrics},
        units={**second.units, **first.units},
        texts={**second.texts, **first.texts},
        advice=first.advice or second.advice,
        gpu_name=first.gpu_name or second.gpu_name,
    )
