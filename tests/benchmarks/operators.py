"""Speed of operators and training steps against torch on the CPU, as a page.

Writes docs/benchmarks.md and docs/benchmarks.svg: medians, and how many times as
fast as the CPU's each is, measured in turns in the same run. The plot needs
matplotlib.

    python tests/benchmarks/operators.py                # everything, writes both
    python tests/benchmarks/operators.py --only softmax # prints, writes nothing
    python tests/benchmarks/operators.py --quick        # few repetitions
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import bench
import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

DOCS = Path(__file__).resolve().parents[2] / "docs"

# A function of tensors, and the CPU tensors that it is called with.
Work = tuple[Callable[..., object], tuple[torch.Tensor, ...]]


@dataclass(frozen=True)
class Case:
    """One line: `goal` is the least speed, as a multiple of the CPU's."""

    family: str
    name: str
    make: Callable[[], Work]
    goal: float
    calls: int = 1  # per measurement


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def pointwise() -> Iterator[Case]:
    x, y = normal(4096, 4096), normal(4096, 4096)
    out_of = {
        "add": lambda a, b, out: torch.add(a, b, out=out),
        "mul by scalar": lambda a, b, out: torch.mul(a, 2.5, out=out),
        "exp": lambda a, b, out: torch.exp(a, out=out),
        "tanh": lambda a, b, out: torch.tanh(a, out=out),
        "gelu": lambda a, b, out: torch.ops.aten.gelu.out(a, out=out),
        "where": lambda a, b, out: torch.where(a > 0, a, b, out=out),
    }
    for name, function in out_of.items():

        def make(function: Callable = function) -> Work:
            return function, (x, y, torch.empty_like(x))

        yield Case("pointwise", f"{name}, 16 M, out=", make, 0.9)
    yield Case(
        "pointwise", "add with broadcasting", lambda: (torch.add, (x, y[:1])), 0.9
    )
    half = x.bfloat16()
    yield Case("pointwise", "add, bfloat16", lambda: (torch.add, (half, half)), 0.9)


def reductions() -> Iterator[Case]:
    x = normal(4096, 4096)
    for name, function in {
        "sum of all": lambda a: a.sum(),
        "sum of rows": lambda a: a.sum(1),
        "sum of columns": lambda a: a.sum(0),
        "mean of rows": lambda a: a.mean(1),
        "max with indices": lambda a: a.max(1),
        "argmax": lambda a: a.argmax(1),
        "var of rows": lambda a: a.var(1),
        "norm": lambda a: a.norm(),
        "cumsum": lambda a: a.cumsum(1),
    }.items():
        yield Case("reductions", name, lambda function=function: (function, (x,)), 0.9)


def rows() -> Iterator[Case]:
    x = normal(4096, 4096)
    weight, bias = normal(4096), normal(4096)
    logits, target = normal(4096, 1000), torch.arange(4096) % 1000
    yield Case("softmax, norms", "softmax", lambda: (lambda a: a.softmax(1), (x,)), 0.9)
    yield Case(
        "softmax, norms",
        "log_softmax of columns",
        lambda: (lambda a: a.log_softmax(0), (x,)),
        0.9,
    )
    yield Case(
        "softmax, norms",
        "layer_norm",
        lambda: (lambda a, w, b: F.layer_norm(a, (4096,), w, b), (x, weight, bias)),
        0.9,
    )
    yield Case(
        "softmax, norms",
        "rms_norm",
        lambda: (lambda a, w: F.rms_norm(a, (4096,), w), (x, weight)),
        0.9,
    )
    yield Case(
        "softmax, norms",
        "cross_entropy",
        lambda: (F.cross_entropy, (logits, target)),
        0.9,
    )
    image = normal(16, 64, 56, 56)
    scale = torch.rand(64)
    yield Case(
        "softmax, norms",
        "batch_norm, training",
        lambda: (
            lambda a, s: F.batch_norm(a, None, None, s, s, training=True),
            (image, scale),
        ),
        0.9,
    )


def indexing() -> Iterator[Case]:
    table = normal(50_000, 256)
    index = torch.randint(0, 50_000, (16_384,), generator=torch.Generator())
    x = normal(4096, 4096)
    columns = (torch.arange(4096 * 4096).reshape(4096, 4096) * 7) % 4096
    yield Case("indexing", "embedding", lambda: (F.embedding, (index, table)), 0.9)
    yield Case(
        "indexing", "index_select", lambda: (lambda t, i: t[i], (table, index)), 0.9
    )
    yield Case(
        "indexing", "gather", lambda: (lambda a, i: a.gather(1, i), (x, columns)), 0.9
    )
    yield Case(
        "indexing",
        "masked_fill",
        lambda: (lambda a, m: a.masked_fill(m, 0.0), (x, x > 0)),
        0.9,
    )
    yield Case("indexing", "cat", lambda: (lambda a: torch.cat([a, a], 1), (x,)), 0.9)
    yield Case("indexing", "sort", lambda: (lambda a: a.sort(1), (x[:512],)), 0.9)
    yield Case("indexing", "topk 50", lambda: (lambda a: a.topk(50), (x[:512],)), 0.9)


