"""Image models train on the device as on the CPU, without a fallback."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support import DEVICE
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))

from vision import Digits, MobileNetV2, ResNet18, UNet  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_fallback")

# Name, model, size of the images.
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "digits": (Digits, (8, 1, 28, 28)),
    "resnet18": (lambda: ResNet18(width=16), (4, 3, 64, 64)),
    "mobilenet_v2": (MobileNetV2, (4, 3, 48, 48)),
    "unet": (UNet, (2, 3, 24, 24)),
}


def train(
    name: str, device: torch.device, memory_format: torch.memory_format
) -> tuple[list[float], torch.Tensor, nn.Module]:
    """Losses of three steps, the output after them in eval mode, the model."""
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model = make()
    model.to(device, memory_format=memory_format)
    x = torch.randn(shape).to(device).to(memory_format=memory_format)
    labels = (torch.arange(shape[0]) % 10).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.9)
    losses = []
    for _ in range(3):
        y = model(x)
        loss = F.mse_loss(y, x) if y.dim() == 4 else F.cross_entropy(y, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        return losses, model(x), model


@pytest.mark.parametrize(
    "memory_format", [torch.contiguous_format, torch.channels_last], ids=str
)
@pytest.mark.parametrize("name", MODELS)
def test_trains(name: str, memory_format: torch.memory_format) -> None:
    ours, y, model = train(name, DEVICE, memory_format)
    theirs, want, reference = train(name, torch.device("cpu"), memory_format)
    assert ours == pytest.approx(theirs, rel=2e-3)
    torch.testing.assert_close(y.cpu(), want, rtol=2e-2, atol=2e-2)
    for (key, a), b in zip(
        model.state_dict().items(), reference.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(
            a.cpu(), b, rtol=1e-2, atol=1e-2, msg=lambda text, k=key: f"{k}: {text}"
        )


def test_bfloat16() -> None:
    torch.manual_seed(0)
    model = ResNet18(width=8).to(DEVICE)
    x = torch.randn(2, 3, 64, 64).to(DEVICE)
    with torch.autocast("tvarant", torch.bfloat16):
        loss = F.cross_entropy(model(x).float(), torch.tensor([1, 2]).to(DEVICE))
    loss.backward()
    assert all(torch.isfinite(p.grad).all().item() for p in model.parameters())
