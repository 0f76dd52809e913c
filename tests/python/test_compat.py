"""The public interface of the existing torch_tvarant package, kept.

Programs written for that package run unchanged: names, op codes, results.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

import torch_tvarant
from torch_tvarant import compiler

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
CLOSE_GEMM = {"rtol": 1e-5, "atol": 1e-4}


def on_device(x: torch.Tensor) -> torch.Tensor:
    return x.to("tvarant")


def check(actual: torch.Tensor, expected: torch.Tensor, atol: float = 1e-8) -> None:
    assert actual.is_tvarant
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-5, atol=atol)


class TestPackage:
    def test_attributes(self):
        assert torch_tvarant.__version__
        assert torch_tvarant._C.is_available()
        assert torch_tvarant.tvarant is torch.tvarant
        assert torch_tvarant.compiler is compiler

    def test_native_module(self):
        assert torch_tvarant._C.backend() == torch.tvarant.backend()
        assert torch.device(torch_tvarant._C.device()).type == "tvarant"
        assert torch_tvarant._C.device_count() == torch.tvarant.device_count()


class TestDevice:
    def test_name(self):
        assert torch._C._get_privateuse1_backend_name() == "tvarant"

    def test_availability_and_index(self):
        assert torch.tvarant.is_available()
        assert torch.tvarant.device_count() == 1
        assert torch.tvarant.current_device() == 0

    def test_device_objects(self):
        assert torch.device("tvarant").type == "tvarant"
        assert torch.device("tvarant:0").index == 0
        assert str(torch.ones(1, device="tvarant").device) == "tvarant:0"

    def test_index_out_of_range(self):
        with pytest.raises(RuntimeError, match="1"):
            torch.empty(1, device="tvarant:1")
        with pytest.raises(RuntimeError, match="5"):
            torch.tvarant.set_device(5)

    def test_generated_methods(self):
        x = torch.ones(2)
        assert not x.is_tvarant
        assert x.tvarant().is_tvarant
        assert nn.Linear(2, 2).tvarant().weight.is_tvarant

    def test_default_backend(self):
        assert torch.tvarant.backend() in ("sim", "opencl")

    @pytest.mark.parametrize("device", [0, "tvarant", "tvarant:0", "obj", None])
    def test_set_device_takes_all_forms(self, device):
        torch.tvarant.set_device(torch.device("tvarant") if device == "obj" else device)
        assert torch.tvarant.current_device() == 0

    def test_synchronize(self):
        torch.tvarant.synchronize()
        torch.tvarant.synchronize("tvarant:0")

    def test_is_initialized_after_use(self):
        torch.ones(1, device="tvarant")
        assert torch.tvarant.is_initialized()


class TestCopy:
    def test_round_trip_is_exact(self):
        x = torch.randn(33, 17)
        assert torch.equal(on_device(x).cpu(), x)

    def test_empty_then_copy(self):
        x = torch.randn(4, 5)
        y = torch.empty(4, 5, device="tvarant")
        y.copy_(x)
        assert torch.equal(y.cpu(), x)

    def test_zeros_and_ones(self):
        assert torch.equal(torch.zeros(3, 2, device="tvarant").cpu(), torch.zeros(3, 2))
        assert torch.equal(torch.ones(3, 2, device="tvarant").cpu(), torch.ones(3, 2))

    def test_helper_method(self):
        x = torch.arange(6.0)
        assert torch.equal(x.tvarant().cpu(), x)


class TestOps:
    def test_fill(self):
        check(torch.empty(5, device="tvarant").fill_(2.5), torch.full((5,), 2.5))

    def test_add(self):
        a, b = torch.randn(4, 6), torch.randn(4, 6)
        check(on_device(a) + on_device(b), a + b)

    def test_add_broadcast(self):
        a, b = torch.randn(2, 3), torch.randn(3)
        check(on_device(a) + on_device(b), a + b)

    def test_mul(self):
        a, b = torch.randn(7), torch.randn(7)
        check(on_device(a) * on_device(b), a * b)

    def test_relu(self):
        x = torch.tensor([-1.0, 0.0, 2.0, -0.5])
        check(torch.relu(on_device(x)), torch.relu(x))

    def test_matmul_operator(self):
        a, b = torch.randn(2, 2), torch.randn(2, 2)
        check(on_device(a) @ on_device(b), a @ b, 1e-6)

    def test_addmm_with_transposed_weight(self):
        bias, x, w = torch.randn(3), torch.randn(2, 4), torch.randn(3, 4)
        check(
            torch.addmm(on_device(bias), on_device(x), on_device(w).t()),
            torch.addmm(bias, x, w.t()),
            1e-6,
        )

    def test_item(self):
        assert torch.tensor(3.0, device="tvarant").item() == 3.0

    @pytest.mark.parametrize(
        "name", ["abs", "neg", "exp", "exp2", "sqrt", "rsqrt", "relu", "silu"]
    )
    def test_unary_forms(self, name):
        x = torch.rand(3, 5) + 0.1
        function = getattr(torch, name, None) or getattr(nn.functional, name)
        check(function(on_device(x)), function(x), 1e-5)
        method = getattr(torch.Tensor, name + "_", None)
        if method is not None:
            check(method(on_device(x)), method(x.clone()), 1e-5)

    def test_sub(self):
        a, b = torch.randn(4), torch.randn(4)
        check(on_device(a) - on_device(b), a - b)
        check(on_device(a) - 1.5, a - 1.5)
        check(torch.sub(on_device(a), on_device(b), alpha=2), torch.sub(a, b, alpha=2))

    def test_factories(self):
        like = torch.empty(2, 3, device="tvarant", dtype=torch.float64)
        check(torch.zeros_like(like), torch.zeros(2, 3, dtype=torch.float64))
        check(torch.ones_like(like), torch.ones(2, 3, dtype=torch.float64))
        check(torch.full((2, 3), 7.0, device="tvarant"), torch.full((2, 3), 7.0))
        check(torch.full_like(like, 7.0), torch.full((2, 3), 7.0, dtype=torch.float64))

    def test_clone_is_new_memory(self):
        x = on_device(torch.randn(4))
        y = x.clone()
        assert y.data_ptr() != x.data_ptr()
        assert torch.equal(x.cpu(), y.cpu())

    def test_contiguous(self):
        x = torch.randn(3, 4)
        y = on_device(x).t().contiguous()
        assert y.is_contiguous()
        check(y, x.t().contiguous())

    @pytest.mark.parametrize("size", [(3,), (2, 4), (0, 3)])
    def test_eye(self, size):
        assert torch.equal(torch.eye(*size, device="tvarant").cpu(), torch.eye(*size))

    @pytest.mark.parametrize("args", [(5,), (2, 10, 2), (0.0, 1.0, 0.25)])
    def test_arange(self, args):
        ours = torch.arange(*args, device="tvarant").cpu()
        assert ours.dtype == torch.arange(*args).dtype
        torch.testing.assert_close(ours, torch.arange(*args), rtol=0, atol=1e-6)

    @pytest.mark.parametrize("steps", [5, 1, 0])
    def test_linspace(self, steps):
        ours = torch.linspace(0, 1, steps, device="tvarant").cpu()
        torch.testing.assert_close(ours, torch.linspace(0, 1, steps), rtol=0, atol=1e-6)


class TestModules:
    def run(self, module: nn.Module, x: torch.Tensor, atol: float) -> None:
        expected = module(x)
        check(module.to("tvarant")(on_device(x)), expected, atol)

    def test_linear_relu(self):
        self.run(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), torch.randn(4, 8), 1e-5)

    def test_relu_of_product(self):
        x, w = torch.randn(3, 5), torch.randn(5, 2)
        check(torch.relu(on_device(x) @ on_device(w)), torch.relu(x @ w), 1e-4)

    def test_mlp(self):
        mlp = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
        self.run(mlp, torch.randn(2, 16), 1e-4)

    def test_silu(self):
        x = torch.randn(4, 8)
        check(nn.functional.silu(on_device(x)), nn.functional.silu(x), 1e-5)

    def test_softmax(self):
        x = torch.randn(2, 4, 8)
        check(torch.softmax(on_device(x), -1), torch.softmax(x, -1), 1e-5)

    def test_layer_norm(self):
        self.run(nn.LayerNorm(8), torch.randn(2, 4, 8), 1e-5)

    def test_bmm(self):
        a, b = torch.randn(3, 4, 5), torch.randn(3, 5, 6)
        check(torch.bmm(on_device(a), on_device(b)), torch.bmm(a, b), 1e-4)

    def test_batched_matmul(self):
        a, b = torch.randn(2, 3, 4, 5), torch.randn(2, 3, 5, 4)
        check(on_device(a) @ on_device(b), a @ b, 1e-4)

    def test_scale_by_number(self):
        x = torch.randn(6)
        check(on_device(x) * 0.125, x * 0.125, 1e-6)

    def test_embedding(self):
        self.run(nn.Embedding(16, 8), torch.tensor([[1, 2, 15], [0, 3, 3]]), 1e-6)

    def test_attention(self):
        q, k, v = (torch.randn(2, 4, 8) for _ in range(3))

        def attend(q, k, v):
            return torch.softmax(q @ k.transpose(1, 2) * 8**-0.5, -1) @ v

        check(attend(on_device(q), on_device(k), on_device(v)), attend(q, k, v), 1e-4)


class SwiGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 16, bias=False)
        self.up = nn.Linear(8, 16, bias=False)

    def forward(self, x):
        return nn.functional.silu(self.gate(x)) * self.up(x)


class TestCompiler:
    def test_op_codes(self):
        names = "LOAD CONST ADD MUL RELU SILU NEG SCALE SIGMOID".split()
        assert [getattr(compiler, name) for name in names] == list(range(9))

    @pytest.mark.parametrize("act", ["", "none", "identity", "relu", "silu", "swish"])
    @pytest.mark.parametrize("trans_b", [True, False])
    def test_linear_act(self, act, trans_b):
        x, bias = torch.randn(2, 3, 4), torch.randn(5)
        w = torch.randn(5, 4) if trans_b else torch.randn(4, 5)
        expected = x @ (w.t() if trans_b else w) + bias
        if act == "relu":
            expected = expected.relu()
        elif act in ("silu", "swish"):
            expected = nn.functional.silu(expected)
        ours = torch.ops.tvarant.linear_act(
            on_device(x), on_device(w), on_device(bias), act, trans_b
        )
        check(ours, expected, 1e-4)

    def test_linear_act_unknown_activation(self):
        x = torch.ones(2, 2, device="tvarant")
        with pytest.raises(RuntimeError, match="unknown activation 'tanhh'"):
            torch.ops.tvarant.linear_act(x, x, None, "tanhh")

    def test_pointwise_program(self):
        a, b = torch.randn(4, 3), torch.randn(4, 3)
        ours = torch.ops.tvarant.pointwise(
            [on_device(a), on_device(b)],
            [compiler.LOAD, compiler.RELU, compiler.LOAD, compiler.MUL]
            + [compiler.CONST, compiler.ADD],
            [-1, 0, -1, 1, -1, 3],
            [-1, -1, -1, 2, -1, 4],
            [0, -1, 1, -1, -1, -1],
            [1.0] * 6,
            [0, 0, 0, 0, 1.0, 0],
        )
        check(ours, a.relu() * b + 1, 1e-5)

    def test_compile_linear_relu(self):
        module = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        x = torch.randn(4, 8)
        expected = module(x)
        compiled = compiler.compile(module.to("tvarant"))
        assert compiler.last_log["gemm_epilogue"] >= 1
        check(compiled(on_device(x)), expected, 1e-4)

    def test_compile_fx_swiglu(self):
        module = SwiGLU()
        x = torch.randn(4, 8)
        expected = module(x)
        gm = compiler.compile_fx(compiler.trace_module(module.to("tvarant")))
        check(gm(on_device(x)), expected, 1e-4)

    def test_single_passes_and_tracer(self):
        gm = compiler.trace_module(nn.Sequential(nn.Linear(4, 4), nn.SiLU()))
        assert isinstance(gm, torch.fx.GraphModule)
        assert issubclass(compiler.TvarantTracer, torch.fx.Tracer)
        assert compiler.fuse_gemm_epilogue(gm) is gm
        assert compiler.last_log["gemm_epilogue"] == 1
        assert compiler.fuse_pointwise(gm) is gm
        assert compiler.last_log["pointwise_groups"] == 0

    def test_register_is_idempotent(self):
        compiler.register()
        compiler.register()
        assert "tvarant" in torch._dynamo.list_backends(exclude_tags=())
