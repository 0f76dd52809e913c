"""Runs a model on the device and on the CPU, side by side, and compares."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from support import DEVICE
from torch import nn
from torch.utils import _pytree as pytree

# (relative, absolute) of losses, and of parameters after the steps.
TOLERANCE = {torch.float32: (1e-4, 1e-5), torch.bfloat16: (3e-2, 3e-2)}


def to_device(batch: Any) -> Any:
    return pytree.tree_map(
        lambda x: x.to(DEVICE) if isinstance(x, torch.Tensor) else x, batch
    )


def train_both(
    model: nn.Module,
    loss_of: Callable[[nn.Module, Any], torch.Tensor],
    batch: Any,
    dtype: torch.dtype = torch.float32,
    steps: int = 3,
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW,
    **options: Any,
) -> None:
    """Forward, backward and steps of the optimiser: equal losses and parameters.

    In bfloat16 both sides round differently, so that only losses and the size of
    the gradients are compared. Fails if any operator ran on the CPU.
    """
    options.setdefault("lr", 1e-3)
    model = model.to(dtype).train()
    batch = pytree.tree_map(
        lambda x: (
            x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x
        ),
        batch,
    )
    ours = copy.deepcopy(model).to(DEVICE)
    sides = (
        (ours, optimizer(ours.parameters(), **options), to_device(batch)),
        (model, optimizer(model.parameters(), **options), batch),
    )
    torch.tvarant.reset_fallback_stats()
    relative, absolute = TOLERANCE[dtype]
    for step in range(steps):
        losses, norms = [], []
        for net, optim, data in sides:
            optim.zero_grad()
            loss = loss_of(net, data)
            loss.backward()
            norms.append(
                torch.nn.utils.get_total_norm(
                    [p.grad for p in net.parameters() if p.grad is not None]
                )
            )
            optim.step()
            losses.append(loss)
        torch.testing.assert_close(
            losses[0].detach().cpu().float(),
            losses[1].detach().float(),
            rtol=relative,
            atol=absolute,
            msg=lambda text, step=step: f"loss of step {step}: {text}",
        )
        torch.testing.assert_close(
            norms[0].cpu().float(),
            norms[1].float(),
            rtol=10 * relative,
            atol=10 * absolute,
            msg=lambda text, step=step: f"gradients of step {step}: {text}",
        )
    assert not torch.tvarant.fallback_stats(), torch.tvarant.fallback_stats()


def forward_both(
    model: nn.Module, run: Callable[[nn.Module, Any], Any], batch: Any
) -> None:
    """The same outputs in evaluation mode, without an operator on the CPU."""
    model = model.eval()
    ours = copy.deepcopy(model).to(DEVICE)
    torch.tvarant.reset_fallback_stats()
    with torch.no_grad():
        result = run(ours, to_device(batch))
        expected = run(model, batch)
    for a, b in zip(
        pytree.tree_leaves(result), pytree.tree_leaves(expected), strict=True
    ):
        if isinstance(b, torch.Tensor):
            torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-4)
    assert not torch.tvarant.fallback_stats(), torch.tvarant.fallback_stats()
