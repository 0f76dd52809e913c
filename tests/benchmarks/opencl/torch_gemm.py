"""What torch with CUDA reaches for the products of gemm_probe.cc."""

import time
from collections.abc import Callable

import torch
from torch.nn import functional


def best_seconds(call: Callable[[], object], budget: float = 0.3) -> float:
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    count = max(1, min(200, int(budget / 5 / (time.perf_counter() - start))))
    best = 1e30
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(count):
            call()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / count)
    return best


def report(name: str, dtype: torch.dtype, m: int, n: int, k: int) -> None:
    x = torch.randn(m, k, device="cuda", dtype=dtype) * 0.5
    w = torch.randn(k, n, device="cuda", dtype=dtype) * 0.5
    turned = w.t().contiguous()
    bias = torch.randn(n, device="cuda", dtype=dtype)
    a = x.t().contiguous()
    calls: dict[str, Callable[[], object]] = {
        "gelu(A @ B.T + b)": lambda: functional.gelu(
            functional.linear(x, turned, bias)
        ),
        "A @ B.T": lambda: functional.linear(x, turned),
        "gemv x @ W.T": lambda: functional.linear(x, turned),
        "A.T @ B": lambda: a.t() @ w,
    }
    call = calls.get(name, lambda: x @ w)
    best = best_seconds(call)
    size = torch.finfo(dtype).bits // 8
    moved = size * (m * k + k * n + m * n)
    print(
        f"torch {name:18} {str(dtype)[6:]:8} {m:5} {n:5} {k:5} {best * 1e6:9.1f} us"
        f" {2 * m * n * k / best / 1e12:7.1f} TFLOP/s {moved / best / 1e9:7.0f} GB/s",
        flush=True,
    )


def main() -> None:
    half, brain, single = torch.float16, torch.bfloat16, torch.float32
    for dtype in (brain, half):
        for n in (4096, 8192):
            for name in ("A @ B", "A @ B.T", "gelu(A @ B.T + b)"):
                report(name, dtype, n, n, n)
    report("A.T @ B", brain, 4096, 4096, 4096)
    report("A @ B", brain, 2048, 2048, 2048)
    report("A @ B.T", brain, 2048, 2048, 2048)
    report("A @ B", brain, 1024, 1024, 1024)
    report("A @ B.T", brain, 16, 4096, 4096)
    for n in (1024, 2048, 4096, 8192):
        report("A @ B", single, n, n, n)
        report("A @ B.T", single, n, n, n)
    report("gemv x @ W.T", brain, 1, 16384, 16384)
    report("gemv x @ W", brain, 1, 16384, 16384)
    report("gemv x @ W.T", brain, 1, 14336, 4096)
    report("gemv x @ W.T", brain, 1, 4096, 14336)
    report("gemv x @ W.T", single, 1, 8192, 8192)
    a = torch.empty(1 << 30, device="cuda", dtype=torch.uint8)
    b = torch.empty_like(a)
    rate = 2 * a.numel() / best_seconds(lambda: b.copy_(a)) / 1e9
    print(f"torch copy 1 GiB {rate:.0f} GB/s")


if __name__ == "__main__":
    main()
