"""Optimisers against the CPU, and how few launches a step is."""

from __future__ import annotations

import copy

import pytest
import torch
from support import DEVICE, Grid, assert_same, make
from torch import nn

OPTIMIZERS = {
    "SGD": lambda p, **k: torch.optim.SGD(p, lr=0.1, **k),
    "SGD momentum": lambda p, **k: torch.optim.SGD(p, lr=0.1, momentum=0.9, **k),
    "SGD nesterov": lambda p, **k: torch.optim.SGD(
        p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01, **k
    ),
    "Adam": lambda p, **k: torch.optim.Adam(p, lr=0.05, **k),
    "Adam amsgrad": lambda p, **k: torch.optim.Adam(
        p, lr=0.05, amsgrad=True, weight_decay=0.1, **k
    ),
    "Adam maximize": lambda p, **k: torch.optim.Adam(p, lr=0.05, maximize=True, **k),
    "AdamW": lambda p, **k: torch.optim.AdamW(p, lr=0.05, **k),
    "RMSprop": lambda p, **k: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, **k),
    "Adagrad": lambda p, **k: torch.optim.Adagrad(p, lr=0.1, **k),
}
NATIVE = ("SGD", "SGD momentum", "SGD nesterov", "Adam", "Adam amsgrad", "AdamW")


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2)
    )


def steps(model, optimizer, device, count=5):
    for i in range(count):
        optimizer.zero_grad()
        model(make(4, 6, seed=i).to(device)).pow(2).sum().backward()
        optimizer.step()


@pytest.mark.parametrize("foreach", [None, True, False])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_against_the_cpu(name, foreach):
    host = network()
    ours = copy.deepcopy(host).to(DEVICE)
    steps(host, OPTIMIZERS[name](host.parameters(), foreach=False), "cpu")
    optimizer = OPTIMIZERS[name](ours.parameters(), foreach=foreach)
    torch.tvarant.reset_fallback_stats()
    steps(ours, optimizer, DEVICE)
    if name in NATIVE:
        assert torch.tvarant.fallback_stats() == {}
    assert_same(list(ours.parameters()), list(host.parameters()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop"]
)
def test_others_work(name):
    host = network()
    ours = copy.deepcopy(host).to(DEVICE)
    for model, device in ((host, "cpu"), (ours, DEVICE)):
        steps(model, getattr(torch.optim, name)(model.parameters()), device, 3)
    assert_same(list(ours.parameters()), list(host.parameters()), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", ["SGD momentum", "Adam", "AdamW"])
def test_other_dtypes(name, dtype):
    host = network().to(dtype)
    ours = copy.deepcopy(host).to(DEVICE)
    results = []
    for model, device in ((host, "cpu"), (ours, DEVICE)):
        optimizer = OPTIMIZERS[name](model.parameters())
        for i in range(3):
            for p in model.parameters():
                p.grad = make(*p.shape, dtype=dtype, seed=i).to(device)
            optimizer.step()
        results.append(list(model.parameters()))
    loose = {"rtol": 3e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}
    assert_same(results[1], results[0], **loose)


@pytest.mark.parametrize(
    "name,limit", [("SGD", 1), ("SGD momentum", 3), ("Adam", 8), ("AdamW", 9)]
)
@pytest.mark.parametrize("parameters", [10, 200])
def test_few_launches_whatever_the_number_of_parameters(name, limit, parameters):
    weights = [nn.Parameter(make(3, 1 + i % 7).to(DEVICE)) for i in range(parameters)]
    optimizer = OPTIMIZERS[name](weights)
    for w in weights:
        w.grad = torch.ones_like(w)
    for _ in range(2):
        optimizer.step()
    torch.tvarant.synchronize()
    before = torch.tvarant.counters()
    optimizer.step()
    assert torch.tvarant.counters()["round_trips"] == before["round_trips"]
    torch.tvarant.synchronize()
    launches = torch.tvarant.counters()["launches"] - before["launches"]
    assert 0 < launches <= limit


def test_transposed_parameters():
    with Grid() as grid:
        for name, make_optimizer in OPTIMIZERS.items():
            for foreach in (True, False):
                results = []
                for device in ("cpu", DEVICE):
                    w = nn.Parameter(torch.arange(6.0).view(2, 3).to(device).t())
                    w.grad = torch.ones(3, 2).to(device)
                    make_optimizer([w], foreach=foreach).step()
                    results.append(w)
                with grid.case(name, foreach):
                    assert results[1].stride() == (1, 3)
                    assert_same(results[1], results[0], rtol=1e-5, atol=1e-6)


def test_parameter_groups_schedulers_and_changed_rates():
    host = network()
    ours = copy.deepcopy(host).to(DEVICE)
    for model, device in ((host, "cpu"), (ours, DEVICE)):
        optimizer = torch.optim.Adam(
            [
                {"params": model[0].parameters(), "lr": 0.1},
                {"params": model[2].parameters(), "weight_decay": 0.1},
                {"params": model[4].parameters(), "betas": (0.5, 0.9)},
            ],
            lr=0.01,
        )
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.3)
        for _ in range(5):
            steps(model, optimizer, device, 1)
            scheduler.step()
    assert_same(list(ours.parameters()), list(host.parameters()), rtol=1e-4, atol=1e-5)


def test_missing_gradients_are_skipped():
    host = network()
    ours = copy.deepcopy(host).to(DEVICE)
    for model in (host, ours):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        model[0].weight.grad = torch.ones_like(model[0].weight)
        optimizer.step()
    assert_same(list(ours.parameters()), list(host.parameters()), rtol=1e-5, atol=1e-6)


def test_zero_grad_and_clipping():
    ours, host = network().to(DEVICE), network()
    for model, device in ((host, "cpu"), (ours, DEVICE)):
        model(make(4, 6).to(device)).pow(2).sum().backward()
    expected = nn.utils.clip_grad_norm_(host.parameters(), 0.5)
    total = nn.utils.clip_grad_norm_(ours.parameters(), 0.5)
    assert_same(total, expected, rtol=1e-5, atol=1e-6)
    assert_same(
        [p.grad for p in ours.parameters()],
        [p.grad for p in host.parameters()],
        rtol=1e-4,
        atol=1e-5,
    )
    nn.utils.clip_grad_value_(ours.parameters(), 0.01)
    assert all(p.grad.abs().max().item() <= 0.01 for p in ours.parameters())
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.1)
    optimizer.zero_grad(set_to_none=False)
    assert all(p.grad.count_nonzero().item() == 0 for p in ours.parameters())
    optimizer.zero_grad()
    assert all(p.grad is None for p in ours.parameters())


