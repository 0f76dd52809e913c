"""Optimisers with fused=True: against the CPU's, with the scaler's tensors."""

from __future__ import annotations

import pytest
import torch
from support import DEVICE, Grid, assert_same, make, mirror

pytestmark = pytest.mark.usefixtures("no_fallback")

SHAPES = ((3, 4), (7,), (1,), (20, 30), (0,))
LISTS = {
    "sgd": (torch._fused_sgd_, 1, False),
    "adam": (torch._fused_adam_, 2, True),
    "adamw": (torch._fused_adamw_, 2, True),
    "adagrad": (torch._fused_adagrad_, 1, True),
}
OPTIONS = {
    "sgd": [
        dict(momentum=0.0, dampening=0.0, nesterov=False, is_first_step=True),
        dict(momentum=0.9, dampening=0.1, nesterov=False, is_first_step=True),
        dict(momentum=0.9, dampening=0.1, nesterov=False, is_first_step=False),
        dict(momentum=0.9, dampening=0.0, nesterov=True, is_first_step=False),
    ],
    "adam": [dict(beta1=0.9, beta2=0.99, eps=1e-8, amsgrad=a) for a in (False, True)],
    "adagrad": [dict(lr_decay=0.1, eps=1e-8)],
}
OPTIONS["adamw"] = OPTIONS["adam"]


def lists(count: int, dtype: torch.dtype) -> list[list[torch.Tensor]]:
    found = [
        [make(*shape, dtype=dtype, seed=10 * k + i) for i, shape in enumerate(SHAPES)]
        for k in range(2 + count)
    ]
    for states in found[2:]:
        for state in states:
            state.abs_()
    return found


def step(name: str, options: dict, dtype: torch.dtype, scaled: str | None) -> None:
    function, count, has_steps = LISTS[name]
    if options.get("amsgrad"):
        count += 1
    values = lists(count, dtype)
    if name == "sgd" and options["momentum"] == 0:
        values[2] = []
    if name in ("adam", "adamw") and not options["amsgrad"]:
        values.append([])
    if has_steps:
        values.append([torch.tensor(float(3 + i)) for i in range(len(SHAPES))])
    extra = {}
    if scaled is not None:
        extra["grad_scale"] = torch.tensor(8.0)
        extra["found_inf"] = torch.tensor(1.0 if scaled == "overflow" else 0.0)
    ours = [[mirror(x) for x in items] for items in values]
    for device, arguments in (("cpu", values), (DEVICE, ours)):
        keywords = {k: v.to(device) for k, v in extra.items()}
        function(
            *arguments, lr=0.1, weight_decay=0.03, maximize=False, **options, **keywords
        )
    if scaled == "overflow":
        # PyTorch's optimisers don't call the kernel's values in this case.
        for before, after in zip(lists(1, dtype)[0], ours[0], strict=True):
            assert_same(after, before)
        return
    loose = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}
    for mine, theirs in zip(ours, values, strict=True):
        assert_same(mine, theirs, **(loose or {"rtol": 2e-5, "atol": 1e-6}))


@pytest.mark.parametrize("name", LISTS)
def test_one_step(name):
    with Grid() as grid:
        for options in OPTIONS[name]:
            for dtype in (torch.float32, torch.float64, torch.bfloat16):
                if name == "sgd" and dtype == torch.bfloat16:
                    continue  # PyTorch's CPU kernel changes nothing
                for scaled in (None, "scaled", "overflow"):
                    with grid.case(options, dtype, scaled):
                        step(name, options, dtype, scaled)


OPTIMIZERS = {
    "SGD": dict(lr=0.1, momentum=0.9, weight_decay=0.01),
    "Adam": dict(lr=0.01, weight_decay=0.01),
    "AdamW": dict(lr=0.01, amsgrad=True),
    "Adagrad": dict(lr=0.1, lr_decay=0.01),
}


def train(name: str, device: torch.device | str, fused: bool) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 12), torch.nn.Tanh(), torch.nn.Linear(12, 3)
    ).to(device)
    optimizer = getattr(torch.optim, name)(
        model.parameters(), fused=fused, **OPTIMIZERS[name]
    )
    for i in range(5):
        optimizer.zero_grad()
        model(make(8, 6, seed=i).to(device)).square().mean().backward()
        optimizer.step()
    return [p.detach() for p in model.parameters()]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training(name):
    try:
        ours = train(name, DEVICE, fused=True)
    except RuntimeError as error:
        if "fused=True" in str(error):
            pytest.skip("PyTorch allows fused=True to devices of its own only")
        raise
    assert_same(ours, train(name, "cpu", fused=False), rtol=1e-4, atol=1e-5)


def test_errors():
    one = [torch.ones(2, device=DEVICE)]
    keywords = dict(
        weight_decay=0.0,
        momentum=0.0,
        lr=0.1,
        dampening=0.0,
        nesterov=False,
        maximize=False,
        is_first_step=True,
    )
    with pytest.raises(RuntimeError, match="same length"):
        torch._fused_sgd_(one, one * 2, [], **keywords)
    with pytest.raises(RuntimeError, match="same dtype"):
        torch._fused_sgd_(one, [torch.ones(3, device=DEVICE)], [], **keywords)
