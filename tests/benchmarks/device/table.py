"""What tvarant-bench wrote with --json, as a page in Markdown.

tvarant-bench --endpoint unix:/run/t.sock --torch python3 --json bench.json
python tests/benchmarks/device/table.py bench.json > docs/benchmarks_opencl.md
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HEADING = """# Benchmarks of an OpenCL device

Medians of `tvarant-bench` beside PyTorch on the same device in the same run.
*of copy* is the share of the speed at which the device copies memory, *speed* how
many times as fast as PyTorch's the device is. Written by
`tests/benchmarks/device/table.py`.
"""


def duration(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.4g} {unit}"
    raise AssertionError("unreachable")


def rate(row: dict[str, Any]) -> str:
    if row.get("flops_per_second"):
        return f"{row['flops_per_second'] / 1e12:.1f} TFLOP/s"
    if row.get("bytes_per_second"):
        return f"{row['bytes_per_second'] / 1e9:.0f} GB/s"
    return ""


def ratio(row: dict[str, Any], name: str) -> str:
    return f"{row[name]:.2f}" if row.get(name) else ""


def page(report: dict[str, Any]) -> str:
    device = report["device"]
    lines = [
        HEADING,
        f"{device['name']}, driver {device['driver_version']}, "
        f"{device['instruction_set']}; tvarant {device['daemon_version']}; "
        f"{report.get('torch') or 'without PyTorch'}",
        "",
        "| family | what | dtype | size | median | rate | of copy | PyTorch | speed |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in report["rows"]:
        if not row.get("median_seconds"):
            continue
        theirs = row.get("torch_median_seconds")
        cells = (
            row["family"],
            row["name"],
            row["dtype"],
            " x ".join(str(n) for n in row["sizes"]),
            duration(row["median_seconds"]),
            rate(row),
            ratio(row, "of_copy"),
            duration(theirs) if theirs else "",
            ratio(row, "speed_of_torch"),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 64
    print(page(json.loads(Path(sys.argv[1]).read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
