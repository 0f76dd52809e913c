"""Element-wise ops: dtypes, layouts, broadcasting, promotion, gradients."""

from __future__ import annotations

import itertools
import operator

import pytest
import torch
import torch.nn.functional as F
from support import (
    DEVICE,
    DTYPES,
    FLOATS,
    HALF,
    INTS,
    REAL,
    Grid,
    assert_same,
    compare,
    compare_gradients,
    layouts,
    make,
    mirror,
)

pytestmark = pytest.mark.usefixtures("no_fallback")

ANY, UNIT, POSITIVE, ABOVE_ONE = (-3, 3), (-0.99, 0.99), (0.01, 5), (1.01, 5)

# name -> (function, domain, dtypes that PyTorch takes)
FLOAT_UNARY = {
    **{
        name: (getattr(torch, name), domain)
        for domain, names in (
            (ANY, "exp exp2 expm1 sin cos tan sinh cosh tanh atan asinh erf erfc"),
            (ANY, "sigmoid rad2deg deg2rad sinc"),
            (UNIT, "asin acos atanh"),
            (POSITIVE, "log log2 log10 log1p sqrt rsqrt reciprocal lgamma"),
            (ABOVE_ONE, "acosh"),
        )
        for name in names.split()
    },
}
FLOAT_UNARY["reciprocal"] = (torch.reciprocal, (0.5, 5))
REAL_UNARY = {
    name: getattr(torch, name)
    for name in "abs neg sign sgn square floor ceil round trunc positive relu".split()
}
ACTIVATIONS = {
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu6": F.relu6,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "elu": F.elu,
    "selu": F.selu,
    "celu": lambda x: F.celu(x, 1.5),
    "softplus": F.softplus,
    "softplus beta": lambda x: F.softplus(x, 2.0, 3.0),
    "logsigmoid": F.logsigmoid,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 1.5),
    "hardshrink": lambda x: F.hardshrink(x, 0.4),
    "softshrink": lambda x: F.softshrink(x, 0.4),
    "tanhshrink": F.tanhshrink,
    "softsign": F.softsign,
    "threshold": lambda x: F.threshold(x, 0.3, 2.0),
}
SPECIAL = torch.tensor(
    [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-30, 1e30, -1e30, 3e38]
    + [float("inf"), -float("inf"), float("nan"), 88.0, -104.0, 1e-45]
)


def tolerance(dtype: torch.dtype) -> dict[str, float]:
    """A few units in the last place: the functions come from different libraries."""
    return {
        torch.float32: {"rtol": 3e-6, "atol": 1e-6},
        torch.float64: {"rtol": 1e-12, "atol": 1e-12},
        torch.float16: {"rtol": 2e-3, "atol": 1e-3},
        torch.bfloat16: {"rtol": 1.6e-2, "atol": 1e-2},
    }.get(dtype, {"rtol": 3e-6, "atol": 1e-6})


