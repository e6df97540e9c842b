"""ResNet-50 over tiles on the processor."""

from __future__ import annotations

import torch

from fedcox.slides.encoder import AbstractPending, Precision, Ready, Tiles
from fedcox.slides.resnet_encoder import AbstractResNetEncoder
from fedcox.slides.resnet_weights import ResNetWeights


class CpuResNetEncoder(AbstractResNetEncoder):
    """One batch at a time, over torch's threads."""

    def __init__(self, weights: ResNetWeights, name: str, precision: Precision) -> None:
        super().__init__(weights, name, precision, "cpu")

    def submit(self, tiles: Tiles) -> AbstractPending:
        return Ready(self._network(torch.from_numpy(tiles)).numpy())
