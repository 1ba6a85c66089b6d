# SPDX-License-Identifier: Apache-2.0
"""Writes the generated pages: `docs/checks/`, `docs/rewrites/`, `docs/idioms/`, `docs/schema/`.

python docs/generate.py            write
python docs/generate.py --check    exit 1 if a file is stale
"""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import msgspec
from rich.console import Console

from warplens.agent.result import OptimizeResult
from warplens.cli.commands import COMMANDS, PAGES
from warplens.cli.main import build_app
from warplens.service.pages import markdown
from warplens.service.pages import pages as check_pages
from warplens.service.report import Report
from warplens_tools.idioms.registry import IDIOMS
from warplens_tools.rewrite.registry import REWRITES

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from tests.server.cli import bad_input  # noqa: E402 - the root of the repository is no package


def pages() -> dict[Path, str]:
    """Every generated file with its content."""
    made: dict[Path, str] = {}
    rows = []
    for page in check_pages():
        made[HERE / "checks" / f"{page.slug}.md"] = page.text
        tiers = ", ".join(page.tiers)
        rows.append(f"| [{page.code}]({page.slug}.md) | `{page.slug}` | {page.title} | {tiers} |")
    head = "# Checks\n\n| Code | Name | What it finds | Evidence |\n| --- | --- | --- | --- |\n"
    made[HERE / "checks" / "index.md"] = head + "\n".join(rows) + "\n"
    for rewrite in REWRITES:
        made[HERE / "rewrites" / f"{rewrite.slug}.md"] = markdown(rewrite.slug, rewrite.title, rewrite.apply)
    for idiom in IDIOMS:
        made[HERE / "idioms" / f"{idiom.slug}.md"] = markdown(idiom.slug, idiom.title, idiom.apply)
    made |= help_pages()
    made[HERE / "command-line.md"] = _command_line()
    made[HERE / "schema" / "report.json"] = schema(Report)
    made[HERE / "schema" / "optimize.json"] = schema(OptimizeResult)
    return made


def _command_line() -> str:
    """The page as it is, with the table of bad input made anew between its marks."""
    page = (HERE / "command-line.md").read_text("utf-8")
    head, begin, rest = page.partition("<!-- begin: written by make generate -->\n")
    _, end, tail = rest.partition("<!-- end -->")
    return head + begin + bad_input.table() + end + tail


def help_pages() -> dict[Path, str]:
    """What the parser of each command prints for `--help`, by the file that the command line reads it from."""
    app = build_app([name for name, _, _ in COMMANDS])
    pages = {}
    for name, _, _ in COMMANDS:
        if name == "lsp":
            continue
        words = [[name], *([name, sub] for sub in app[name] if not sub.startswith("-"))]
        for each in words:
            out = io.StringIO()
            app.help_print(
                each, console=Console(file=out, width=104, color_system=None, legacy_windows=False)
            )
            pages[PAGES / f"{'-'.join(each)}.txt"] = _without_boxes(out.getvalue())
    return pages


def _without_boxes(page: str) -> str:
    """Help without borders, which a narrower terminal would break."""
    page = re.sub(r"^╭─ (.*?) ─*╮$", r"\1:", page, flags=re.MULTILINE)
    page = re.sub(r"^╰─*╯$", "", page, flags=re.MULTILINE)
    page = re.sub(r"^│ ?(.*?) *│$", r"  \1", page, flags=re.MULTILINE)
    return "\n".join(line.rstrip() for line in page.strip().splitlines()) + "\n"


def schema(kind: type) -> str:
    """JSON schema of a wire type."""
    return json.dumps(msgspec.json.schema(kind), indent=1) + "\n"


def main() -> int:
    """Write, or with `--check` compare."""
    stale = [p for p, text in pages().items() if not p.exists() or p.read_text("utf-8") != text]
    if "--check" in sys.argv:
        for path in stale:
            sys.stderr.write(f"stale: {path.relative_to(HERE.parent)}; run make generate\n")
        return bool(stale)
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(pages()[path], "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
