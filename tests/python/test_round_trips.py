"""How often a program waits for the daemon: only when it reads a value."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from support import DEVICE, make
from torch import nn


def round_trips(function, warm: int = 3) -> int:
    """Waits of one call of the function after some calls to warm up."""
    for _ in range(warm):
        function()
    torch.tvarant.synchronize()
    before = torch.tvarant.counters()["round_trips"]
    function()
    return torch.tvarant.counters()["round_trips"] - before


@pytest.fixture(params=["SGD", "Adam", "AdamW"])
def step(request):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(16, 32),
        nn.ReLU(),
        nn.LayerNorm(32),
        nn.Dropout(0.1),
        nn.Linear(32, 4),
    ).to(DEVICE)
    optimizer = getattr(torch.optim, request.param)(model.parameters(), lr=0.01)
    x, y = make(8, 16).to(DEVICE), torch.arange(8, device=DEVICE) % 4

    def run() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return run


class TestTraining:
    def test_a_step_without_reads_waits_for_nothing(self, step):
        assert round_trips(step) == 0

    def test_a_step_that_reads_its_loss_waits_once(self, step):
        assert round_trips(lambda: step().item()) <= 1
        x = torch.eye(512, device=DEVICE)

        def late() -> None:
            y = x
            for _ in range(20):  # so that the device is not done when asked
                y = y @ x
            step().item()

        assert round_trips(late) == 1

    def test_many_steps(self, step):
        def epoch():
            for _ in range(10):
                step()

        assert round_trips(epoch, warm=1) == 0

    def test_fresh_batches_are_uploaded_without_waiting(self, step):
        def run():
            host = make(8, 16)
            host.to(DEVICE, non_blocking=True).relu()
            step()

        assert round_trips(run) == 0

    def test_no_fallback_in_a_step(self, step, no_fallback):
        step()


SIDE: list[torch.Stream] = []


class TestOps:
    x = make(32, 32)

    @pytest.mark.parametrize(
        "function",
        [
            lambda d: d + 1,
            lambda d: d.add_(0.5),
            lambda d: (d @ d).relu().sum(),
            lambda d: torch.softmax(d, -1),
            lambda d: d[3, 4],
            lambda d: d.t().contiguous().view(-1)[::3].clone(),
            lambda d: torch.zeros(5, 5, device=DEVICE),
            lambda d: torch.arange(10, device=DEVICE),
            lambda d: torch.randn(10, device=DEVICE),
            lambda d: torch.cat([d, d]),
            lambda d: torch.where(d > 0, d, 0.0),
            lambda d: d.masked_fill(d > 0, 1.0),
            lambda d: d.to(torch.float16).float(),
            lambda d: torch.tensor([1.0, 2.0]).to(DEVICE, non_blocking=True),
            lambda d: d.expand(4, 32, 32).sum(0),
            lambda d: torch.tvarant.Event().record(),
            lambda d: SIDE[0].wait_stream(torch.tvarant.current_stream()),
            lambda d: torch.tvarant.memory_allocated(),
            lambda d: torch.tvarant.get_rng_state(),
            lambda d: F.scaled_dot_product_attention(d[None], d[None], d[None]),
            lambda d: d.is_contiguous() and d.shape and d.device and d.dtype,
        ],
    )
    def test_none(self, function):
        d = self.x.to(DEVICE)
        SIDE[:] = [torch.tvarant.Stream()]
        assert round_trips(lambda: function(d)) == 0

    @pytest.mark.parametrize(
        "function",
        [
            lambda d: (d + 1).sum().item(),
            lambda d: (d + 1).cpu(),
            lambda d: d.mul_(1).tolist(),
            lambda d: bool((d.mul_(1) == d).all()),
            lambda d: torch.equal(d.mul_(1), d),
            lambda d: torch.allclose(d.mul_(1), d),
            lambda d: repr(d.mul_(1)),
            lambda d: (d.mul_(1), torch.tvarant.synchronize()),
        ],
    )
    def test_one(self, function):
        d = self.x.to(DEVICE)
        assert round_trips(lambda: function(d)) <= 1

    def test_batches_are_few(self):
        d = self.x.to(DEVICE)
        torch.tvarant.synchronize()
        before = torch.tvarant.counters()
        for _ in range(1000):
            d.add_(1)
        torch.tvarant.synchronize()
        after = torch.tvarant.counters()
        assert after["launches"] - before["launches"] == 1000
        assert after["batches"] - before["batches"] <= 500
