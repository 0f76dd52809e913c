"""PyTorch's own samples for its operators (op_db): the device against the CPU.

Every entry in every dtype of DTYPES that the CPU has: see opinfo_checks.py. What
does not pass stands in opinfo_expected.py with its reason; an entry there that
passes again fails, so that the list only shrinks. With TVARANT_SIM_MAP=0 every
seventh case runs, since nothing but the transport differs.
"""

from __future__ import annotations

import os
import zlib
from typing import Any

import pytest
import torch
from opinfo_checks import Entry, full_name, run
from opinfo_expected import (
    EXPECTED_FAILURES,
    LOOSE,
    PLACES,
    RANDOM,
    SKIPPED,
    UNINITIALISED,
)
from torch.testing._internal.common_methods_invocations import op_db

DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
    torch.complex64,
)
# Entries in float32 that use no operator without a kernel, at least.
NATIVE_SHARE = 0.85
PASSING_SHARE = 0.995

SAMPLED = os.environ.get("TVARANT_SIM_MAP") == "0"

# Per entry in float32: the operators that ran on the CPU, forward or backward.
fallbacks: dict[str, list[str]] = {}


def label_of(op: Any, dtype: torch.dtype) -> str:
    return f"{full_name(op)}-{str(dtype).removeprefix('torch.')}"


def expected_failure(op: Any, dtype: torch.dtype) -> str | None:
    return EXPECTED_FAILURES.get(label_of(op, dtype)) or EXPECTED_FAILURES.get(
        full_name(op)
    )


def entry_of(op: Any, dtype: torch.dtype) -> Entry:
    name = full_name(op)
    factor = LOOSE.get(label_of(op, dtype)) or LOOSE.get(name, 1.0)
    values = name not in RANDOM and name not in UNINITIALISED
    return Entry(op, dtype, factor, values, name not in PLACES)


def pairs() -> list[tuple[Any, torch.dtype]]:
    return [(op, dtype) for op in op_db for dtype in DTYPES if dtype in op.dtypes]


def cases() -> list[Any]:
    found = []
    for op, dtype in pairs():
        name, label = full_name(op), label_of(op, dtype)
        if SAMPLED and zlib.crc32(label.encode()) % 7:
            continue
        marks = []
        reason = expected_failure(op, dtype)
        if name in SKIPPED:
            marks.append(pytest.mark.skip(reason=SKIPPED[name]))
        elif reason:
            marks.append(pytest.mark.xfail(strict=True, reason=reason))
        found.append(pytest.param(op, dtype, id=label, marks=marks))
    return found


@pytest.mark.timeout(120)
@pytest.mark.parametrize("op,dtype", cases())
def test_op(op: Any, dtype: torch.dtype) -> None:
    ran, on_cpu = run(entry_of(op, dtype))
    if dtype == torch.float32:
        fallbacks[full_name(op)] = on_cpu
    if ran == 0:
        pytest.skip("no sample of dense tensors")


def test_lists_name_real_entries() -> None:
    names = {full_name(op) for op in op_db} | {label_of(*pair) for pair in pairs()}
    for listed in (EXPECTED_FAILURES, SKIPPED, LOOSE, PLACES, RANDOM, UNINITIALISED):
        assert not set(listed) - names


def test_share_that_passes() -> None:
    every = [pair for pair in pairs() if full_name(pair[0]) not in SKIPPED]
    failing = [pair for pair in every if expected_failure(*pair)]
    assert len(failing) <= (1 - PASSING_SHARE) * len(every)


def test_share_that_is_native() -> None:
    """Last, over what test_op saw."""
    if len(fallbacks) < 500:
        pytest.skip("needs the whole file in one run")
    native = [name for name, ops in fallbacks.items() if not ops]
    by_op: dict[str, int] = {}
    for ops in fallbacks.values():
        for op in ops:
            by_op[op] = by_op.get(op, 0) + 1
    common = sorted(by_op.items(), key=lambda item: -item[1])[:40]
    print(f"{len(native)} of {len(fallbacks)} entries are native; others use {common}")
    assert len(native) >= NATIVE_SHARE * len(fallbacks), common