def copies() -> Iterator[Case]:
    x = normal(4096, 4096)
    image = normal(16, 64, 56, 56)
    yield Case(
        "copies", "transposed", lambda: (lambda a: a.t().contiguous(), (x,)), 2.0
    )
    yield Case(
        "copies", "every second", lambda: (lambda a: a[:, ::2].contiguous(), (x,)), 2.0
    )
    yield Case(
        "copies",
        "to channels last",
        lambda: (
            lambda a: a.contiguous(memory_format=torch.channels_last),
            (image,),
        ),
        2.0,
    )
    yield Case("copies", "to bfloat16", lambda: (lambda a: a.bfloat16(), (x,)), 0.9)


def products() -> Iterator[Case]:
    for size in (512, 1024, 2048):
        a = normal(size, size)
        yield Case("products", f"mm {size}", lambda a=a: (torch.mm, (a, a)), 0.95)
    a, b = normal(64, 512, 64), normal(64, 64, 512)
    yield Case("products", "bmm 64 x 512 x 64 x 512", lambda: (torch.bmm, (a, b)), 0.95)
    x, w, bias = normal(2048, 1024), normal(4096, 1024), normal(4096)
    yield Case("products", "linear", lambda: (F.linear, (x, w, bias)), 0.95)
    v = normal(4096, 4096)
    yield Case("products", "mv 4096", lambda: (torch.mv, (v, v[0])), 0.9)
    half = normal(1024, 1024, dtype=torch.bfloat16)
    yield Case("products", "mm 1024, bfloat16", lambda: (torch.mm, (half, half)), 0.6)


def convolutions() -> Iterator[Case]:
    for name, shape, weight, options in (
        ("3x3, 64 to 64, 56", (8, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
        (
            "3x3 stride 2, 128 to 256, 28",
            (8, 128, 28, 28),
            (256, 128, 3, 3),
            {"padding": 1, "stride": 2},
        ),
        ("1x1, 256 to 64, 56", (8, 256, 56, 56), (64, 256, 1, 1), {}),
        ("7x7 stride 2, 3 to 64", (8, 3, 224, 224), (64, 3, 7, 7), {"stride": 2}),
        (
            "depthwise 3x3, 96",
            (8, 96, 56, 56),
            (96, 1, 3, 3),
            {"padding": 1, "groups": 96},
        ),
    ):

        def make(shape=shape, weight=weight, options=options) -> Work:
            return (
                lambda a, w: F.conv2d(a, w, **options),
                (normal(*shape), normal(*weight)),
            )

        yield Case("convolution", name, make, 0.95)
    image = normal(16, 64, 112, 112)
    yield Case(
        "convolution",
        "max_pool2d 3x3",
        lambda: (lambda a: F.max_pool2d(a, 3, 2, 1), (image,)),
        0.9,
    )
    yield Case(
        "convolution",
        "adaptive_avg_pool2d",
        lambda: (lambda a: F.adaptive_avg_pool2d(a, 1), (image,)),
        0.9,
    )


def attention() -> Iterator[Case]:
    q = normal(4, 12, 512, 64)
    yield Case(
        "attention",
        "4 x 12 x 512 x 64",
        lambda: (F.scaled_dot_product_attention, (q, q, q)),
        0.9,
    )
    yield Case(
        "attention",
        "the same, causal",
        lambda: (
            lambda a: F.scaled_dot_product_attention(a, a, a, is_causal=True),
            (q,),
        ),
        0.9,
    )


def small() -> Iterator[Case]:
    """Throughput of small calls: 2000 of them, then one wait."""
    x, y = normal(16), normal(16)
    a = normal(8, 8)
    for name, function, args, goal in (
        ("add of 16", torch.add, (x, y), 0.5),
        ("exp of 16", torch.exp, (x,), 0.5),
        ("sum of 16", torch.sum, (x,), 0.4),
        ("mm of 8 x 8", torch.mm, (a, a), 0.4),
    ):
        yield Case(
            "small calls",
            name,
            lambda function=function, args=args: (function, args),
            goal,
            calls=2000,
        )


FAMILIES = (
    pointwise,
    reductions,
    rows,
    indexing,
    copies,
    products,
    convolutions,
    attention,
    small,
)


@dataclass(frozen=True)
class Result:
    family: str
    name: str
    ours: float  # seconds
    theirs: float
    goal: float

    @property
    def speed(self) -> float:
        return self.theirs / self.ours


def measure(case: Case) -> Result:
    function, args = case.make()
    on_device = tuple(x.to("tvarant") for x in args)

    def repeated(args: tuple, wait: bool) -> Callable[[], None]:
        def run() -> None:
            for _ in range(case.calls):
                function(*args)
            if wait:
                bench.sync()

        return run

    with torch.no_grad():
        ours, theirs = bench.paired(
            repeated(on_device, True), repeated(args, False), 11
        )
    return Result(
        case.family, case.name, ours / case.calls, theirs / case.calls, case.goal
    )


# --- training steps ----------------------------------------------------------


class Residual(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, outside, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(),
            nn.Conv2d(outside, outside, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outside),
        )
        self.skip = (
            nn.Identity()
            if inside == outside
            else nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False),
                nn.BatchNorm2d(outside),
            )
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.skip(x))


