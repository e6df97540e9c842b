"""On which machine, and with what, a benchmark was run."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path


def describe_machine() -> str:
    """Name the processor and the versions that matter for speed."""
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [
            line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        processor = models[0].split(":", 1)[1].strip() if models else processor
    return f"{processor}, Python {platform.python_version()}, numpy {version('numpy')}"
