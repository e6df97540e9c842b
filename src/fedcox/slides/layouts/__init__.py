"""The layouts in which features are read: our own and those of six others.

Only their files are read; none of their code is used. To add one, write a module with an
AbstractLayout and name it here, before any whose `fits` would take its files.
"""

from __future__ import annotations

from fedcox.slides.layouts.clam import Clam
from fedcox.slides.layouts.flamby import Flamby
from fedcox.slides.layouts.owkin import Owkin
from fedcox.slides.layouts.own import Own
from fedcox.slides.layouts.slideflow import Slideflow
from fedcox.slides.layouts.stamp import Stamp
from fedcox.slides.layouts.trident import Trident
from fedcox.slides.opened_bag import AbstractLayout

LAYOUTS: tuple[AbstractLayout, ...] = (
    Own(),
    Stamp(),
    Trident(),
    Slideflow(),
    Clam(),
    Owkin(),
    Flamby(),
)