def resnet() -> nn.Module:
    blocks: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    inside = 64
    for outside in (64, 128, 256, 512):
        blocks += [
            Residual(inside, outside, 1 if inside == outside else 2),
            Residual(outside, outside, 1),
        ]
        inside = outside
    return nn.Sequential(
        *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)
    )


class Gpt(nn.Module):
    """Four layers, as in GPT-2."""

    def __init__(self, width: int = 256, vocabulary: int = 1000) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(128, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width,
                8,
                4 * width,
                dropout=0.0,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            for _ in range(4)
        )
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        x = self.tokens(tokens) + self.places.weight[:length]
        mask = nn.Transformer.generate_square_subsequent_mask(
            length, device=tokens.device
        )
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        return self.head(x)


def training_steps() -> Iterator[tuple[str, nn.Module, torch.Tensor, torch.Tensor]]:
    yield (
        "ResNet-18-like, batch 8, 64 x 64",
        resnet(),
        normal(8, 3, 64, 64),
        torch.arange(8),
    )
    tokens = torch.randint(0, 1000, (8, 128), generator=torch.Generator())
    yield "GPT of 4 layers, batch 8, 128 tokens", Gpt(), tokens, tokens


def measure_training(
    name: str, model: nn.Module, x: torch.Tensor, y: torch.Tensor
) -> Result:
    def step_on(device: str) -> Callable[[], None]:
        net = copy.deepcopy(model).to(device)
        optimizer = torch.optim.AdamW(net.parameters())
        data, target = x.to(device), y.to(device)

        def step() -> None:
            optimizer.zero_grad()
            logits = net(data)
            loss = F.cross_entropy(logits.flatten(0, -2), target.flatten())
            loss.backward()
            optimizer.step()
            loss.item()

        return step

    ours, theirs = bench.paired(step_on("tvarant"), step_on("cpu"), 7)
    return Result("training step", name, ours, theirs, 0.8)


# --- the page ----------------------------------------------------------------


def duration(seconds: float) -> str:
    return bench.micro(seconds) if seconds < 1e-4 else bench.milli(seconds)


def table(results: list[Result]) -> str:
    lines = [
        "| family | what | tvarant | torch CPU | speed | goal | met |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in results:
        lines.append(
            f"| {r.family} | {r.name} | {duration(r.ours)} | {duration(r.theirs)} "
            f"| {r.speed:.2f} | >= {r.goal} | {'yes' if r.speed >= r.goal else 'no'} |"
        )
    return "\n".join(lines)


def machine() -> str:
    properties = torch.tvarant.get_device_properties()
    return (
        f"{properties.name}, {properties.instruction_set}, "
        f"{torch.get_num_threads()} threads, torch {torch.__version__}"
    )


def plot(results: list[Result], path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 0.2 * len(results) + 1))
    places = range(len(results))
    axes.barh(
        places,
        [r.speed for r in results],
        color=["#4477aa" if r.speed >= r.goal else "#cc6677" for r in results],
    )
    axes.set_yticks(places, [f"{r.name}" for r in results], fontsize=7)
    axes.invert_yaxis()
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("times as fast as torch on the CPU (red: below the goal)")
    figure.tight_layout()
    figure.savefig(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="families or names with this text")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    bench.QUICK = options.quick
    torch.manual_seed(0)
    cases = [
        case
        for family in FAMILIES
        for case in family()
        if options.only in f"{case.family} {case.name}"
    ]
    steps = [s for s in training_steps() if options.only in f"training step {s[0]}"]
    torch.tvarant.reset_fallback_stats()
    results = []
    with tqdm(total=len(cases) + len(steps), disable=None) as progress:
        for case in cases:
            progress.set_postfix_str(case.name)
            results.append(measure(case))
            progress.update()
        for step in steps:
            progress.set_postfix_str(step[0])
            results.append(measure_training(*step))
            progress.update()
    print(machine())
    print(table(results))
    fallbacks = torch.tvarant.fallback_stats()
    if fallbacks:
        print("ran on the CPU:", fallbacks)
    if not options.only and not options.quick:
        plot(results, DOCS / "benchmarks.svg")
        (DOCS / "benchmarks.md").write_text(
            "# Benchmarks\n\n"
            "Medians against torch on the CPU, measured in turns by\n"
            "`python tests/benchmarks/operators.py`, which writes this page. "
            "*speed* is how many\ntimes as fast as the CPU's the device is.\n\n"
            f"{machine()}\n\n{table(results)}\n\n![speed](benchmarks.svg)\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
