"""Trains a classifier of handwritten digits on tvarant, and checks it.

The data are the 1,797 digits of 8 x 8 pixels that scikit-learn brings. The same
network is trained on the CPU from the same start on the same batches; the two
loss curves must agree.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from tqdm import tqdm

LOSS_TOLERANCE = 1e-4  # relative, over the first epoch
ACCURACY_FLOOR = 0.95
BATCH = 64


@dataclass
class Data:
    """Pixels scaled to [0, 1] and labels, in one fixed random order."""

    train_x: torch.Tensor
    train_y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor


@dataclass
class Run:
    """What one training gave."""

    losses: list[float]  # one per step
    accuracy: float
    seconds: float


def load_data() -> Data:
    digits = load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32) / 16
    y = torch.tensor(digits.target, dtype=torch.int64)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    x, y = x[order], y[order]
    split = len(x) * 4 // 5
    return Data(x[:split], y[:split], x[split:], y[split:])


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )


def train(
    model: nn.Module, data: Data, device: str, epochs: int, show: bool = True
) -> Run:
    """Trains with Adam and measures accuracy on the test digits."""
    model = copy.deepcopy(model).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    train_x, train_y = data.train_x.to(device), data.train_y.to(device)
    losses: list[torch.Tensor] = []
    batches = torch.Generator().manual_seed(1)
    start = time.perf_counter()
    for _ in tqdm(range(epochs), desc=f"{device:>8}", unit="epoch", disable=not show):
        order = torch.randperm(len(train_x), generator=batches).to(device)
        for begin in range(0, len(order), BATCH):
            picked = order[begin : begin + BATCH]
            loss = F.cross_entropy(model(train_x[picked]), train_y[picked])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    curve = torch.stack(losses).cpu().tolist()
    seconds = time.perf_counter() - start
    with torch.no_grad():
        guessed = model(data.test_x.to(device)).argmax(1).cpu()
    accuracy = (guessed == data.test_y).double().mean().item()
    return Run(curve, accuracy, seconds)


def largest_difference(ours: list[float], theirs: list[float]) -> float:
    return max(
        abs(a - b) / max(abs(b), 1e-12) for a, b in zip(ours, theirs, strict=True)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=30)
    args = parser.parse_args()
    data = load_data()
    model = make_model()
    properties = torch.tvarant.get_device_properties()
    print(f"device      {torch.device('tvarant', 0)}: {properties.name}")
    print(
        f"            runtime {properties.runtime}, "
        f"{properties.instruction_set}, {properties.compute_units} threads, "
        f"{properties.total_memory / 2**30:.1f} GiB"
    )
    print(f"digits      {len(data.train_x)} to train, {len(data.test_x)} to test")
    torch.tvarant.reset_fallback_stats()
    train(model, data, "tvarant", 1, show=False)  # first use of each kernel
    train(model, data, "cpu", 1, show=False)
    ours = train(model, data, "tvarant", args.epochs)
    theirs = train(model, data, "cpu", args.epochs)
    fallbacks = torch.tvarant.fallback_stats()

    steps = -(-len(data.train_x) // BATCH)
    difference = largest_difference(ours.losses[:steps], theirs.losses[:steps])
    print(f"loss        {ours.losses[0]:.4f} -> {ours.losses[-1]:.4f}")
    print(f"            differs from the CPU's by {difference:.1e} in epoch 1")
    print(f"accuracy    {ours.accuracy:.3f} (CPU {theirs.accuracy:.3f})")
    print(
        f"time        {ours.seconds:.2f} s for {args.epochs} epochs "
        f"(CPU {theirs.seconds:.2f} s, ratio {ours.seconds / theirs.seconds:.2f})"
    )
    print(f"fallbacks   {fallbacks or 'none: every op ran on the device'}")
    failures = []
    if difference > LOSS_TOLERANCE:
        failures.append(f"the loss differs by more than {LOSS_TOLERANCE:g}")
    if ours.accuracy < ACCURACY_FLOOR:
        failures.append(f"accuracy is below {ACCURACY_FLOOR}")
    for failure in failures:
        print(f"FAILED      {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
