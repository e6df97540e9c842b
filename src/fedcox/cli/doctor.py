"""`fedcox doctor`: is this installation sound, and what can it do? Checked on the spot."""

from __future__ import annotations

import typer
from rich.table import Table

from fedcox.cli.terminal import Terminal

_BASE = ("numpy", "scipy", "pandas", "pyarrow", "pydantic", "typer", "rich", "jinja2")
_EXTRAS = {
    "federated": ("nvflare", "cryptography"),
    "private": ("dp-accounting", "cryptography"),
    "deep": ("torch", "safetensors"),
    "slides": ("openslide-python", "openslide-bin", "h5py", "pillow"),
    "onnx": ("onnxruntime",),
    "experiments": ("xgboost", "openpyxl"),
    "audit": ("python-flint",),
}


def doctor() -> None:
    """Show versions and extras, and check a fit against the pooled answer.

    Exit status 1 if something is missing or a number is wrong. Nothing is
    sent anywhere.

    Example: fedcox doctor
    """
    console = Terminal()
    console.print(_parts())
    missing = [name for name in _BASE if _found(name) == _ABSENT]
    if missing:
        console.print(f"[red]✗[/] missing: {', '.join(missing)}. Install fedcox again.")
        raise typer.Exit(1)
    difference = pooled_difference()
    if not difference < 1e-9:
        console.print("[red]✗[/] A fit over five centers differs from the pooled fit.")
        raise typer.Exit(1)
    console.print(
        "[green]✓[/] A simulated study over five centers equals the pooled fit "
        f"(largest difference {difference:.0e})."
    )


def _parts() -> Table:
    """Everything that is installed, or could be."""
    import os
    import platform
    import sys

    table = Table("part", "found", show_header=False)
    table.add_row("fedcox", _found("fedcox"))
    table.add_row(
        "python", f"{platform.python_version()} ({sys.platform}, {os.cpu_count()} cores)"
    )
    for name in _BASE:
        table.add_row(name, _found(name))
    for extra, names in _EXTRAS.items():
        table.add_row(f"extra: {extra}", ", ".join(f"{name} {_found(name)}" for name in names))
    return table


_ABSENT = "not installed"
#: Other names under which a package may be installed.
_ALSO = {"xgboost": "xgboost-cpu"}


def _found(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    for known in (name, _ALSO.get(name, name)):
        try:
            return version(known)
        except PackageNotFoundError:
            continue
    return _ABSENT


def pooled_difference() -> float:
    """Largest difference of coefficients and standard errors: five centers against one."""
    import warnings

    import numpy as np

    from fedcox.data.synthetic import simulate_hospitals
    from fedcox.engines.in_process import InProcess
    from fedcox.errors import FedcoxWarning
    from fedcox.study.fit import fit
    from fedcox.study.simulation import clinical_study

    study = clinical_study()
    frame = simulate_hospitals(500, 5, rng=np.random.default_rng(1)).frame
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FedcoxWarning)
        split = fit(study, InProcess.from_frame(study, frame, center="hospital")).summary
        pooled = fit(study, InProcess.from_frame(study, frame)).summary
    columns = ["coef", "se(coef)"]
    return float(np.abs(split[columns].to_numpy() - pooled[columns].to_numpy()).max())
