"""torch.compile on the device: forward and backward like eager, few compilations."""

from __future__ import annotations

import copy

import pytest
import torch
import torch._dynamo
import torch.nn.functional as F
from support import DEVICE, assert_same, make, mirror
from torch import fx, nn

from torch_tvarant import compiler

CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()


def compilations() -> int:
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def check(function, *args, grad=True, **options):
    """Compiled on the device like eager on the CPU, gradients included."""
    compiled = torch.compile(function, backend="tvarant", **options)
    results = []
    for f, device in ((function, "cpu"), (compiled, DEVICE)):
        leaves = [
            (a.detach().clone() if device == "cpu" else mirror(a)).requires_grad_(
                grad and a.dtype.is_floating_point
            )
            for a in args
        ]
        out = f(*leaves)
        outputs = out if isinstance(out, tuple) else (out,)
        if grad:
            sum((o * o).sum() for o in outputs).backward()
        results.append([*(o.detach() for o in outputs), *(v.grad for v in leaves)])
    assert_same(
        [x for x in results[1] if x is not None],
        [x for x in results[0] if x is not None],
        **CLOSE,
    )


def check_module(module: nn.Module, *inputs: torch.Tensor) -> None:
    """Three training steps, compiled on the device and eager on the CPU."""
    twin = copy.deepcopy(module).to(DEVICE)
    compiled = torch.compile(twin, backend="tvarant")
    for model, parameters, device in (
        (module, module.parameters(), "cpu"),
        (compiled, twin.parameters(), DEVICE),
    ):
        optimizer = torch.optim.SGD(parameters, lr=0.05)
        for _ in range(3):
            optimizer.zero_grad()
            model(*(x.to(device) for x in inputs)).pow(2).mean().backward()
            optimizer.step()
    assert_same(list(twin.parameters()), list(module.parameters()), **CLOSE)
    assert_same(compiled(*(x.to(DEVICE) for x in inputs)), module(*inputs), **CLOSE)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        weights = torch.softmax(q @ k.transpose(1, 2) * 8**-0.5, -1)
        return x + self.out(weights @ v)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = nn.Linear(8, 16), nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x)) + x


MODULES = {
    "mlp": lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)),
    "gelu": lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)),
    "layer norm": lambda: nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 4), nn.SiLU()),
    "attention": Attention,
    "gated": Gated,
    "eval dropout": lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).eval(),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules(name):
    torch.manual_seed(0)
    check_module(MODULES[name](), make(2, 5, 8))


