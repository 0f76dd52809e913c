"""Lists of test_opinfo.py.

Names are those of op_db, a variant after a dot; a type may follow after a dash.
"""

from __future__ import annotations

# FakeTensor has them float32 on every device but the CPU.
STATISTICS = "mean and rstd stay float32, as PyTorch's own meta function says"

# Works wrong or not at all: why. A pass fails.
EXPECTED_FAILURES: dict[str, str] = {
    "to_sparse": "the device has dense tensors only",
    "narrow_copy-float32": "the CPU refuses a bad dim with a type of its own",
    "native_layer_norm-float16": STATISTICS,
    "native_layer_norm-bfloat16": STATISTICS,
}

# Can't be run on any device but CUDA: why.
SKIPPED: dict[str, str] = {
    f"jiterator_{name}": "compiles CUDA source"
    for name in (
        "unary",
        "binary",
        "4inputs_with_extra_args",
        "binary_return_by_ref",
        "2inputs_2outputs",
    )
}

# Tolerance times this.
LOOSE: dict[str, float] = {
    # The CPU's are within 1e-6 only.
    **{f"special.bessel_{name}-float64": 100.0 for name in ("j0", "j1", "y0", "y1")},
    # The CPU adds in half precision.
    **{
        f"nn.functional.conv_transpose{n}d-{dtype}": 40.0
        for n in (1, 2, 3)
        for dtype in ("float16", "bfloat16")
    },
}

# Draw random numbers: only shapes and types are compared.
RANDOM: frozenset[str] = frozenset(
    """
    cauchy exponential geometric log_normal normal.in_place uniform randn randn_like
    rand_like randint randint_like multinomial normal normal.number_mean bernoulli
    nn.functional.rrelu nn.functional.fractional_max_pool2d
    nn.functional.fractional_max_pool3d svd_lowrank pca_lowrank nn.functional.dropout
    nn.functional.dropout2d nn.functional.dropout3d nn.functional.alpha_dropout
    nn.functional.feature_alpha_dropout.with_train
    nn.functional.multi_head_attention_forward
    """.split()
)

# Give memory as it is.
UNINITIALISED: frozenset[str] = frozenset(
    "empty empty_like empty_strided empty_permuted new_empty new_empty_strided".split()
)

# Give places last, and of equal elements the CPU gives any: stable forms are
# compared by test_ops_sort.py.
PLACES: frozenset[str] = frozenset("argsort kthvalue mode sort topk".split())
