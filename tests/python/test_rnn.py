"""LSTM, GRU and RNN: results and gradients equal the CPU's, no fallback."""

from __future__ import annotations

import copy

import pytest
import torch
from support import DEVICE, Grid, assert_same, make, mirror
from torch import nn

pytestmark = pytest.mark.usefixtures("no_fallback")

LOOSE = {"rtol": 2e-4, "atol": 2e-5}
KINDS = (nn.LSTM, nn.GRU, nn.RNN)


def run(module: nn.Module, x: torch.Tensor, state: object) -> list[torch.Tensor]:
    x = x.detach().requires_grad_()
    output, last = module(x, state)
    last = last if isinstance(last, tuple) else (last,)
    total = output.sum() + sum((i + 2) * t.square().sum() for i, t in enumerate(last))
    gradients = torch.autograd.grad(total, [x, *module.parameters()])
    return [output, *last, *gradients]


def check(module: nn.Module, x: torch.Tensor, state: object = None) -> None:
    expected = run(module, x, state)
    ours = copy.deepcopy(module).to(DEVICE)
    if isinstance(state, tuple):
        state = tuple(mirror(s) for s in state)
    elif state is not None:
        state = mirror(state)
    assert_same(run(ours, mirror(x), state), expected, strides=False, **LOOSE)


@pytest.mark.parametrize("kind", KINDS)
def test_modules(kind):
    with Grid() as grid:
        for layers in (1, 2):
            for bidirectional in (False, True):
                for bias in (True, False):
                    for batch_first in (False, True):
                        torch.manual_seed(0)
                        module = kind(
                            5,
                            7,
                            layers,
                            bias=bias,
                            batch_first=batch_first,
                            bidirectional=bidirectional,
                        )
                        with grid.case(layers, bidirectional, bias, batch_first):
                            check(module, make(4, 3, 5))
        with grid.case("state"):
            state = make(1, 3, 7)
            both = (state, make(1, 3, 7, seed=1)) if kind is nn.LSTM else state
            check(kind(5, 7), make(4, 3, 5), both)
        with grid.case("one step of one sample"):
            check(kind(5, 7), make(1, 1, 5))
        with grid.case("no batch"):
            check(kind(5, 7), make(4, 5))
        with grid.case("double"):
            check(kind(5, 7).double(), make(4, 3, 5, dtype=torch.float64))
        if kind is nn.LSTM:
            with grid.case("projection"):
                check(kind(5, 7, proj_size=3), make(4, 3, 5))


@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences(kind):
    torch.manual_seed(0)
    module = kind(5, 7, bidirectional=True)
    x = make(6, 3, 5)
    lengths = [6, 4, 1]

    def call(m, x):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
        output, _ = m(packed)
        return nn.utils.rnn.pad_packed_sequence(output)[0]

    expected = call(module, x)
    assert_same(
        call(copy.deepcopy(module).to(DEVICE), mirror(x)),
        expected,
        strides=False,
        **LOOSE,
    )


def test_cells():
    for kind, parts in ((nn.LSTMCell, 2), (nn.GRUCell, 1), (nn.RNNCell, 1)):
        for bias in (True, False):
            torch.manual_seed(0)
            module = kind(5, 7, bias=bias)
            ours = copy.deepcopy(module).to(DEVICE)
            x = make(3, 5)

            def call(m, x, parts=parts):
                x = x.detach().requires_grad_()
                state = None
                for _ in range(2):
                    state = m(x, state)
                result = state if parts == 2 else (state,)
                total = sum(t.square().sum() for t in result)
                return [*result, *torch.autograd.grad(total, [x, *m.parameters()])]

            assert_same(call(ours, mirror(x)), call(module, x), strides=False, **LOOSE)


def test_no_grad_and_an_empty_batch():
    module = nn.LSTM(5, 7)
    ours = copy.deepcopy(module).to(DEVICE)
    with torch.no_grad():
        assert_same(ours(mirror(make(4, 3, 5)))[0], module(make(4, 3, 5))[0], **LOOSE)
        assert ours(torch.empty(4, 0, 5, device=DEVICE))[0].shape == (4, 0, 7)


def test_few_launches_a_step():
    module = nn.LSTM(64, 64).to(DEVICE)
    x = torch.randn(20, 8, 64, device=DEVICE)
    with torch.no_grad():
        module(x)
        torch.tvarant.synchronize()
        before = torch.tvarant.counters()["launches"]
        module(x)
        torch.tvarant.synchronize()
    launches = torch.tvarant.counters()["launches"] - before
    assert launches <= 20 * 3 + 10, launches
