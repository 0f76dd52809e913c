"""PyTorch's device-generic test classes, instantiated for tvarant.

What they add to test_opinfo.py: gradcheck and gradgradcheck, forward-mode
derivatives, vmap, FakeTensor and export of operators, in PyTorch's own harness.
"""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.common_device_type import (
    PrivateUse1TestBase,
    dtypes,
    instantiate_device_type_tests,
    ops,
    toleranceOverride,
)
from torch.testing._internal.common_device_type import tol as tolerance
from torch.testing._internal.common_methods_invocations import DecorateInfo, op_db
from torch.testing._internal.common_utils import TestCase, gradcheck, gradgradcheck

# What layers, losses and optimisers of common models are made of.
COMMON = frozenset(
    """
    add sub mul div exp log tanh sigmoid sqrt rsqrt pow abs where clamp maximum
    matmul mm bmm addmm baddbmm sum mean amax logsumexp var std cumsum softmax
    log_softmax nn.functional.relu nn.functional.gelu nn.functional.silu
    nn.functional.layer_norm nn.functional.linear nn.functional.cross_entropy
    nn.functional.mse_loss nn.functional.embedding cat gather index_select
    masked_fill transpose tril triu flip roll
    """.split()
)
ENTRIES = [op for op in op_db if op.name in COMMON]
FLOAT64 = (torch.float64,)
SAMPLES = 2

PrivateUse1TestBase.set_test_configs(
    op_overrides={
        # Long sums in another order than the CPU's.
        "matmul": [
            DecorateInfo(
                toleranceOverride({torch.float32: tolerance(atol=1e-4, rtol=1e-4)}),
                "TestOperators",
                "test_like_the_cpu",
            )
        ]
    }
)


def samples(op, device, dtype, **options):
    """A few samples whose inputs are dense, small tensors."""
    kept = []
    for sample in op.sample_inputs(device, dtype, **options):
        if isinstance(sample.input, torch.Tensor) and 0 < sample.input.numel() < 200:
            kept.append(sample)
        if len(kept) == SAMPLES:
            break
    return kept


def as_function(op, sample):
    return lambda x: sample.output_process_fn_grad(op(x, *sample.args, **sample.kwargs))


class TestOperators(TestCase):
    @ops(ENTRIES, allowed_dtypes=(torch.float32, torch.int64))
    def test_like_the_cpu(self, device, dtype, op):
        for sample in samples(op, device, dtype):
            ours = op(sample.input, *sample.args, **sample.kwargs)
            host = sample.transform(
                lambda x: x.cpu() if isinstance(x, torch.Tensor) else x
            )
            theirs = op(host.input, *host.args, **host.kwargs)
            self.assertEqual(ours, theirs, exact_device=False)

    @ops(ENTRIES, allowed_dtypes=FLOAT64)
    def test_gradcheck(self, device, dtype, op):
        if not op.supports_autograd:
            self.skipTest("no derivative")
        for sample in samples(op, device, dtype, requires_grad=True):
            self.assertTrue(
                gradcheck(
                    as_function(op, sample),
                    sample.input,
                    check_batched_grad=op.check_batched_grad,
                    nondet_tol=op.gradcheck_nondet_tol,
                )
            )

    @ops(ENTRIES, allowed_dtypes=FLOAT64)
    def test_gradgradcheck(self, device, dtype, op):
        if not op.supports_gradgrad:
            self.skipTest("no second derivative")
        for sample in samples(op, device, dtype, requires_grad=True)[:1]:
            if sample.input.numel() > 30:
                continue
            self.assertTrue(
                gradgradcheck(
                    as_function(op, sample),
                    sample.input,
                    nondet_tol=op.gradcheck_nondet_tol,
                )
            )

    @ops(ENTRIES, allowed_dtypes=FLOAT64)
    def test_forward_mode(self, device, dtype, op):
        if not op.supports_forward_ad:
            self.skipTest("no forward-mode derivative")
        for sample in samples(op, device, dtype):
            function = as_function(op, sample)
            tangent = torch.ones_like(sample.input)
            host = sample.transform(
                lambda x: x.cpu() if isinstance(x, torch.Tensor) else x
            )
            ours = torch.func.jvp(function, (sample.input,), (tangent,))
            theirs = torch.func.jvp(
                as_function(op, host), (host.input,), (tangent.cpu(),)
            )
            self.assertEqual(ours, theirs, exact_device=False)

    @ops(ENTRIES, allowed_dtypes=(torch.float32,))
    def test_vmap(self, device, dtype, op):
        for sample in samples(op, device, dtype):
            function = as_function(op, sample)
            batch = torch.stack([sample.input, sample.input * 2])
            expected = [function(x) for x in batch.unbind()]
            if not all(isinstance(x, torch.Tensor) for x in expected):
                continue
            ours = torch.func.vmap(function)(batch)
            self.assertEqual(ours, torch.stack(expected))

    @ops(ENTRIES, allowed_dtypes=(torch.float32,))
    def test_fake_tensors_know_the_result(self, device, dtype, op):
        for sample in samples(op, device, dtype):
            real = op(sample.input, *sample.args, **sample.kwargs)
            if not isinstance(real, torch.Tensor):
                continue
            with FakeTensorMode() as mode:
                fake = sample.transform(
                    lambda x: mode.from_tensor(x) if isinstance(x, torch.Tensor) else x
                )
                guess = op(fake.input, *fake.args, **fake.kwargs)
            self.assertEqual(guess.device, real.device)
            self.assertEqual(guess.dtype, real.dtype)
            self.assertEqual(guess.shape, real.shape)
            self.assertEqual(guess.stride(), real.stride())


