"""Faults of an earlier package for this card; each works here.

O are faults of its OpenCL runtime, W wrong results, C of its compiler; the last
class is what a newcomer met first.
"""

from __future__ import annotations

import copy
import io

import pytest
import torch
import torch.nn.functional as F
from conftest import assert_same, to_device
from torch import nn

from torch_tvarant import compiler


class TestRuntimeFaults:
    def test_o1_ops_on_offset_views(self):
        x = torch.arange(12.0).view(3, 4)
        d = x.to("tvarant")
        assert d[1].sum().item() == x[1].sum().item()
        assert d[1][2].item() == 6.0
        assert_same(d[1:] + d[:-1], x[1:] + x[:-1])

    def test_o2_write_into_strided_view_keeps_the_rest(self):
        cache = torch.full((2, 4, 6), 7.0)
        d = cache.to("tvarant")
        new = torch.randn(2, 4)
        cache[:, :, 3] = new
        d[:, :, 3] = new.to("tvarant")
        assert_same(d, cache)

    @pytest.mark.parametrize("alpha", [1.0, 2.0, -3.0, float("inf")])
    def test_o3_whole_number_constants(self, alpha):
        x = torch.randn(5)
        ours = torch.ops.tvarant.pointwise(
            [x.to("tvarant")],
            [compiler.LOAD, compiler.LOAD, compiler.ADD],
            [-1, -1, 0],
            [-1, -1, 1],
            [0, 0, -1],
            [1.0, 1.0, alpha],
            [0.0] * 3,
        )
        assert_same(ours, x + alpha * x)

    def test_o4_close_constants_are_not_confused(self):
        x = torch.ones(3, device="tvarant")

        def scaled(c: float) -> float:
            out = torch.ops.tvarant.pointwise(
                [x],
                [compiler.LOAD, compiler.CONST, compiler.MUL],
                [-1, -1, 0],
                [-1, -1, 1],
                [0, -1, -1],
                [1.0] * 3,
                [0, c, 0],
            )
            return out[0].item()

        assert scaled(1.5e-7) == pytest.approx(1.5e-7, rel=1e-6)
        assert scaled(2.5e-7) == pytest.approx(2.5e-7, rel=1e-6)

    def test_o5_arithmetic_with_numbers(self):
        x = torch.randn(4)
        d = x.to("tvarant")
        for function in (
            lambda t: t * 0.5,
            lambda t: t + 1.0,
            lambda t: t + 1,
            lambda t: t * 2,
            lambda t: 2 - t,
            lambda t: t / 2,
            lambda t: t**2,
        ):
            assert_same(function(d), function(x))

    def test_o6_empty_tensors(self):
        x = torch.empty(0, 3)
        d = x.to("tvarant")
        assert_same(d + 1, x + 1)
        assert_same(d.sum(0), x.sum(0))
        assert_same(d.t() @ d, x.t() @ x)

    def test_o7_device_copies_stay_on_the_device(self):
        d = torch.randn(64, 64, device="tvarant")
        torch.tvarant.synchronize()
        before = torch.tvarant.counters()
        y = d.t().contiguous().clone()
        y[::2].copy_(d[1::2])
        torch.tvarant.synchronize()
        after = torch.tvarant.counters()
        assert after["uploaded_bytes"] == before["uploaded_bytes"]
        assert after["downloaded_bytes"] == before["downloaded_bytes"]

    def test_o12_new_constants_make_no_new_programs(self):
        x = torch.ones(3, device="tvarant")
        (x * 0.5).add_(1.5)
        before = torch.tvarant.counters()["records"]
        for i in range(50):
            x.mul_(1 + i * 1e-3)
        assert torch.tvarant.counters()["records"] - before <= 51


