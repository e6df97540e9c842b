"""What do ResNet-50's encoders share? The network, and what files of features say about it."""

from __future__ import annotations

import torch

from fedcox.slides.encoder import AbstractEncoder, Device, Precision
from fedcox.slides.folded_resnet import FoldedResNet50
from fedcox.slides.resnet_weights import ResNetWeights


class AbstractResNetEncoder(AbstractEncoder):
    """ResNet-50 on a device; how batches get there is each device's own matter."""

    def __init__(
        self, weights: ResNetWeights, name: str, precision: Precision, device: Device
    ) -> None:
        self._name, self._sha256, self._precision = name, weights.sha256, precision
        self.notes = weights.notes
        self._network = FoldedResNet50(
            weights.tensors, torch.device(device), getattr(torch, precision)
        )

    @property
    def name(self) -> str:
        return self._name

    @property
    def sha256(self) -> str:
        return self._sha256

    @property
    def precision(self) -> str:
        return self._precision
