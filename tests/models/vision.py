"""Image models as people write them, with random weights.

Small versions of a digit classifier, ResNet-18 (He et al., 2016), MobileNetV2
(Sandler et al., 2018) and a U-Net (Ronneberger et al., 2015).
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Digits(nn.Module):
    """Two convolutions and two dense layers for 28x28 images."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.conv2 = nn.Conv2d(8, 16, 3)
        self.dense1 = nn.Linear(16 * 12 * 12, 32)
        self.dense2 = nn.Linear(32, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.dense2(F.relu(self.dense1(x.flatten(1))))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, width, 1, stride, bias=False),
                nn.BatchNorm2d(width),
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y)) + self.shortcut(x)
        return F.relu(y, inplace=True)


class ResNet18(nn.Module):
    """ResNet-18; `width` channels in the first stage (64 in the paper)."""

    def __init__(self, width: int = 64, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        stages, channels = [], width
        for stage in range(4):
            for block in range(2):
                stride = 2 if stage > 0 and block == 0 else 1
                stages.append(BasicBlock(channels, width << stage, stride))
                channels = width << stage
        self.stages = nn.Sequential(*stages)
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.stages(self.stem(x)))


class InvertedResidual(nn.Module):
    """Widen, filter each channel, narrow."""

    def __init__(self, channels: int, width: int, stride: int, factor: int) -> None:
        super().__init__()
        hidden = channels * factor
        self.adds = stride == 1 and channels == width
        self.layers = nn.Sequential(
            nn.Conv2d(channels, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, width, 1, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layers(x)
        return x + y if self.adds else y


class MobileNetV2(nn.Module):
    """A shorter MobileNetV2."""

    def __init__(self, width: int = 16, classes: int = 10) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, width, 3, 2, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU6(inplace=True),
        ]
        channels = width
        for factor, out, stride in (
            (1, width, 1),
            (6, width * 3 // 2, 2),
            (6, width * 3 // 2, 1),
            (6, width * 2, 2),
            (6, width * 2, 1),
        ):
            layers.append(InvertedResidual(channels, out, stride, factor))
            channels = out
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).mean([2, 3]))


class UNet(nn.Module):
    """One level down and up again, with group norm; gives an image."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1, padding_mode="reflect"),
            nn.GroupNorm(2, width),
            nn.SiLU(),
        )
        self.middle = nn.Sequential(
            nn.AvgPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.GroupNorm(4, 2 * width),
            nn.SiLU(),
        )
        self.up = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.smooth = nn.Conv2d(3 * width, width, 3, padding=1)
        self.out = nn.Conv2d(width, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = self.down(x)
        middle = self.middle(skip)
        large = F.interpolate(
            middle, scale_factor=2, mode="bilinear", align_corners=False
        )
        up = self.up(middle) + large[:, : skip.shape[1]]
        joined = torch.cat([up, skip, large[:, : skip.shape[1]]], 1)
        return self.out(F.silu(self.smooth(joined)))