class TestModules(TestCase):
    @dtypes(torch.float32, torch.float64)
    def test_export_and_functional_call(self, device, dtype):
        net = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)
        ).to(device, dtype)
        x = torch.randn(3, 4, device=device, dtype=dtype)
        exported = torch.export.export(net, (x,)).module()
        self.assertEqual(exported(x), net(x))
        doubled = {name: 2 * p for name, p in net.named_parameters()}
        result = torch.func.functional_call(net, doubled, (x,))
        with torch.no_grad():
            for p in net.parameters():
                p.mul_(2)
        self.assertEqual(result, net(x))

    @dtypes(torch.float64)
    def test_checkpoint_double_backward_and_hooks(self, device, dtype):
        weight = torch.randn(4, 4, device=device, dtype=dtype, requires_grad=True)
        x = torch.randn(2, 4, device=device, dtype=dtype, requires_grad=True)
        seen = []
        weight.register_hook(lambda grad: seen.append(grad.device.type))

        def body(x):
            return (x @ weight).tanh()

        plain = torch.autograd.grad(body(x).sum(), [x, weight])
        y = torch.utils.checkpoint.checkpoint(body, x, use_reentrant=False)
        self.assertEqual(torch.autograd.grad(y.sum(), [x, weight]), plain)
        self.assertEqual(set(seen), {torch.device(device).type})
        (first,) = torch.autograd.grad(body(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.pow(2).sum(), x)
        self.assertEqual(second.shape, x.shape)

    @dtypes(torch.float64)
    def test_products_with_a_tangent_of_zero(self, device, dtype):
        """Zero tensors of forward mode have no memory: dot must not read it."""
        ours = torch.arange(16, device=device, dtype=dtype)
        zero = torch._efficientzerotensor((16,), device=device, dtype=dtype)
        for product in (torch.dot, torch.vdot):
            for result in (product(ours, zero), product(zero, ours)):
                self.assertTrue(torch._is_zerotensor(result))
                self.assertEqual(result.device, ours.device)
                self.assertEqual((result + 1).item(), 1.0)

    @dtypes(torch.float32)
    def test_per_sample_gradients(self, device, dtype):
        net = torch.nn.Linear(3, 1).to(device, dtype)
        params = dict(net.named_parameters())
        x = torch.randn(5, 3, device=device, dtype=dtype)

        def loss(params, row):
            return torch.func.functional_call(net, params, (row,)).pow(2).sum()

        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(params, x)
        for i in range(5):
            grads = torch.autograd.grad(loss(params, x[i]), list(params.values()))
            for ours, theirs in zip(each.values(), grads, strict=True):
                self.assertEqual(ours[i], theirs)


instantiate_device_type_tests(TestOperators, globals(), only_for="tvarant")
instantiate_device_type_tests(TestModules, globals(), only_for="tvarant")