class TestUnary:
    @pytest.mark.parametrize("name", FLOAT_UNARY)
    def test_float_functions(self, name):
        function, (low, high) = FLOAT_UNARY[name]
        with Grid() as grid:
            for dtype in FLOATS:
                x = make(4, 7, dtype=dtype, low=low, high=high)
                for layout, value in layouts(x).items():
                    with grid.case(dtype, layout):
                        compare(function, value, **tolerance(dtype))
            for dtype in (torch.int32, torch.int64, torch.uint8, torch.bool):
                if name in ("frac",):
                    continue
                x = make(9, dtype=dtype, low=1, high=4)
                with grid.case(dtype):
                    compare(function, x, **tolerance(torch.float32))

    @pytest.mark.parametrize("name", [*REAL_UNARY, "frac"])
    def test_exact_functions(self, name):
        function = REAL_UNARY.get(name, torch.frac)
        with Grid() as grid:
            for dtype in REAL if name in REAL_UNARY else FLOATS:
                x = make(4, 7, dtype=dtype, low=-50, high=50)
                for layout, value in layouts(x).items():
                    with grid.case(dtype, layout):
                        compare(function, value, rtol=0, atol=0)

    @pytest.mark.parametrize("name", ACTIVATIONS)
    def test_activations(self, name):
        function = ACTIVATIONS[name]
        with Grid() as grid:
            for dtype in FLOATS:
                x = make(4, 7, dtype=dtype, low=-5, high=5)
                for layout, value in layouts(x).items():
                    with grid.case(dtype, layout):
                        # The CPU's own logsigmoid always makes dense results.
                        compare(
                            function,
                            value,
                            strides=name != "logsigmoid",
                            **tolerance(dtype),
                        )

    @pytest.mark.parametrize("name", [*FLOAT_UNARY, *REAL_UNARY, *ACTIVATIONS])
    def test_special_values(self, name):
        function = {**REAL_UNARY, **ACTIVATIONS}.get(name) or FLOAT_UNARY[name][0]
        # Beyond the argument range that a device reduces exactly.
        x = SPECIAL[SPECIAL.abs() != 1e30] if name in ("sinc", "lgamma") else SPECIAL
        if name in ("sin", "cos", "tan", "sinc"):
            x = x[~(x.abs() > 1e20) | x.isinf()]
        if name == "gelu":
            # The CPU's form for AVX-512 makes NaN of the infinity and infinity of
            # large numbers; one element at a time it does not.
            def on_cpu(t):
                return torch.stack([torch.nn.functional.gelu(v) for v in t])

            for dtype in (torch.float32, torch.float64):
                ours = function(x.to(DEVICE, dtype)).cpu()
                torch.testing.assert_close(ours, on_cpu(x.to(dtype)), equal_nan=True)
            return
        with Grid() as grid:
            for dtype in (torch.float32, torch.float64):
                with grid.case(dtype):
                    compare(function, x.to(dtype), **tolerance(torch.float32))

    def test_sign_of_zero(self):
        zeros = torch.tensor([-0.0, 0.0])
        for function in (torch.neg, torch.round, torch.trunc, torch.sqrt, torch.abs):
            ours = function(zeros.to(DEVICE)).cpu().signbit()
            assert torch.equal(ours, function(zeros).signbit()), function

    def test_round_to_decimals(self):
        x = make(40, low=-100, high=100)
        compare(lambda t: torch.round(t, decimals=2), x)
        compare(lambda t: torch.round(t, decimals=-1), x)

    def test_tests(self):
        with Grid() as grid:
            for name in "isnan isinf isfinite isposinf isneginf signbit isreal".split():
                for dtype in (torch.float32, torch.float16, torch.int32):
                    x = (
                        SPECIAL.to(dtype)
                        if dtype.is_floating_point
                        else make(4, dtype=dtype)
                    )
                    with grid.case(name, dtype):
                        compare(getattr(torch, name), x)
            for dtype in DTYPES:
                with grid.case("logical_not", dtype):
                    compare(torch.logical_not, make(9, dtype=dtype, low=0, high=1))
            with grid.case("nan_to_num"):
                compare(torch.nan_to_num, SPECIAL)
                compare(lambda t: torch.nan_to_num(t, 1.0, 2.0, 3.0), SPECIAL)

    def test_bitwise_not(self):
        for dtype in (*INTS, torch.bool):
            compare(torch.bitwise_not, make(9, dtype=dtype, low=-9, high=9))

    @pytest.mark.parametrize(
        "name", [*FLOAT_UNARY, *ACTIVATIONS, "abs", "square", "frac"]
    )
    def test_gradient(self, name):
        function, domain = FLOAT_UNARY.get(name, (ACTIVATIONS.get(name), ANY))
        function = function or getattr(torch, name)
        if name == "lgamma":
            pytest.skip("its gradient is digamma, which runs on the CPU")
        compare_gradients(
            function, make(4, 7, low=domain[0], high=domain[1]), rtol=1e-4, atol=1e-5
        )