FOREACH = {
    "add number": lambda a, b: torch._foreach_add(a, 2),
    "add list": lambda a, b: torch._foreach_add(a, b, alpha=0.5),
    "add_ list": lambda a, b: torch._foreach_add_(a, b),
    "sub": lambda a, b: torch._foreach_sub(a, b),
    "mul number": lambda a, b: torch._foreach_mul(a, 3),
    "mul_ numbers": lambda a, b: torch._foreach_mul_(a, [1.5, 2.5, 3.5, 4.5]),
    "mul list": lambda a, b: torch._foreach_mul(a, b),
    "div": lambda a, b: torch._foreach_div(a, b),
    "div_ numbers": lambda a, b: torch._foreach_div_(a, [1.5, 2.5, 3.5, 4.5]),
    "addcmul_": lambda a, b: torch._foreach_addcmul_(a, b, b, value=0.5),
    "addcdiv_": lambda a, b: torch._foreach_addcdiv_(a, b, b, value=0.5),
    "addcdiv_ numbers": lambda a, b: torch._foreach_addcdiv_(
        a, b, b, [1.0, 2.0, 3.0, 4.0]
    ),
    "lerp_": lambda a, b: torch._foreach_lerp_(a, b, 0.25),
    "sqrt": lambda a, b: torch._foreach_sqrt(b),
    "neg": lambda a, b: torch._foreach_neg(a),
    "abs": lambda a, b: torch._foreach_abs(a),
    "exp": lambda a, b: torch._foreach_exp(a),
    "reciprocal": lambda a, b: torch._foreach_reciprocal(b),
    "maximum": lambda a, b: torch._foreach_maximum(a, b),
    "norm": lambda a, b: torch._foreach_norm(a),
    "zero_": lambda a, b: torch._foreach_zero_(a),
    "copy_": lambda a, b: torch._foreach_copy_(a, b),
    "pow": lambda a, b: torch._foreach_pow(b, 2),
    "pow list": lambda a, b: torch._foreach_pow(b, a),
    "pow_": lambda a, b: torch._foreach_pow_(b, [1.5, 2, 0.5, 3]) or b,
    "rsqrt_": lambda a, b: torch._foreach_rsqrt_(b) or b,
    "sign_": lambda a, b: torch._foreach_sign_(a),
    "clamp_min_": lambda a, b: torch._foreach_clamp_min_(a, 0.5),
    "clamp_max_ list": lambda a, b: torch._foreach_clamp_max_(a, b),
    "minimum": lambda a, b: torch._foreach_minimum(a, b),
}


@pytest.mark.parametrize("name", FOREACH)
def test_foreach(name):
    shapes = ((3,), (2, 3), (), (4, 0))
    a = [make(*s) for s in shapes]
    b = [make(*s, low=0.5, high=2, seed=1) for s in shapes]
    function = FOREACH[name]
    ours = [[t.to(DEVICE) for t in group] for group in (a, b)]
    objects = [id(t) for t in ours[0]]
    expected, result = function(a, b), function(*ours)
    if expected is not None:
        assert_same(list(result), list(expected), rtol=1e-5, atol=1e-6)
    assert_same(ours[0], a, rtol=1e-5, atol=1e-6)
    assert [id(t) for t in ours[0]] == objects
