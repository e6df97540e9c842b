"""Which finder looks for tissue? Otsu's threshold, or a U-Net of one's own."""

from __future__ import annotations

from pathlib import Path

from fedcox.errors import InputError, needs_extra
from fedcox.slides.tissue import AbstractTissueFinder, OtsuTissue


def chosen_finder(unet: Path | None, mask_um: float | None) -> AbstractTissueFinder:
    """The U-Net in this file, or else Otsu's at `mask_um` micrometres per pixel."""
    if unet is None:
        return OtsuTissue() if mask_um is None else OtsuTissue(mask_um)
    if mask_um is not None:
        raise InputError(
            "--mask-um would change nothing: a U-Net has the resolution it was trained at.",
            ["Leave out --mask-um, or train a U-Net at that resolution."],
        )
    try:
        from fedcox.slides.unet import read_unet
    except ImportError as error:
        raise needs_extra("torch", "slides") from error
    return read_unet(unet)
