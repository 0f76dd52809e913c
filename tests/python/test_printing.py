"""Printed tensors read as on the CPU, apart from the device, after one transfer."""

from __future__ import annotations

import warnings

import pytest
import torch
from support import DEVICE, make, mirror, text_of
from torch import nn

TENSORS = {
    "plain": make(3, 4),
    "strided": make(3, 4).t()[::2],
    "expanded": torch.tensor([1.5]).expand(2, 3),
    "special": torch.tensor([1.5, float("nan"), float("inf"), -0.0, 1e10]),
    "empty": torch.empty(0, 3),
    "empty vector": torch.empty(0),
    "bfloat16": make(4, dtype=torch.bfloat16),
    "half": make(2, 2, dtype=torch.float16),
    "double": make(3, dtype=torch.float64),
    "scalar": torch.tensor(2.5),
    "bool scalar": torch.tensor(True),
    "bool": torch.tensor([True, False]),
    "big integers": torch.tensor([2**62, -1, 3]),
    "bytes": torch.arange(5, dtype=torch.uint8),
    "complex": make(3, dtype=torch.complex64),
    "conjugate": make(3, dtype=torch.complex64).conj(),
    "vector of 3000": torch.arange(3000.0),
    "summarised": make(60, 70, 3),
    "one long dimension": make(2, 3000),
}


@pytest.mark.parametrize("name", TENSORS)
def test_same_text(name):
    x = TENSORS[name]
    torch.tvarant.reset_fallback_stats()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = repr(mirror(x))
    assert "device='tvarant:0'" in text
    assert text_of(mirror(x)) == text_of(x)
    assert torch.tvarant.fallback_stats() == {}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: nn.Parameter(x),
        lambda x: x.clone().requires_grad_(),
        lambda x: x.clone().requires_grad_() * 2,
        lambda x: x.clone().requires_grad_()[0],
    ],
)
def test_with_autograd(function):
    x = make(3, 2)
    assert text_of(function(x.to(DEVICE))) == text_of(function(x))


def test_modes():
    x = make(3, 2)
    d = x.to(DEVICE)
    with torch.no_grad():
        assert text_of(d) == text_of(x)
    with torch.inference_mode():
        assert text_of(d * 1) == text_of(x)
    with torch.autocast("tvarant", dtype=torch.float16):
        assert text_of(d) == text_of(x)
    torch.set_printoptions(precision=2, sci_mode=True)
    try:
        assert text_of(d) == text_of(x)
    finally:
        torch.set_printoptions(profile="default")
    torch.set_default_device("tvarant")
    try:
        assert repr(d).startswith("tensor(")
        assert "0." in repr(d) or "1." in repr(d)
    finally:
        torch.set_default_device(None)


def test_huge_tensor_moves_only_what_is_shown():
    x = torch.ones(2000, 2000, device=DEVICE)
    torch.tvarant.synchronize()
    before = torch.tvarant.counters()
    text = repr(x)
    after = torch.tvarant.counters()
    assert text.count("1.") == 36
    assert after["downloaded_bytes"] - before["downloaded_bytes"] < 1 << 16
    assert after["round_trips"] - before["round_trips"] <= 8


def test_module_and_device():
    assert repr(nn.Linear(2, 3).to(DEVICE)) == repr(nn.Linear(2, 3))
    assert repr(torch.ones(1, device=DEVICE).device) == (
        "device(type='tvarant', index=0)"
    )
    assert "tvarant" in repr(torch.ones(1, device=DEVICE).untyped_storage())