class TestWrongResults:
    @pytest.mark.parametrize(
        "dtype",
        [torch.int64, torch.int32, torch.uint8, torch.bool, torch.float16]
        + [torch.bfloat16, torch.float64],
    )
    def test_w1_other_dtypes(self, dtype, compare):
        x = (torch.rand(3, 4) * 10).to(dtype)
        compare(lambda t: t + t, x)
        compare(lambda t: t * 2, x)
        compare(lambda t: t.float().neg(), x)

    def test_w2_promotion(self, compare):
        f32, f64, i64 = torch.randn(3), torch.randn(3).double(), torch.arange(3)
        compare(lambda a, b: a + b, f64, f64)
        compare(lambda a, b: a + b, f32, f64)
        compare(lambda a, b: a + b, f32, i64)
        compare(torch.relu, f64)

    def test_w3_mixed_devices_are_refused(self):
        x, d = torch.ones(3), torch.ones(3, device="tvarant")
        for a, b in ((x, d), (d, x)):
            with pytest.raises(RuntimeError, match="same device"):
                a + b
        assert_same(d + torch.tensor(2.0), torch.full((3,), 3.0))

    def test_w4_relu_keeps_nan(self):
        assert torch.relu(torch.tensor([float("nan")], device="tvarant")).isnan().item()

    @pytest.mark.parametrize(
        "shapes",
        [
            ((2, 1, 3, 4), (1, 2, 4, 5)),
            ((3, 4), (2, 4, 5)),
            ((4,), (4, 5)),
            ((3, 4), (4,)),
            ((4,), (4,)),
            ((2, 3, 4), (4, 5)),
            ((2, 8, 3, 4), (2, 1, 4, 3)),
        ],
    )
    def test_w5_matmul_of_any_ranks(self, shapes, compare):
        a, b = (torch.randn(shape) for shape in shapes)
        compare(torch.matmul, a, b, rtol=1e-5, atol=1e-5)

    def test_w5_matmul_refuses_unequal_batches(self):
        a = torch.randn(2, 3, 4, 5, device="tvarant")
        b = torch.randn(3, 2, 5, 4, device="tvarant")
        with pytest.raises(RuntimeError):
            a @ b

    def test_w6_shared_weight_is_not_copied_per_batch(self):
        x = torch.randn(64, 1, 128, device="tvarant")
        w = torch.randn(128, 128, device="tvarant")
        x @ w
        torch.tvarant.reset_peak_memory_stats()
        base = torch.tvarant.memory_allocated()
        x @ w
        used = torch.tvarant.max_memory_allocated() - base
        assert used < 2 * 64 * 128 * 4 + 4096

    def test_w7_inner_size_zero(self, compare):
        compare(torch.matmul, torch.ones(2, 3, 0), torch.ones(2, 0, 4))
        compare(F.linear, torch.ones(2, 0), torch.ones(3, 0), torch.arange(3.0))
        compare(torch.mm, torch.ones(0, 3), torch.ones(3, 2))

    def test_w8_softmax_of_empty_dim(self, compare):
        compare(lambda t: torch.softmax(t, 1), torch.ones(2, 0))
        compare(lambda t: torch.softmax(t, 0), torch.ones(2, 0))

    def test_w9_layer_norm_checks_its_weight(self):
        x = torch.randn(2, 8, device="tvarant")
        with pytest.raises(RuntimeError):
            F.layer_norm(x, (8,), torch.ones(4, device="tvarant"))
        with pytest.raises(RuntimeError):
            F.layer_norm(x, (4,))
        cpu = torch.randn(2, 3, 8)
        expected = torch.native_layer_norm(cpu, (8,), None, None, 1e-5)
        ours = torch.native_layer_norm(cpu.to("tvarant"), (8,), None, None, 1e-5)
        assert_same(ours, expected, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize("index", [100, -1])
    def test_w10_embedding_index_out_of_range(self, index):
        table = torch.randn(4, 3, device="tvarant")
        ids = torch.tensor([0, index], device="tvarant")
        with pytest.raises((IndexError, RuntimeError), match="out of (range|bounds)"):
            F.embedding(ids, table)
            torch.tvarant.synchronize()
        assert (table + 1).sum().isfinite().item()

    def test_w11_out_is_resized(self):
        a = torch.randn(3, 4)
        d = a.to("tvarant")
        out = torch.empty(0, device="tvarant")
        torch.add(d, d, out=out)
        assert_same(out, a + a)
        big = torch.empty(5, 5, device="tvarant")
        with pytest.warns(UserWarning, match="resized"):
            torch.add(d, d, out=big)
        assert_same(big, a + a)

    @pytest.mark.parametrize(
        "change",
        [
            {"a": [-1, -1]},
            {"a": [-1, 5]},
            {"a": [-1, 1]},
            {"ops": [0, 256]},
            {"ops": [0, -1]},
            {"ops": [0, 999]},
            {"input_ids": [3, -1]},
            {"input_ids": [-1, -1]},
            {"alphas": [1.0]},
        ],
    )
    def test_w12_bad_programs_are_refused(self, change):
        arrays = {
            "ops": [compiler.LOAD, compiler.RELU],
            "a": [-1, 0],
            "b": [-1, -1],
            "input_ids": [0, -1],
            "alphas": [1.0, 1.0],
            "consts": [0.0, 0.0],
            **change,
        }
        x = torch.ones(2, device="tvarant")
        with pytest.raises(RuntimeError):
            torch.ops.tvarant.pointwise([x], *arrays.values())
        assert (x + 1).sum().item() == 4

    def test_w12_empty_programs_are_refused(self):
        x = torch.ones(2, device="tvarant")
        with pytest.raises(RuntimeError, match="empty program"):
            torch.ops.tvarant.pointwise([x], [], [], [], [], [], [])
        with pytest.raises(RuntimeError, match="at least one input"):
            torch.ops.tvarant.pointwise([], [1], [-1], [-1], [-1], [1.0], [0.0])

    def test_w13_shapes_must_broadcast(self):
        x, y = torch.ones(2, 3, device="tvarant"), torch.ones(3, 2, device="tvarant")
        add = ([0, 0, 2], [-1, -1, 0], [-1, -1, 1], [0, 1, -1], [1.0] * 3, [0.0] * 3)
        with pytest.raises(RuntimeError):
            torch.ops.tvarant.pointwise([x, y], *add)
        row = torch.ones(3, device="tvarant")
        assert_same(
            torch.ops.tvarant.pointwise([x, row], *add), torch.full((2, 3), 2.0)
        )

    def test_w14_seed_of_the_device(self):
        torch.tvarant.manual_seed(5)
        first = torch.randn(10, device="tvarant")
        torch.tvarant.manual_seed(5)
        assert torch.equal(first.cpu(), torch.randn(10, device="tvarant").cpu())
        generator = torch.Generator(device="tvarant").manual_seed(5)
        again = torch.randn(10, device="tvarant", generator=generator)
        assert torch.equal(first.cpu(), again.cpu())

    def test_w15_arange_of_integers(self):
        assert torch.arange(5, device="tvarant").dtype == torch.int64

    def test_w16_strided_targets_of_fallbacks(self, compare):
        def strided_inplace(base):
            base[1::2].digamma_()
            return base

        compare(strided_inplace, torch.arange(1.0, 10.0))

        def transposed(w):
            w.t().div_(2.0)
            w[:, 1].abs_()
            return w

        compare(transposed, torch.randn(3, 4))

    def test_w17_conjugate_views(self, compare):
        z = torch.randn(4, dtype=torch.complex64)
        compare(lambda t: t.conj().clone(), z)
        compare(lambda t: torch.fft.ifft(t), z)
        compare(lambda t: t.conj().imag.clone(), z)

    def test_w18_printing(self):
        text = repr(torch.tensor([1.5, -2.0], device="tvarant"))
        assert text == "tensor([ 1.5000, -2.0000], device='tvarant:0')"

    def test_w19_save_and_load(self):
        buffer = io.BytesIO()
        x = torch.randn(3, device="tvarant")
        torch.save({"x": x}, buffer)
        assert b"tvarant:0" in buffer.getvalue()
        buffer.seek(0)
        loaded = torch.load(buffer)["x"]
        assert loaded.is_tvarant and torch.equal(loaded.cpu(), x.cpu())


class TestAutograd:
    @pytest.mark.parametrize(
        "function",
        [
            lambda x, w: F.linear(x, w).sum(),
            lambda x, w: (x @ w.t()).pow(2).sum(),
            lambda x, w: torch.softmax(x, -1).pow(2).sum() + w.sum(),
            lambda x, w: F.softmin(x, dim=1).pow(2).sum() + w.sum(),
            lambda x, w: x.t().contiguous().pow(2).sum() + w.sum(),
            lambda x, w: torch.ops.tvarant.linear_act(x, w, None, "silu", True).sum(),
            lambda x, w: torch.ops.tvarant.linear_act(x, w, None, "relu", True).sum(),
        ],
    )
    def test_gradients_reach_the_inputs(self, function):
        x, w = torch.randn(3, 4), torch.randn(5, 4)
        grads = []
        for device in ("cpu", "tvarant"):
            leaves = [t.clone().to(device).requires_grad_() for t in (x, w)]
            function(*leaves).backward()
            grads.append([leaf.grad for leaf in leaves])
        assert_same(grads[1], grads[0], rtol=1e-4, atol=1e-5)

    def test_pointwise_gradient_with_broadcast(self):
        program = (
            [compiler.LOAD, compiler.LOAD, compiler.MUL, compiler.SILU],
            [-1, -1, 0, 2],
            [-1, -1, 1, -1],
            [0, 1, -1, -1],
            [1.0] * 4,
            [0.0] * 4,
        )
        x, y = torch.randn(4, 3), torch.randn(3)
        a, b = x.clone().requires_grad_(), y.clone().requires_grad_()
        F.silu(a * b).sum().backward()
        c, d = (t.to("tvarant").requires_grad_() for t in (x, y))
        torch.ops.tvarant.pointwise([c, d], *program).sum().backward()
        assert_same([c.grad, d.grad], [a.grad, b.grad], rtol=1e-4, atol=1e-5)


class TestCompilerFaults:
    def compiled(self, module: nn.Module, *inputs: torch.Tensor) -> None:
        expected = module(*inputs)
        fused = compiler.compile(copy.deepcopy(module).to("tvarant"))
        assert_same(fused(*to_device(inputs)), expected, rtol=1e-4, atol=1e-5)

    def test_c1_broadcast(self):
        class Scaled(nn.Module):
            def forward(self, x, b):
                return torch.relu(x + b) * b

        self.compiled(Scaled(), torch.randn(4, 3), torch.randn(3))

    @pytest.mark.parametrize(
        "residual", [torch.randn(4, 3), torch.randn(3), torch.tensor(2.0)]
    )
    def test_c2_residual_is_no_bias(self, residual):
        class Residual(nn.Module):
            def forward(self, x, w, r):
                return torch.relu(torch.mm(x, w) + r)

        self.compiled(Residual(), torch.randn(4, 5), torch.randn(5, 3), residual)

    def test_c2_number_and_alpha(self):
        class Number(nn.Module):
            def forward(self, x, w):
                return torch.relu(torch.mm(x, w) + 2)

        class Alpha(nn.Module):
            def forward(self, x, w, r):
                return torch.relu(torch.add(torch.mm(x, w), r, alpha=3))

        x, w, r = torch.randn(4, 5), torch.randn(5, 3), torch.randn(3)
        self.compiled(Number(), x, w)
        self.compiled(Alpha(), x, w, r)

    def test_c3_integer_arithmetic_is_left_alone(self):
        class Sizes(nn.Module):
            def forward(self, x):
                n = (x.shape[0] + 1) * 2 - 2
                return torch.relu(x).sum(0) * n

        self.compiled(Sizes(), torch.randn(4, 3))

    def test_c3_integer_tensors(self):
        class Integers(nn.Module):
            def forward(self, x):
                return torch.relu(x * 2 + 1)

        self.compiled(Integers(), torch.arange(-3, 3))

    def test_c4_inplace_readers_see_the_change(self):
        class Inplace(nn.Module):
            def forward(self, x):
                y = x + 1
                z = y * 2
                F.relu(y, inplace=True)
                return y + z

        class InplaceBeforeRead(nn.Module):
            def forward(self, x):
                y = x - 0.5
                w = F.relu(y, inplace=True)
                return y * w

        x = torch.randn(5)
        self.compiled(Inplace(), x)
        self.compiled(InplaceBeforeRead(), x)

    def test_c5_training_mode_is_kept(self):
        module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.ReLU())
        compiled = compiler.compile(module.to("tvarant"))
        assert module.training and compiled.training
        x = torch.ones(64, 4, device="tvarant")
        assert not torch.equal(compiled(x).cpu(), compiled(x).cpu())
        compiled.eval()
        assert torch.equal(compiled(x).cpu(), compiled(x).cpu())

    def test_c5_what_fx_cannot_trace_is_compiled_by_dynamo(self):
        class Branch(nn.Module):
            def forward(self, x):
                return x.relu() if x.sum() > 0 else x.neg()

        module = Branch().to("tvarant")
        compiled = compiler.compile(module)
        assert "not_traced" in compiler.last_log
        x = torch.ones(3, device="tvarant")
        assert_same(compiled(x), torch.ones(3))

    def test_c6_more_ops_fuse(self):
        class Chain(nn.Module):
            def forward(self, x):
                return (torch.exp(x) - 1) / (torch.sqrt(x.abs()) + 2)

        self.compiled(Chain(), torch.randn(8))
        assert compiler.last_log["pointwise_groups"] == 1


