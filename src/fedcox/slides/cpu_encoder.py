"""ResNet-50 over tiles on the processor."""

from __future__ import annotations

import torch

from fedcox.slides.encoder import AbstractEncoder, AbstractPending, Precision, Ready, Tiles
from fedcox.slides.folded_resnet import FoldedResNet50
from fedcox.slides.resnet_weights import ResNetWeights


class CpuResNetEncoder(AbstractEncoder):
    """One batch at a time, over torch's threads."""

    def __init__(self, weights: ResNetWeights, name: str, precision: Precision) -> None:
        self._weights, self._name, self._precision = weights, name, precision
        self.notes = weights.notes
        dtype = getattr(torch, precision)
        self._network = FoldedResNet50(weights.tensors, torch.device("cpu"), dtype)

    @property
    def name(self) -> str:
        return self._name

    @property
    def sha256(self) -> str:
        return self._weights.sha256

    @property
    def precision(self) -> str:
        return self._precision

    def submit(self, tiles: Tiles) -> AbstractPending:
        return Ready(self._network(torch.from_numpy(tiles)).numpy())