class TestForms:
    """Functional, in place, out=: one result, no fallback, one object."""

    NAMES = (
        "abs neg exp exp2 log log1p sqrt rsqrt sin cos tanh sigmoid erf floor ceil "
        "round trunc square reciprocal sign"
    )

    @pytest.mark.parametrize("name", NAMES.split())
    def test_unary(self, name):
        function = getattr(torch, name)
        method = getattr(torch.Tensor, name + "_")
        x = make(4, 7, low=0.1, high=3)
        for layout, value in layouts(x).items():
            d = mirror(value)
            assert method(d) is d
            expected = function(value)
            torch.testing.assert_close(
                d.cpu(), expected.contiguous().view(4, 7), msg=layout
            )
            assert d.stride() == value.stride()
            out = mirror(torch.zeros_like(x).t().contiguous().t())
            if name != "square":
                assert function(mirror(value), out=out) is out
                assert out.stride() == (1, 4)
                torch.testing.assert_close(out.cpu(), expected)

    @pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "maximum"])
    def test_binary(self, name):
        function = getattr(torch, name)
        a, b = make(4, 7, low=0.5), make(4, 7, low=0.5, seed=1)
        expected = function(a, b)
        out = torch.empty(0, device=DEVICE)
        assert function(a.to(DEVICE), b.to(DEVICE), out=out) is out
        assert_same(out, expected)
        method = getattr(torch.Tensor, name + "_", None)
        if method is not None:
            d = a.to(DEVICE)
            assert method(d, b.to(DEVICE)) is d
            assert_same(d, expected)

    def test_out_of_another_dtype(self):
        a = make(4)
        for dtype in (torch.float64, torch.float16):
            expected = torch.add(a, a, out=torch.empty(4, dtype=dtype))
            ours = torch.add(
                a.to(DEVICE),
                a.to(DEVICE),
                out=torch.empty(4, dtype=dtype, device=DEVICE),
            )
            assert_same(ours, expected)
        with pytest.raises(RuntimeError, match="can't be cast"):
            torch.add(
                a.to(DEVICE), 1, out=torch.empty(4, dtype=torch.int64, device=DEVICE)
            )

    def test_in_place_keeps_the_dtype(self):
        x = torch.ones(3, dtype=torch.int64, device=DEVICE)
        with pytest.raises(RuntimeError, match="can't be cast"):
            x.add_(0.5)
        half = make(3, dtype=torch.float16)
        compare(lambda t, u: t.add_(u), half, make(3))

    def test_same_tensor_as_input_and_output(self):
        compare(lambda t: torch.mul(t, t, out=t), make(4, 5))
        compare(lambda t: t.add_(t, alpha=2), make(4, 5).t())
        compare(lambda t: t.t().copy_(t.t() * 2), make(4, 5))


BINARY = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
}
DIVISIONS = {
    "floor_divide": torch.floor_divide,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
}
FLOAT_BINARY = {
    "pow": torch.pow,
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "copysign": torch.copysign,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
    "xlogy": torch.xlogy,
    "heaviside": torch.heaviside,
}
BITWISE = {
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": torch.bitwise_left_shift,
    "shr": torch.bitwise_right_shift,
}


COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def refused(function, *args) -> bool:
    try:
        function(*args)
    except (RuntimeError, TypeError):
        return True
    return False


