"""TCGA's clinical tables, as users download them, to the tables of the paper's section 6.2."""

from fedcox.paper.tcga.table import TcgaTable, read_tcga

__all__ = ["TcgaTable", "read_tcga"]
