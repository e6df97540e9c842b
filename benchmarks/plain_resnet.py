"""ResNet-50 as a plain torch module: what the folded network of `embed` is held against."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from fedcox.slides.resnet import STAGES, BottleneckPlan, bottlenecks


class Bottleneck(nn.Module):
    """Narrow, look around, widen, and add to what passes by."""

    def __init__(self, plan: BottleneckPlan) -> None:
        super().__init__()
        inputs, width, outputs, stride = plan.inputs, plan.width, plan.outputs, plan.stride
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Sequential | None = None
        if plan.has_beside:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """(n, inputs, height, width) to (n, 4·width, height/stride, width/stride)."""
        passed = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return cast(Tensor, self.relu(self.bn3(self.conv3(x)) + passed))


class ResNet50(nn.Module):
    """The network without its classifier; its state dict has torchvision's 318 names."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        self.stages = len(STAGES)
        for stage in range(1, self.stages + 1):
            plans = [plan for plan in bottlenecks() if plan.name.startswith(f"layer{stage}.")]
            self.add_module(f"layer{stage}", nn.Sequential(*map(Bottleneck, plans)))

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3, height, width), normalised, to (n, 2048)."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for stage in range(1, self.stages + 1):
            x = self.get_submodule(f"layer{stage}")(x)
        return x.mean(dim=(2, 3))