class TestBinary:
    @pytest.mark.parametrize("name", BINARY)
    def test_all_pairs_of_dtypes(self, name):
        function = BINARY[name]
        with Grid() as grid:
            for a, b in itertools.product(DTYPES, DTYPES):
                x = make(3, 4, dtype=a, low=1, high=9)
                y = make(3, 4, dtype=b, low=1, high=9, seed=1)
                if refused(function, x, y):
                    continue
                with grid.case(a, b):
                    compare(function, x, y)
                with grid.case(a, b, "scalar tensor"):
                    compare(function, x, y[0, 0])
                # The CPU rounds the number to a half type before it adds, but not
                # before it multiplies; devices never do, except to compare.
                loose = tolerance(torch.result_type(x, y[0, 0]))
                rounds = name in ("add", "sub") and a in HALF
                with grid.case(a, b, "scalar tensor on the CPU"):
                    ours, theirs = function(mirror(x), y[0, 0]), function(x, y[0, 0])
                    if rounds:
                        loose["atol"] = 8 * torch.finfo(a).eps
                    assert_same(ours, theirs, **loose)

    @pytest.mark.parametrize("name", BINARY)
    def test_python_numbers(self, name):
        function = BINARY[name]
        with Grid() as grid:
            numbers = (2, 2.5, True, -1, *((0.1,) if name in COMPARISONS else ()))
            for dtype, number in itertools.product(DTYPES, numbers):
                x = make(9, dtype=dtype, low=1, high=9)
                if number == 0.1 and dtype.is_floating_point:
                    x[:3] = 0.1
                if name in ("maximum", "minimum") or name.startswith("logical"):
                    number = torch.tensor(number)
                for label, f in (
                    ("right", lambda t, n=number: function(t, n)),
                    ("left", lambda t, n=number: function(n, t)),
                ):
                    if refused(f, x) or (dtype == torch.uint8 and number == -1):
                        continue
                    with grid.case(dtype, number, label):
                        compare(f, x)

    @pytest.mark.parametrize("name", [*BINARY, *FLOAT_BINARY])
    def test_layouts_and_broadcast(self, name):
        function = {**BINARY, **FLOAT_BINARY}[name]
        limits = {"low": 0.2, "high": 3}
        with Grid() as grid:
            x, y = make(2, 3, 4, **limits), make(2, 3, 4, **limits, seed=1)
            for (p, a), (q, b) in itertools.product(
                layouts(x).items(), layouts(y).items()
            ):
                with grid.case(p, q):
                    compare(function, a, b, **tolerance(torch.float32))
            for shape in ((4,), (3, 1), (1,), (2, 1, 4), (1, 3, 1), (5, 1, 3, 4), ()):
                with grid.case("broadcast", shape):
                    compare(function, x, make(*shape, **limits), rtol=3e-6, atol=1e-6)
                with grid.case("broadcast left", shape):
                    compare(function, make(*shape, **limits), x, rtol=3e-6, atol=1e-6)

    @pytest.mark.parametrize("name", FLOAT_BINARY)
    def test_float_functions(self, name):
        function = FLOAT_BINARY[name]
        with Grid() as grid:
            for dtype in FLOATS:
                x = make(30, dtype=dtype, low=0.1, high=3)
                y = make(30, dtype=dtype, low=0.1, high=3, seed=1)
                if refused(function, x, y):
                    continue
                with grid.case(dtype):
                    compare(function, x, y, **tolerance(dtype))
            pairs = itertools.product(SPECIAL, SPECIAL)
            a, b = (torch.stack(side) for side in zip(*pairs, strict=True))
            with grid.case("special values"):
                compare(function, a, b, **tolerance(torch.float32))

    @pytest.mark.parametrize("name", DIVISIONS)
    def test_divisions(self, name):
        function = DIVISIONS[name]
        with Grid() as grid:
            for dtype in REAL:
                x = make(60, dtype=dtype, low=-50, high=50)
                y = make(60, dtype=dtype, low=1, high=7, seed=1)
                for label, b in {"positive": y, "negative": -y}.items():
                    if dtype == torch.uint8 and label == "negative":
                        continue
                    with grid.case(dtype, label):
                        compare(function, x, b)
                for number in (3, 2.5, -4):
                    if dtype == torch.uint8 and number < 0:
                        continue
                    with grid.case(dtype, number):
                        compare(lambda t, n=number: function(t, n), x)
            # PyTorch's vectorised forms give NaN where the quotient overflows,
            # its scalar ones the remainder, as ours do.
            normal = (SPECIAL == 0) | (SPECIAL.abs() > 1e-30)
            finite = SPECIAL[SPECIAL.isfinite() & (SPECIAL.abs() < 1e4) & normal]
            pairs = itertools.product(finite, finite)
            a, b = (torch.stack(side) for side in zip(*pairs, strict=True))
            with grid.case("special values"):
                compare(function, a, b)

    @pytest.mark.parametrize("name", BITWISE)
    def test_bitwise(self, name):
        function = BITWISE[name]
        with Grid() as grid:
            for dtype in (*INTS, torch.bool):
                x = make(20, dtype=dtype, low=-100, high=100)
                y = make(20, dtype=dtype, low=0, high=6, seed=1)
                if refused(function, x, y):
                    continue
                with grid.case(dtype):
                    compare(function, x, y)
                if dtype != torch.bool:
                    with grid.case(dtype, "number"):
                        compare(lambda t: function(t, 3), x)

    def test_powers(self):
        with Grid() as grid:
            for dtype in REAL:
                x = make(20, dtype=dtype, low=1, high=4)
                for exponent in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 2.5, 4):
                    if refused(torch.pow, x, exponent):
                        continue
                    with grid.case(dtype, exponent):
                        compare(lambda t, e=exponent: t**e, x, **tolerance(dtype))
                with grid.case(dtype, "base"):
                    compare(lambda t: 2**t, x, **tolerance(dtype))
            with grid.case("negative base"):
                compare(lambda t: t**3, torch.tensor([-2.0, -0.5, 0.0, 3.0]))
                compare(lambda t: t**0.5, torch.tensor([-2.0, -0.5, 0.0, 3.0]))
            with grid.case("integer tensors"):
                compare(
                    torch.pow, torch.tensor([-3, 2, 0, 7]), torch.tensor([3, 0, 0, 21])
                )

    def test_alpha(self):
        x, y = make(5), make(5, seed=1)
        compare(lambda a, b: torch.add(a, b, alpha=0.5), x, y)
        compare(lambda a, b: torch.sub(a, b, alpha=-3), x, y)
        compare(lambda a, b: a.add_(b, alpha=2), x, y)
        compare(lambda a, b: torch.rsub(a, b, alpha=2), x, y)
        compare(lambda a: torch.add(a, 2, alpha=3), torch.arange(5))
        compare(lambda a: 3 - a, torch.arange(5, dtype=torch.uint8))

    def test_integers_wrap(self):
        for dtype in INTS:
            top = torch.iinfo(dtype).max
            compare(lambda t: t + 1, torch.tensor([top], dtype=dtype))
            compare(lambda t: t * t, torch.tensor([top], dtype=dtype))

    @pytest.mark.parametrize("name", ["add", "sub", "mul", "div", *FLOAT_BINARY])
    def test_gradient_with_broadcast(self, name):
        if name in ("heaviside", "xlogy", "logaddexp2"):
            shapes = [((3, 4), (3, 4))]
        else:
            shapes = [((3, 4), (4,)), ((3, 1), (1, 4)), ((2, 3, 4), (3, 1)), ((3,), ())]
        function = {**BINARY, **FLOAT_BINARY}[name]
        if name == "heaviside":
            pytest.skip("it has no gradient")
        for a, b in shapes:
            compare_gradients(
                function,
                make(*a, low=0.3, high=3),
                make(*b, low=0.3, high=3, seed=1),
                rtol=1e-4,
                atol=1e-5,
            )