class TestNewcomer:
    def test_print_allclose_isfinite(self):
        x = torch.randn(3, device="tvarant")
        assert "device='tvarant:0'" in str(x)
        assert torch.allclose(x, x.clone())
        assert torch.isfinite(x).all().item()
        torch.testing.assert_close(x, x.clone())

    def test_training_step(self):
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        twin = copy.deepcopy(model).to("tvarant")
        x, y = torch.randn(6, 4), torch.tensor([0, 1, 0, 1, 1, 0])
        for m, d in ((model, "cpu"), (twin, "tvarant")):
            optimizer = torch.optim.Adam(m.parameters())
            F.cross_entropy(m(x.to(d)), y.to(d)).backward()
            optimizer.step()
        assert_same(
            list(twin.parameters()), list(model.parameters()), atol=1e-6, rtol=1e-4
        )

    def test_conv2d(self):
        conv = nn.Conv2d(2, 3, 3)
        x = torch.randn(1, 2, 5, 5)
        twin = copy.deepcopy(conv).to("tvarant")
        expected, ours = conv(x), twin(x.to("tvarant"))
        assert_same(ours, expected, rtol=1e-4, atol=1e-5)
        expected.sum().backward()
        ours.sum().backward()
        assert_same(twin.weight.grad, conv.weight.grad, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
    def test_recurrent(self, kind):
        rnn = kind(3, 4)
        x = torch.randn(5, 2, 3)
        twin = copy.deepcopy(rnn).to("tvarant")
        expected, ours = rnn(x)[0], twin(x.to("tvarant"))[0]
        assert_same(ours, expected, rtol=1e-4, atol=1e-5)
        expected.sum().backward()
        ours.sum().backward()
        assert_same(
            [p.grad for p in twin.parameters()],
            [p.grad for p in rnn.parameters()],
            rtol=1e-4,
            atol=1e-5,
        )

    def test_autocast(self):
        x, w = torch.randn(4, 4, device="tvarant"), torch.randn(4, 4, device="tvarant")
        with torch.autocast("tvarant", dtype=torch.bfloat16):
            assert (x @ w).dtype == torch.bfloat16
            assert torch.softmax(x @ w, -1).dtype == torch.float32

    def test_accelerator_memory(self):
        assert torch.accelerator.current_accelerator().type == "tvarant"
        x = torch.ones(1024, device="tvarant")
        assert torch.accelerator.memory_allocated() >= x.numel() * 4

    def test_compile_without_backend_name(self):
        def f(x):
            return (x * 2).relu() + 1

        x = torch.randn(5)
        assert_same(torch.compile(f)(x.to("tvarant")), f(x))

    def test_out_of_memory_has_its_own_type(self):
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(2**50, dtype=torch.uint8, device="tvarant")
        assert torch.ones(2, device="tvarant").sum().item() == 2