FUNCTIONS = {
    "broadcast chain": (
        lambda x, y, z: torch.relu(x + y) * z - x / (y.abs() + 1),
        [(4, 3), (3,), (4, 1)],
    ),
    "numbers": (lambda x: (x * 0.5 + 1 - 2 * x).tanh() * 3, [(5,)]),
    "zero dim": (lambda x, y: x * y + y.exp(), [(4, 3), ()]),
    "two outputs": (lambda x: (x.exp(), x.sigmoid() * x), [(4, 3)]),
    "reduction": (lambda x: (x * 2).softmax(-1).sum(0) + x.mean(), [(4, 3)]),
    "in place on fresh": (lambda x: (x + 1).neg_().mul_(2), [(4, 3)]),
    "in place, read before": (
        lambda x: (lambda y, z: (y.add_(z), z)[0])(x + 1, x * 2),
        [(4, 3)],
    ),
    "slice": (lambda x: x[1:, ::2] * 2 + x[:-1, 1::2], [(4, 6)]),
    "transpose": (lambda x: (x.t() + 1).exp().t().contiguous(), [(4, 6)]),
    "expand": (lambda x: (x[:, None].expand(4, 5, 3) * 2).sum((0, 1)), [(4, 3)]),
    "cat": (lambda x, y: torch.cat([x, y * 2, x.neg()], 1).relu(), [(4, 3), (4, 2)]),
    "where": (lambda x, y: torch.where(x > y, x * 2, y.exp()), [(4, 3), (3,)]),
    "matmul residual": (lambda x, w: torch.relu(x @ w + x), [(4, 4), (4, 4)]),
    "clamp": (lambda x: x.clamp(-1, 1) * x.clamp_min(0), [(4, 3)]),
    "pow": (lambda x: x**2 + x**3 - x.square().sqrt(), [(4, 3)]),
    "select": (lambda x: x[:, 1].sin() + x.select(1, 0).cos(), [(4, 3)]),
    "view": (lambda x: (x.view(-1) * 2).view(3, 4).neg(), [(4, 3)]),
    "long chain": (
        lambda x: (lambda f: f(f(f(f(x)))))(
            lambda t: (t.tanh() * 1.1 + t.sigmoid() - 0.3).sin() * t
        ),
        [(7, 9)],
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    function, shapes = FUNCTIONS[name]
    args = [make(*shape, low=0.2, high=2, seed=i) for i, shape in enumerate(shapes)]
    check(function, *args)


class TestLayouts:
    def test_uc06_offset_and_step_of_an_input(self):
        d = torch.arange(24.0, device=DEVICE).view(6, 4)
        double = torch.compile(lambda x: x + x, backend="tvarant")
        expected = [[8, 10, 12, 14], [24, 26, 28, 30], [40, 42, 44, 46]]
        assert double(d[1::2]).tolist() == expected
        inside = torch.compile(lambda x: x[1::2] + x[1::2], backend="tvarant")
        assert inside(d).tolist() == expected
        middle = torch.compile(lambda x: x.split(4, 1)[1] * 2, backend="tvarant")
        x = make(2, 12)
        assert_same(middle(x.to(DEVICE)), x[:, 4:8] * 2)

    def test_uc06_out_through_a_view(self):
        parent = torch.zeros(6, 4, device=DEVICE)

        def write(x, out):
            torch.add(x, 1, out=out)
            return out * 2

        x = make(3, 4).to(DEVICE)
        result = torch.compile(write, backend="tvarant")(x, parent[1::2])
        assert_same(parent[1::2].contiguous(), make(3, 4) + 1)
        assert_same(result, (make(3, 4) + 1) * 2)
        assert parent[::2].count_nonzero().item() == 0

    @pytest.mark.parametrize(
        "layout",
        [
            lambda x: x.t().contiguous().t(),
            lambda x: x[:, ::2],
            lambda x: x[1:],
            lambda x: x[:1].expand(4, 6),
        ],
    )
    def test_strided_inputs(self, layout):
        check(lambda x: (x * 2 + 1).relu() * x, layout(make(4, 6)), grad=False)

    def test_changed_layout_is_noticed(self):
        f = torch.compile(lambda x: x * 2 + 1, backend="tvarant")
        x = make(4, 4)
        for view in (x, x.t(), x[::2], x[:, 1:3], x[0].expand(4, 4)):
            assert_same(f(mirror(view)).contiguous(), (view * 2 + 1).contiguous())

    def test_uc43_shifted_rows_and_returned_views(self):
        def shift(x):
            x = x.clone()
            x[1:] = x[:-1].clone()
            return x

        f = torch.compile(shift, backend="tvarant")
        assert f(torch.arange(5.0, device=DEVICE)).tolist() == [0, 0, 1, 2, 3]
        big = torch.randn(256, 512)
        for _ in range(3):
            assert torch.equal(f(big.to(DEVICE)).cpu(), shift(big))
        flat = torch.compile(lambda x: x.view(-1), backend="tvarant")
        x = make(3, 4).to(DEVICE)
        assert flat(x).data_ptr() == x.data_ptr()
        flat(x).mul_(2)
        assert_same(x, make(3, 4) * 2)


class TestMutation:
    def test_input_changed_in_place(self):
        def f(x, y):
            x.add_(y)
            return x * 2

        for device in ("cpu", DEVICE):
            x, y = make(4).to(device), make(4, seed=1).to(device)
            function = torch.compile(f, backend="tvarant") if device == DEVICE else f
            result = function(x, y)
            if device == "cpu":
                expected = (x, result)
        assert_same((x, result), expected)

    def test_uc07_growing_cache(self):
        def write(cache, row, position):
            cache[position] = row
            return cache.sum()

        def write_at(cache, row, position):
            cache.index_copy_(0, position, row[None])
            return cache.sum()

        for function, place in (
            (write, lambda i: i),
            (write, lambda i: torch.tensor(i, device=DEVICE)),
            (write_at, lambda i: torch.tensor([i], device=DEVICE)),
        ):
            torch._dynamo.reset()
            torch._dynamo.utils.counters.clear()
            f = torch.compile(function, backend="tvarant")
            cache = torch.zeros(10, 3, device=DEVICE)
            for i in range(10):
                f(cache, torch.full((3,), i + 1.0, device=DEVICE), place(i))
                rows = [[j + 1.0] * 3 if j <= i else [0.0] * 3 for j in range(10)]
                assert cache.tolist() == rows
            if isinstance(place(0), torch.Tensor):
                assert compilations() <= 2

    def test_uc07_changing_number(self):
        f = torch.compile(lambda x, rate: x * rate + 1, backend="tvarant")
        x = torch.ones(3, device=DEVICE)
        for i in range(6):
            assert f(x, i * 0.25).tolist() == [i * 0.25 + 1] * 3

    def test_buffers_and_running_values(self):
        class Counting(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("calls", torch.zeros(1))

            def forward(self, x):
                self.calls += 1
                return x * self.calls

        model = Counting().to(DEVICE)
        f = torch.compile(model, backend="tvarant")
        x = torch.ones(2, device=DEVICE)
        assert [f(x)[0].item() for _ in range(3)] == [1, 2, 3]
        assert model.calls.item() == 3


class TestDynamic:
    def test_uc49_lengths_do_not_recompile(self):
        def f(x, mask):
            return torch.softmax(x.masked_fill(~mask, -1e9), -1) @ x.transpose(1, 2)

        compiled = torch.compile(f, backend="tvarant", dynamic=True)
        for length in range(7, 25):
            x, mask = make(2, length, length), make(length, length, dtype=torch.bool)
            expected = f(x, mask)
            assert_same(compiled(x.to(DEVICE), mask.to(DEVICE)), expected, **CLOSE)
        assert compilations() <= 2

    def test_automatic_dynamic(self):
        compiled = torch.compile(lambda x: (x * 2 + 1).relu().sum(0), backend="tvarant")
        for length in range(3, 15):
            x = make(length, 4)
            assert_same(compiled(x.to(DEVICE)), (x * 2 + 1).relu().sum(0), **CLOSE)
        assert compilations() <= 2

    def test_dynamic_with_gradient(self):
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(DEVICE)
        compiled = torch.compile(model, backend="tvarant", dynamic=True)
        for batch in (2, 3, 7, 11):
            model.zero_grad()
            compiled(make(batch, 4).to(DEVICE)).sum().backward()
            ours = [p.grad.clone() for p in model.parameters()]
            model.zero_grad()
            model(make(batch, 4).to(DEVICE)).sum().backward()
            for a, p in zip(ours, model.parameters(), strict=True):
                torch.testing.assert_close(a.cpu(), p.grad.cpu(), **CLOSE)
        assert compilations() <= 2


class TestDynamo:
    def test_backend_is_found_by_name(self):
        assert "tvarant" in torch._dynamo.list_backends(exclude_tags=())

    def test_options_are_refused(self):
        with pytest.raises(Exception, match="options"):
            torch.compile(lambda x: x + 1, backend="tvarant", options={"a": 1})(
                torch.ones(1, device=DEVICE)
            )

    def test_default_backend_is_redirected(self):
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        twin = copy.deepcopy(model).to(DEVICE)
        compiled = torch.compile(twin)
        x = make(3, 4)
        expected = model(x)
        ours = compiled(x.to(DEVICE))
        assert_same(ours, expected, **CLOSE)
        expected.sum().backward()
        ours.sum().backward()
        assert_same(twin[0].weight.grad, model[0].weight.grad, **CLOSE)

    def test_graph_that_makes_its_own_tensors(self):
        f = torch.compile(lambda: torch.arange(6.0, device="tvarant").view(2, 3) * 2)
        assert f().tolist() == [[0, 2, 4], [6, 8, 10]]

    def test_graph_breaks_keep_results_right(self):
        def f(x):
            y = x.relu() + 1
            if y.sum().item() > 5:
                y = y * 2
            torch.tvarant.synchronize()
            return y.neg()

        compiled = torch.compile(f, backend="tvarant")
        for scale in (0.1, 10.0):
            x = make(4, low=0, high=1) * scale
            assert_same(compiled(x.to(DEVICE)), f_cpu(x), **CLOSE)
        with pytest.raises(Exception, match="(?i)graph break|item|Unsupported"):
            torch.compile(
                lambda x: x * 2 if x.sum().item() > 0 else x,
                backend="tvarant",
                fullgraph=True,
            )(torch.ones(2, device=DEVICE))

    def test_streams_and_random_in_a_graph(self):
        def f(x):
            return F.dropout(x, 0.5) + torch.rand_like(x)

        compiled = torch.compile(f, backend="tvarant")
        x = torch.ones(1000, device=DEVICE)
        torch.manual_seed(3)
        first, second = compiled(x), compiled(x)
        torch.manual_seed(3)
        assert torch.equal(compiled(x), first)
        assert not torch.equal(first, second)

    def test_dropout_has_one_mask_forward_and_backward(self):
        compiled = torch.compile(lambda x: F.dropout(x * 2, 0.5), backend="tvarant")
        x = torch.ones(500, device=DEVICE, requires_grad=True)
        y = compiled(x)
        y.sum().backward()
        assert torch.equal(x.grad, y.detach())
        assert 100 < (y == 0).sum().item() < 400

    def test_autocast_in_a_graph(self):
        def f(x, w):
            with torch.autocast("tvarant", dtype=torch.bfloat16):
                return x @ w

        x = make(4, 4).to(DEVICE)
        assert torch.compile(f, backend="tvarant")(x, x).dtype == torch.bfloat16

    def test_no_grad_and_inference_mode(self):
        compiled = torch.compile(lambda x: x.relu() * 2, backend="tvarant")
        x = make(4).to(DEVICE)
        for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
            with mode():
                assert_same(compiled(x), make(4).relu() * 2)

    def test_compiled_optimizer_step(self):
        w = nn.Parameter(make(3, 4).to(DEVICE))
        twin = nn.Parameter(make(3, 4))
        for p, wrap in ((w, True), (twin, False)):
            optimizer = torch.optim.Adam([p], lr=0.1)
            step = optimizer.step
            if wrap:
                step = torch.compile(step, backend="tvarant")
            for i in range(3):
                p.grad = make(3, 4, seed=i).to(p.device)
                step()
        assert_same(w, twin, rtol=1e-4, atol=1e-5)

    def test_fewer_launches_than_eager(self):
        def chain(x, y):
            return ((x + y).relu() * x - y).sigmoid() * 0.5 + x

        compiled = torch.compile(chain, backend="tvarant")
        x, y = make(32, 32).to(DEVICE), make(32, 32, seed=1).to(DEVICE)

        def launches(f):
            f(x, y)
            torch.tvarant.synchronize()
            before = torch.tvarant.counters()["launches"]
            f(x, y)
            torch.tvarant.synchronize()
            return torch.tvarant.counters()["launches"] - before

        assert launches(compiled) == 1 < launches(chain)

    def test_export(self):
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).to(DEVICE)
        x = make(2, 4).to(DEVICE)
        program = torch.export.export(model, (x,))
        torch.testing.assert_close(program.module()(x).cpu(), model(x).cpu())


def f_cpu(x: torch.Tensor) -> torch.Tensor:
    """test_graph_breaks' function without the device."""
    y = x.relu() + 1
    return (y * 2 if y.sum().item() > 5 else y).neg()


class Tricky:
    """Modules whose graphs a careless pass breaks."""

    class ReadTwice(nn.Module):
        def forward(self, x, w):
            y = torch.mm(x, w)
            return torch.relu(y) + y

    class WriteBetween(nn.Module):
        def forward(self, x, w):
            y = x + 1
            z = y.exp()
            y.mul_(2)
            return z * y + w[0]

    class WriteToInput(nn.Module):
        def forward(self, x, w):
            a = x * 2
            x.add_(1)
            return a + x + w[0]

    class Keyword(nn.Module):
        def forward(self, x, w):
            return torch.add(input=x, other=w, alpha=2).relu() * torch.mul(x, other=w)

    class Output(nn.Module):
        def forward(self, x, w):
            y = x * 2
            return y, y.relu(), [y + w]

    class Integers(nn.Module):
        def forward(self, x, w):
            n = x.size(0) + 1
            return (x * n).relu() + (torch.arange(4, device=x.device) * 2 + 1)

    class Shapes(nn.Module):
        def forward(self, x, w):
            return (x[:, None] + w[None]).sum(0).relu() * x.mean()

    class Promotion(nn.Module):
        def forward(self, x, w):
            return (x.double() * w + 1).relu() - x

    class Alias(nn.Module):
        def forward(self, x, w):
            y = x * 1
            v = y.view(-1)
            y.add_(3)
            return v.relu() * 2 + w.view(-1)

    class SameOperand(nn.Module):
        def forward(self, x, w):
            y = x + x
            return y * y - y / (y + 10) + torch.mm(w, w).relu()

    class Chain100(nn.Module):
        def forward(self, x, w):
            for i in range(100):
                x = x * 0.99 + w * (i % 3)
            return x

    class ManyInputs(nn.Module):
        def forward(self, x, w):
            parts = [x[i] * (i + 1) for i in range(4)] + [w[i] - i for i in range(4)]
            total = parts[0]
            for p in parts[1:] * 4:
                total = total * 0.5 + p
            return total.relu()


TRICKY = [value for name, value in vars(Tricky).items() if isinstance(value, type)]


@pytest.mark.parametrize("kind", TRICKY, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("way", ["fx", "dynamo"])
def test_tricky_graphs(kind, way):
    module = kind()
    x, w = make(4, 4), make(4, 4, seed=1)
    expected = module(x.clone(), w)
    if way == "fx":
        compiled = compiler.compile(module)
    else:
        compiled = torch.compile(module, backend="tvarant")
    assert_same(compiled(x.to(DEVICE), w.to(DEVICE)), expected, **CLOSE)


class TestFxPasses:
    def test_hooks_and_names_survive(self):
        module = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).to(DEVICE)
        seen = []
        module[0].register_forward_hook(lambda *_: seen.append(1))
        compiled = compiler.compile(module)
        compiled(make(2, 4).to(DEVICE))
        assert seen == [1]

    def test_parameters_are_shared_and_trained(self):
        module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).to(DEVICE)
        compiled = compiler.compile(module)
        assert {id(p) for p in compiled.parameters()} == {
            id(p) for p in module.parameters()
        }
        x = make(3, 4).to(DEVICE)
        compiled(x).pow(2).sum().backward()
        ours = [p.grad.clone() for p in module.parameters()]
        module.zero_grad()
        module(x).pow(2).sum().backward()
        for a, p in zip(ours, module.parameters(), strict=True):
            torch.testing.assert_close(a.cpu(), p.grad.cpu(), **CLOSE)
        with torch.no_grad():
            module[0].weight.zero_()
            module[0].bias.zero_()
        torch.testing.assert_close(compiled(x).cpu(), module(x).cpu())

    def test_passes_count_what_they_merge(self):
        module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.GELU())
        compiler.compile(module)
        assert compiler.last_log["gemm_epilogue"] == 2
        graph = fx.symbolic_trace(lambda x, y: ((x + y).relu() * y).neg())
        compiler.fuse_pointwise(graph)
        assert compiler.last_log["pointwise_groups"] == 1
        assert sum(node.op == "call_function" for node in graph.graph.nodes) == 1

    def test_works_for_cpu_tensors_too(self):
        compiled = compiler.compile(nn.Sequential(nn.Linear(4, 4), nn.SiLU()))
        assert compiled(make(2, 4)).device.type == "cpu"

    def test_all_float_types(self):
        module = nn.Sequential(nn.Linear(4, 4), nn.SiLU())
        for dtype in (torch.float64, torch.float16, torch.bfloat16):
            host = copy.deepcopy(module).to(dtype)
            ours = compiler.compile(copy.deepcopy(host).to(DEVICE))
            x = make(3, 4, dtype=dtype)
            assert_same(ours(x.to(DEVICE)), host(x), rtol=3e-2, atol=3e-2)