class TestTernary:
    def test_where(self):
        with Grid() as grid:
            for a, b in itertools.product(DTYPES, DTYPES):
                with grid.case(a, b):
                    compare(
                        torch.where,
                        make(3, 4, dtype=torch.bool),
                        make(3, 4, dtype=a),
                        make(3, 4, dtype=b, seed=1),
                    )
            for layout, condition in layouts(make(3, 4, dtype=torch.bool)).items():
                with grid.case(layout):
                    compare(torch.where, condition, make(3, 4), make(4))
            with grid.case("numbers"):
                compare(
                    lambda c: torch.where(c, 1.5, -1.0), make(3, 4, dtype=torch.bool)
                )
                compare(
                    lambda c, x: torch.where(c, x, 0),
                    make(4, dtype=torch.bool),
                    make(4),
                )
        compare_gradients(
            lambda a, b: torch.where(a > 0.5, a, b), make(3, 4), make(4, seed=1)
        )

    def test_clamp(self):
        with Grid() as grid:
            for dtype in REAL:
                x = make(20, dtype=dtype, low=-9, high=9)
                for low, high in ((1, 3), (None, 2), (2, None), (3, 1)):
                    with grid.case(dtype, low, high):
                        compare(lambda t, a=low, b=high: t.clamp(a, b), x)
                with grid.case(dtype, "tensors"):
                    compare(
                        torch.clamp,
                        x,
                        make(20, dtype=dtype),
                        make(20, dtype=dtype, seed=3),
                    )
                with grid.case(dtype, "in place"):
                    compare(lambda t: t.clamp_(1, 2), x)
            with grid.case("nan"):
                compare(lambda t: t.clamp(0, 1), SPECIAL)
                compare(lambda t: t.clamp_min(0), SPECIAL)
                compare(lambda t: t.clamp_max(0), SPECIAL)
            with grid.case("promotion"):
                compare(lambda t: t.clamp(0.5, 1.5), torch.arange(4))
        compare_gradients(lambda t: t.clamp(-1, 1), make(20))
        compare_gradients(torch.clamp, make(9), make(9, seed=1), make(9, seed=2))

    def test_addcmul_addcdiv_lerp(self):
        x, y, z = (make(3, 4, low=0.5, high=2, seed=s) for s in range(3))
        functions = {
            "addcmul": lambda a, b, c: torch.addcmul(a, b, c, value=0.5),
            "addcdiv": lambda a, b, c: torch.addcdiv(a, b, c, value=-2),
            "addcmul_": lambda a, b, c: a.addcmul_(b, c),
            "addcdiv_": lambda a, b, c: a.addcdiv_(b, c, value=2),
            "lerp": torch.lerp,
            "lerp number": lambda a, b, c: torch.lerp(a, b, 0.3),
            "lerp_": lambda a, b, c: a.lerp_(b, 0.7),
        }
        with Grid() as grid:
            for name, function in functions.items():
                for dtype in FLOATS:
                    with grid.case(name, dtype):
                        compare(function, x.to(dtype), y.to(dtype), z.to(dtype))
                for layout, value in layouts(y).items():
                    with grid.case(name, layout):
                        compare(function, x, value, z[0])
                if not name.endswith("_"):
                    with grid.case(name, "gradient"):
                        compare_gradients(function, x, y, z[0], rtol=1e-4, atol=1e-5)

    def test_masked_fill(self):
        mask = make(3, 4, dtype=torch.bool)
        with Grid() as grid:
            for dtype in DTYPES:
                for layout, value in layouts(make(3, 4, dtype=dtype)).items():
                    with grid.case(dtype, layout):
                        compare(lambda t, m: t.masked_fill(m, 1), value, mask)
                        compare(lambda t, m: t.masked_fill_(m, 1), value.clone(), mask)
            with grid.case("tensor value"):
                compare(
                    lambda t, m, v: t.masked_fill(m, v),
                    make(3, 4),
                    mask,
                    torch.tensor(2.0),
                )
            with grid.case("broadcast"):
                compare(lambda t, m: t.masked_fill(m, 1), make(2, 3, 4), mask[0])
                compare(lambda t, m: t.masked_fill(m, 1), make(4), mask)
            with grid.case("infinity"):
                compare(lambda t, m: t.masked_fill(m, -float("inf")), make(3, 4), mask)
        compare_gradients(lambda t, m: t.masked_fill(m, 2.0), make(3, 4), mask)


def test_sizes_around_vector_widths():
    with Grid() as grid:
        for size in (
            0,
            1,
            2,
            3,
            7,
            8,
            9,
            15,
            16,
            17,
            31,
            33,
            63,
            65,
            127,
            1021,
            65_537,
        ):
            x, y = make(size), make(size, seed=1)
            with grid.case(size):
                compare(lambda a, b: (a + b) * a - b.exp(), x, y, rtol=1e-5, atol=1e-5)
                compare(lambda a, b: a > b, x, y)


def test_large_tensors_use_all_their_elements():
    x = torch.arange(5_000_003, dtype=torch.int32)
    d = x.to(DEVICE) * 3 + 1
    assert torch.equal(d.cpu(), x * 3 + 1)
    strided = torch.zeros(1500, 2000, device=DEVICE).t()
    strided += torch.arange(1500, device=DEVICE)
    assert torch.equal(strided.cpu()[7], torch.arange(1500.0))
