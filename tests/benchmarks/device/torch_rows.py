"""The rows of tvarant-bench in PyTorch, for its --torch option.

Reads one row a line, "PEER DTYPE SECONDS SIZE...", and answers each with
"ok MEDIAN_SECONDS MIN_SECONDS" or "error WHY". The first line that it writes
says what it measures. The device is $TVARANT_BENCH_TORCH_DEVICE, else cuda.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

DEVICE = os.environ.get("TVARANT_BENCH_TORCH_DEVICE", "cuda")
Turn = Callable[[], object]


def synchronize() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def make(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    if not dtype.is_floating_point:
        return torch.zeros(shape, dtype=dtype, device=DEVICE)
    return torch.empty(shape, dtype=dtype, device=DEVICE).uniform_(-1, 1)


def small_add(dtype: torch.dtype, n: int) -> Turn:
    x = make(n, dtype=dtype)
    return lambda: torch.add(x, x, out=x)


def small_add_wait(dtype: torch.dtype, n: int) -> Turn:
    x = make(n, dtype=dtype)

    def turn() -> None:
        torch.add(x, x, out=x)
        synchronize()

    return turn


def copy(dtype: torch.dtype, *shape: int) -> Turn:
    x, y = make(*shape, dtype=dtype), make(*shape, dtype=dtype)
    return lambda: y.copy_(x)


def copy_transposed(dtype: torch.dtype, n: int, m: int) -> Turn:
    x, y = make(n, m, dtype=dtype), make(m, n, dtype=dtype)
    return lambda: y.copy_(x.t())


def copy_to_bfloat16(dtype: torch.dtype, *shape: int) -> Turn:
    x, y = make(*shape, dtype=dtype), make(*shape, dtype=torch.bfloat16)
    return lambda: y.copy_(x)


def upload(dtype: torch.dtype, n: int) -> Turn:
    x, y = torch.ones(n, dtype=dtype), make(n, dtype=dtype)
    return lambda: y.copy_(x)


def download(dtype: torch.dtype, n: int) -> Turn:
    x, y = make(n, dtype=dtype), torch.ones(n, dtype=dtype)
    return lambda: y.copy_(x)


def upload_pinned(dtype: torch.dtype, n: int) -> Turn:
    x, y = torch.ones(n, dtype=dtype).pin_memory(), make(n, dtype=dtype)
    return lambda: y.copy_(x)


def download_pinned(dtype: torch.dtype, n: int) -> Turn:
    x, y = make(n, dtype=dtype), torch.ones(n, dtype=dtype).pin_memory()
    return lambda: y.copy_(x)


def unary(function: Callable[..., torch.Tensor]) -> Callable[..., Turn]:
    def build(dtype: torch.dtype, *shape: int) -> Turn:
        x, y = make(*shape, dtype=dtype), make(*shape, dtype=dtype)
        return lambda: function(x, out=y)

    return build


def add(dtype: torch.dtype, *shape: int) -> Turn:
    x, y, z = (make(*shape, dtype=dtype) for _ in range(3))
    return lambda: torch.add(x, y, out=z)


def add_row(dtype: torch.dtype, n: int, m: int) -> Turn:
    x, z, row = make(n, m, dtype=dtype), make(n, m, dtype=dtype), make(m, dtype=dtype)
    return lambda: torch.add(x, row, out=z)


def chain(dtype: torch.dtype, n: int, m: int) -> Turn:
    x, y = make(n, m, dtype=dtype), make(n, m, dtype=dtype)
    weight, bias = make(m, dtype=dtype), make(m, dtype=dtype)
    return lambda: F.gelu(x * weight + bias) + y


def of_rows(function: Callable[[torch.Tensor], object]) -> Callable[..., Turn]:
    def build(dtype: torch.dtype, *shape: int) -> Turn:
        x = make(*shape, dtype=dtype)
        return lambda: function(x)

    return build


def layer_norm(dtype: torch.dtype, n: int, m: int) -> Turn:
    x, weight, bias = (make(*s, dtype=dtype) for s in ((n, m), (m,), (m,)))
    return lambda: F.layer_norm(x, (m,), weight, bias)


def rms_norm(dtype: torch.dtype, n: int, m: int) -> Turn:
    x, weight = make(n, m, dtype=dtype), make(m, dtype=dtype)
    return lambda: F.rms_norm(x, (m,), weight, 1e-5)


def mm(dtype: torch.dtype, m: int, n: int, k: int) -> Turn:
    a, b, c = (make(*s, dtype=dtype) for s in ((m, k), (k, n), (m, n)))
    return lambda: torch.mm(a, b, out=c)


def linear(dtype: torch.dtype, m: int, n: int, k: int) -> Turn:
    a, b, c = (make(*s, dtype=dtype) for s in ((m, k), (n, k), (m, n)))
    return lambda: torch.mm(a, b.t(), out=c)


def weight_grad(dtype: torch.dtype, m: int, n: int, k: int) -> Turn:
    a, b, c = (make(*s, dtype=dtype) for s in ((k, m), (k, n), (m, n)))
    return lambda: torch.mm(a.t(), b, out=c)


def linear_gelu(dtype: torch.dtype, m: int, n: int, k: int) -> Turn:
    a, b, bias = (make(*s, dtype=dtype) for s in ((m, k), (n, k), (n,)))
    return lambda: F.gelu(F.linear(a, b, bias))


def bmm(dtype: torch.dtype, batch: int, m: int, n: int, k: int) -> Turn:
    a, b = make(batch, m, k, dtype=dtype), make(batch, k, n, dtype=dtype)
    c = make(batch, m, n, dtype=dtype)
    return lambda: torch.bmm(a, b, out=c)


def attention(
    dtype: torch.dtype, batch: int, heads: int, queries: int, keys: int, width: int
) -> Turn:
    q = make(batch, heads, queries, width, dtype=dtype)
    k, v = (make(batch, heads, keys, width, dtype=dtype) for _ in range(2))
    return lambda: F.scaled_dot_product_attention(q, k, v)


PEERS: dict[str, Callable[..., Turn]] = {
    "small_add": small_add,
    "small_add_wait": small_add_wait,
    "copy": copy,
    "copy_transposed": copy_transposed,
    "copy_to_bfloat16": copy_to_bfloat16,
    "upload": upload,
    "download": download,
    "upload_pinned": upload_pinned,
    "download_pinned": download_pinned,
    "add": add,
    "add_row": add_row,
    "mul_scalar": unary(lambda x, out: torch.mul(x, 2.5, out=out)),
    "exp": unary(torch.exp),
    "gelu": unary(torch.ops.aten.gelu.out),
    "chain": chain,
    "sum_rows": of_rows(lambda x: x.sum(1)),
    "sum_columns": of_rows(lambda x: x.sum(0)),
    "sum_all": of_rows(torch.sum),
    "argmax_rows": of_rows(lambda x: x.argmax(1)),
    "softmax": of_rows(lambda x: x.softmax(1)),
    "log_softmax": of_rows(lambda x: x.log_softmax(1)),
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "mm": mm,
    "linear": linear,
    "weight_grad": weight_grad,
    "linear_gelu": linear_gelu,
    "bmm": bmm,
    "attention": attention,
}


def time_turns(turn: Turn, seconds: float) -> tuple[float, float]:
    """Median and least seconds of a turn, taken as tvarant-bench takes them."""

    def once(turns: int) -> float:
        start = time.perf_counter()
        for _ in range(turns):
            turn()
        synchronize()
        return time.perf_counter() - start

    once(1)
    wanted = max(seconds / 10, 1e-4)
    turns = 1
    while True:
        took = max(once(turns), 1e-7)
        if took >= wanted / 2 or turns == 2000:
            break
        turns = min(int(turns * min(max(wanted / took, 2), 10)), 2000)
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while len(samples) < 25:
        samples.append(once(turns) / turns)
        if time.perf_counter() >= end and len(samples) >= 2:
            break
    return statistics.median(samples), min(samples)


def answer(line: str) -> str:
    peer, dtype, seconds, *sizes = line.split()
    try:
        with torch.inference_mode():
            turn = PEERS[peer](getattr(torch, dtype), *map(int, sizes))
            median, least = time_turns(turn, float(seconds))
    except Exception as error:
        return f"error {type(error).__name__}: {error}".replace("\n", " ")
    finally:
        turn = None
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
    return f"ok {median:.9g} {least:.9g}"


def main() -> int:
    # Only answers may go where they are read.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if DEVICE == "cuda" and not torch.cuda.is_available():
        print("error this torch sees no CUDA device", file=answers, flush=True)
        return 1
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else DEVICE
    print(f"ok torch {torch.__version__}, {name}", file=answers, flush=True)
    for line in sys.stdin:
        print(answer(line), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
