"""Automatic mixed precision: which ops change type, and the gradient scaler."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from support import DEVICE, make
from torch import nn

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


@pytest.fixture
def x() -> torch.Tensor:
    return make(4, 4).to(DEVICE)


class TestLists:
    @pytest.mark.parametrize("dtype", [BF16, F16])
    @pytest.mark.parametrize(
        "op",
        [
            lambda x: x @ x,
            lambda x: torch.mm(x, x),
            lambda x: torch.addmm(x, x, x),
            lambda x: torch.bmm(x[None], x[None]),
            lambda x: torch.baddbmm(x[None], x[None], x[None]),
            lambda x: torch.mv(x, x[0]),
            lambda x: F.linear(x, x, x[0]),
            lambda x: F.conv1d(x[None], x[None, :, :2].contiguous()),
        ],
    )
    def test_products_are_lowered(self, x, op, dtype):
        with torch.autocast("tvarant", dtype=dtype):
            lowered = op(x)
        assert lowered.dtype == dtype
        full = op(x)
        assert full.dtype == F32
        torch.testing.assert_close(lowered.float(), full, rtol=3e-2, atol=0.3)

    @pytest.mark.parametrize(
        "op",
        [
            lambda x: torch.softmax(x, -1),
            lambda x: torch.log_softmax(x, -1),
            lambda x: F.layer_norm(x, (4,)),
            lambda x: x.sum(),
            lambda x: x.cumsum(0),
            lambda x: x.exp(),
            lambda x: x.abs().log(),
            lambda x: x.pow(2),
            lambda x: x.norm(),
            lambda x: F.mse_loss(x, x),
            lambda x: F.nll_loss(x, torch.zeros(4, dtype=torch.int64, device=DEVICE)),
            lambda x: F.cross_entropy(x, x.float().softmax(-1)),
        ],
    )
    def test_sensitive_ops_are_kept_in_float32(self, x, op):
        with torch.autocast("tvarant", dtype=F16):
            assert op(x.half()).dtype == F32

    @pytest.mark.parametrize(
        "op",
        [
            lambda a, b: torch.cat([a, b]),
            lambda a, b: torch.stack([a, b]),
            lambda a, b: a + b,
            lambda a, b: torch.addcmul(a, b, b),
            lambda a, b: torch.where(a > 0, a, b),
        ],
    )
    def test_widest_type_wins(self, x, op):
        with torch.autocast("tvarant", dtype=F16):
            assert op(x.half(), x).dtype == F32
            assert op(x.half(), x.half()).dtype == F16

    def test_other_ops_keep_their_type(self, x):
        with torch.autocast("tvarant", dtype=BF16):
            assert x.relu().dtype == F32
            assert x.bfloat16().relu().dtype == BF16
            assert (x.double() @ x.double()).dtype == torch.float64

    def test_binary_cross_entropy_is_refused(self, x):
        with torch.autocast("tvarant", dtype=F16), pytest.raises(RuntimeError):
            F.binary_cross_entropy(x.sigmoid(), x.sigmoid())


class TestSwitches:
    def test_default_type(self):
        with torch.autocast("tvarant"):
            assert torch.get_autocast_dtype("tvarant") == BF16
        assert torch.tvarant.get_amp_supported_dtype() == [BF16, F16]
        assert torch.tvarant.is_bf16_supported()

    def test_nesting(self, x):
        assert not torch.tvarant.is_autocast_enabled()
        with torch.autocast("tvarant", dtype=F16):
            assert torch.tvarant.is_autocast_enabled()
            assert torch.tvarant.get_autocast_dtype() == F16
            with torch.autocast("tvarant", enabled=False):
                assert (x @ x).dtype == F32
            assert (x @ x).dtype == F16
        assert (x @ x).dtype == F32

    def test_setters(self):
        before = torch.tvarant.get_autocast_dtype()
        torch.tvarant.set_autocast_enabled(True)
        torch.tvarant.set_autocast_dtype(F16)
        try:
            y = make(2, 2).to(DEVICE)
            assert (y @ y).dtype == F16
        finally:
            torch.tvarant.set_autocast_enabled(False)
            torch.tvarant.set_autocast_dtype(before)

    def test_unsupported_type_warns_and_is_off(self, x):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with torch.autocast("tvarant", dtype=torch.float64):
                assert (x @ x).dtype == F32
        assert any("autocast" in str(w.message) for w in caught)

    def test_decorators(self, x):
        @torch.amp.custom_fwd(device_type="tvarant", cast_inputs=F16)
        def forward(t):
            return t.dtype

        assert forward(x) == F32
        with torch.autocast("tvarant", dtype=BF16):
            assert forward(x) == F16

    def test_the_cpu_is_not_affected(self):
        with torch.autocast("tvarant", dtype=F16):
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == F32


class TestScaler:
    def step(self, model, optimizer, scaler, bad=False):
        optimizer.zero_grad()
        with torch.autocast("tvarant", dtype=BF16):
            loss = F.mse_loss(
                model(make(8, 4).to(DEVICE)).float(), make(8, 2).to(DEVICE)
            )
        scaler.scale(loss).backward()
        if bad:
            next(model.parameters()).grad[0, 0] = float("inf")
        scaler.step(optimizer)
        scaler.update()

    def test_a_bad_step_is_skipped_and_halves_the_scale(self):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(DEVICE)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("tvarant", init_scale=1024.0)
        for number in range(5):
            before = copy.deepcopy(model.state_dict())
            self.step(model, optimizer, scaler, bad=number == 2)
            same = all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
            assert same is (number == 2)
            assert scaler.get_scale() == (1024.0 if number < 2 else 512.0)

    def test_growth_and_state(self):
        model = nn.Linear(4, 2).to(DEVICE)
        optimizer = torch.optim.Adam(model.parameters())
        scaler = torch.amp.GradScaler("tvarant", init_scale=8.0, growth_interval=2)
        for _ in range(2):
            self.step(model, optimizer, scaler)
        assert scaler.get_scale() == 16.0
        other = torch.amp.GradScaler("tvarant")
        other.load_state_dict(scaler.state_dict())
        assert other.get_scale() == 16.0

    def test_unscale_for_clipping(self):
        model = nn.Linear(4, 2).to(DEVICE)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("tvarant", init_scale=64.0)
        loss = model(make(8, 4).to(DEVICE)).sum()
        scaler.scale(loss).backward()
        scaled = [p.grad.clone() for p in model.parameters()]
        scaler.unscale_(optimizer)
        for p, grad in zip(model.parameters(), scaled, strict=True):
            torch.testing.assert_close(p.grad.cpu(), grad.cpu() / 64)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

    def test_training_in_mixed_precision_learns(self):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)).to(DEVICE)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        scaler = torch.amp.GradScaler("tvarant")

        def loss():
            with torch.no_grad():
                return F.mse_loss(
                    model(make(8, 4).to(DEVICE)), make(8, 2).to(DEVICE)
                ).item()

        before = loss()
        for _ in range(30):
            self.step(model, optimizer, scaler)
        assert loss() < before
