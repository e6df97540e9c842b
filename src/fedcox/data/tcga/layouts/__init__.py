"""The layouts that are known, in the order in which they are tried: one row each."""

from __future__ import annotations

from fedcox.data.tcga.clinical import Layout
from fedcox.data.tcga.layouts import cbioportal, gdc_portal, tcgabiolinks, xena

LAYOUTS: tuple[Layout, ...] = (
    tcgabiolinks.LAYOUT,
    *gdc_portal.LAYOUTS,
    cbioportal.LAYOUT,
    xena.LAYOUT,
)
