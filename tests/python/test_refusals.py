"""Bad data: what the CPU refuses is refused with its exception, at the next read
at the latest; the process and the daemon go on.

Each case is an op on good shapes and types whose values alone are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from support import DEVICE
from torch.utils import _pytree as pytree

Call = Callable[[torch.device], object]

NAN, INF = float("nan"), float("inf")


def floats(device: torch.device, *values: object) -> torch.Tensor:
    return torch.tensor(values, device=device)


def ints(device: torch.device | str, *values: object) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64, device=device)


def ramp(device: torch.device, *shape: int) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return (torch.arange(1.0, count + 1, device=device) / (count + 1)).view(shape)


def probabilities(value: float) -> Iterator[tuple[str, Call]]:
    """Ops that take numbers between 0 and 1, or not below 0."""
    yield (
        "cross entropy of inputs",
        lambda d: F.binary_cross_entropy(floats(d, 0.5, value), floats(d, 1.0, 0.0)),
    )
    yield (
        "cross entropy of targets",
        lambda d: F.binary_cross_entropy(floats(d, 0.5, 0.2), floats(d, 1.0, value)),
    )
    yield (
        "cross entropy, none",
        lambda d: F.binary_cross_entropy(
            floats(d, 0.5, value), floats(d, 1.0, 0.0), reduction="none"
        ),
    )
    yield (
        "cross entropy, float64",
        lambda d: F.binary_cross_entropy(
            floats(d, 0.5, value).double(), floats(d, 1.0, 0.0).double()
        ),
    )
    yield "bernoulli", lambda d: torch.bernoulli(floats(d, 0.5, value))
    yield (
        "bernoulli_",
        lambda d: torch.zeros(2, device=d).bernoulli_(floats(d, 0.5, value)),
    )
    yield "bernoulli_ by number", lambda d: torch.zeros(2, device=d).bernoulli_(value)
    yield "multinomial", lambda d: torch.multinomial(floats(d, 0.5, value), 1)
    yield (
        "multinomial, replaced",
        lambda d: torch.multinomial(floats(d, 0.5, value), 3, replacement=True),
    )
    yield (
        "normal of tensors",
        lambda d: torch.normal(floats(d, 3.0, 3.0), floats(d, 0.5, value)),
    )
    yield "normal", lambda d: torch.normal(0.0, floats(d, 0.5, value))
    yield "histc", lambda d: torch.histc(floats(d, 0.5, value))
    yield "histc by range", lambda d: torch.histc(floats(d, 0.5, 1.0), max=value)
    yield "histogram", lambda d: torch.histogram(floats(d, 0.5, value), 3)
    yield (
        "histogram by range",
        lambda d: torch.histogram(floats(d, 0.5, 1.0), 3, range=(0.0, value)),
    )
    yield (
        "histogramdd",
        lambda d: torch.histogramdd(floats(d, [0.5, value], [1.0, 2.0]), 3),
    )
    yield (
        "quantile",
        lambda d: torch.quantile(floats(d, 0.5, 0.2), floats(d, 0.5, value)),
    )
    yield (
        "nanquantile",
        lambda d: torch.nanquantile(floats(d, 0.5, 0.2), floats(d, 0.5, value)),
    )
    yield (
        "cholesky",
        lambda d: torch.linalg.cholesky(floats(d, [value, 0.0], [0.0, 1.0])),
    )
    if value == value and value != INF:  # the CPU never ends on others
        yield "poisson", lambda d: torch.poisson(floats(d, 0.5, value))


def indices(i: int) -> Iterator[tuple[str, Call]]:
    """Ops that take numbers of rows, of which there are 2."""
    for name, function in {
        "nll_loss": lambda d: F.nll_loss(ramp(d, 2, 2), ints(d, 0, i)),
        "cross_entropy": lambda d: F.cross_entropy(ramp(d, 2, 2), ints(d, 0, i)),
        "cross_entropy, smoothed": lambda d: F.cross_entropy(
            ramp(d, 2, 2), ints(d, 0, i), label_smoothing=0.1
        ),
        "nll_loss of images": lambda d: F.nll_loss(
            ramp(d, 1, 2, 1, 2), ints(d, [[0, i]])
        ),
        "multi_margin_loss": lambda d: F.multi_margin_loss(
            ramp(d, 2, 2), ints(d, 0, i)
        ),
        "multilabel_margin_loss": lambda d: F.multilabel_margin_loss(
            ramp(d, 1, 2), ints(d, [0, i])
        ),
        "embedding": lambda d: F.embedding(ints(d, 0, i), ramp(d, 2, 2)),
        "embedding, renormed": lambda d: F.embedding(
            ints(d, 0, i), ramp(d, 2, 2), max_norm=0.1
        ),
        "embedding_bag": lambda d: F.embedding_bag(ints(d, [0, i]), ramp(d, 2, 2)),
        "embedding_bag, first offset": lambda d: F.embedding_bag(
            ints(d, 0, 1), ramp(d, 2, 2), ints(d, i)
        ),
        "gather": lambda d: ramp(d, 2, 2).gather(0, ints(d, [0, i])),
        "gather, expanded": lambda d: ramp(d, 2, 2).gather(
            0, ints(d, [0], [i]).expand(2, 2)
        ),
        "scatter of a number": lambda d: ramp(d, 2, 2).scatter(0, ints(d, [0, i]), 1.0),
        "scatter": lambda d: ramp(d, 2, 2).scatter(0, ints(d, [0, i]), ramp(d, 2, 2)),
        "scatter, expanded": lambda d: ramp(d, 2, 2).scatter(
            0, ints(d, [0], [i]).expand(2, 2), ramp(d, 2, 2)
        ),
        "scatter_add": lambda d: ramp(d, 2, 2).scatter_add(
            0, ints(d, [0, i]), ramp(d, 2, 2)
        ),
        "scatter_add, expanded": lambda d: ramp(d, 2, 2).scatter_add(
            0, ints(d, [0], [i]).expand(2, 2), ramp(d, 2, 2)
        ),
        "scatter_reduce": lambda d: ramp(d, 2, 2).scatter_reduce(
            0, ints(d, [0, i]), ramp(d, 2, 2), "amax"
        ),
        "index_select": lambda d: ramp(d, 2, 2).index_select(0, ints(d, 0, i)),
        "index_add": lambda d: ramp(d, 2, 2).index_add(0, ints(d, 0, i), ramp(d, 2, 2)),
        "index_add of a vector": lambda d: ramp(d, 2).index_add(
            0, ints(d, 0, i), ramp(d, 2)
        ),
        "index_copy": lambda d: ramp(d, 2, 2).index_copy(
            0, ints(d, 0, i), ramp(d, 2, 2)
        ),
        "index_fill": lambda d: ramp(d, 2, 2).index_fill(0, ints(d, 0, i), 1.0),
        "index_reduce": lambda d: ramp(d, 2, 2).index_reduce(
            0, ints(d, 0, i), ramp(d, 2, 2), "prod"
        ),
        "index": lambda d: ramp(d, 2, 2)[ints(d, 0, i)],
        "index of columns": lambda d: ramp(d, 2, 2)[:, ints(d, 0, i)],
        "index_put": lambda d: ramp(d, 2, 2).index_put((ints(d, 0, i),), ramp(d, 2)),
        "index_put, accumulated": lambda d: ramp(d, 2, 2).index_put(
            (ints(d, 0, i),), ramp(d, 2), accumulate=True
        ),
        "take": lambda d: torch.take(ramp(d, 1, 2), ints(d, 0, i)),
        "put": lambda d: ramp(d, 1, 2).put(ints(d, 0, i), ramp(d, 2)),
        "one_hot": lambda d: F.one_hot(ints(d, 0, i), 2),
        "max_unpool2d": lambda d: F.max_unpool2d(
            ramp(d, 1, 1, 1, 2), ints(d, [[[0, 4 * i]]]), 2
        ),
        "max_unpool3d": lambda d: F.max_unpool3d(
            ramp(d, 1, 1, 1, 1, 2), ints(d, [[[[0, 8 * i]]]]), 2
        ),
        "searchsorted by a sorter": lambda d: torch.searchsorted(
            floats(d, 1.0, 2.0), floats(d, 1.0), sorter=ints(d, 0, i)
        ),
    }.items():
        yield name, function
    if i >= 0:
        return
    for name, function in {
        "one_hot of all": lambda d: F.one_hot(ints(d, 0, i)),
        "repeat_interleave": lambda d: ramp(d, 2).repeat_interleave(ints(d, 0, i)),
        "repeat_interleave of counts": lambda d: torch.repeat_interleave(ints(d, 0, i)),
        "bincount": lambda d: torch.bincount(ints(d, 0, i)),
        "ctc_loss, steps": lambda d: F.ctc_loss(
            ramp(d, 5, 1, 3).log_softmax(-1),
            ints(d, [1, 2]),
            ints("cpu", i),
            ints("cpu", 2),
        ),
        "ctc_loss, letters": lambda d: F.ctc_loss(
            ramp(d, 5, 1, 3).log_softmax(-1),
            ints(d, [1, 2]),
            ints("cpu", 5),
            ints("cpu", i),
        ),
        "segment_reduce": lambda d: torch.segment_reduce(
            ramp(d, 3), "sum", lengths=ints(d, 1, i)
        ),
    }.items():
        yield name, function


def others() -> Iterator[tuple[str, Call]]:
    yield from {
        "multinomial of zeros": lambda d: torch.multinomial(
            torch.zeros(3, device=d), 1
        ),
        "division by 0": lambda d: ints(d, 1) // ints(d, 0),
        "remainder by 0": lambda d: ints(d, 1) % ints(d, 0),
        "fmod by 0": lambda d: torch.fmod(ints(d, 1), ints(d, 0)),
        "power": lambda d: ints(d, 2) ** -1,
        "masked_scatter": lambda d: torch.zeros(4, device=d).masked_scatter(
            ints(d, 1, 1, 1, 1).bool(), floats(d, 1.0)
        ),
        "segments too long": lambda d: torch.segment_reduce(
            ramp(d, 3), "sum", lengths=ints(d, 1, 5)
        ),
        "segments that fall": lambda d: torch.segment_reduce(
            ramp(d, 3), "sum", offsets=ints(d, 0, 3, 1)
        ),
        "inverse": lambda d: torch.linalg.inv(torch.zeros(2, 2, device=d)),
        "solve": lambda d: torch.linalg.solve(
            torch.zeros(2, 2, device=d), torch.ones(2, 1, device=d)
        ),
        "assert_async": lambda d: torch._assert_async(torch.zeros(1, device=d)),
        "histogram of no bins": lambda d: torch.histogram(ramp(d, 3), 0),
        "maximum of nothing": lambda d: torch.zeros(0, device=d).max(),
        "argmax of nothing": lambda d: torch.zeros(0, device=d).argmax(),
    }.items()


def all_cases() -> dict[str, Call]:
    cases = {}
    for value in (1.5, -0.5, NAN, INF):
        cases |= {f"{name}: {value}": call for name, call in probabilities(value)}
    for index in (5, 2, -1, -6):
        cases |= {f"{name}: {index}": call for name, call in indices(index)}
    return cases | dict(others())


def read(result: object) -> None:
    """Everything of a result in the host's memory."""
    for leaf in pytree.tree_leaves(result):
        if isinstance(leaf, torch.Tensor):
            leaf.cpu()
    torch.tvarant.synchronize()


def refusal(call: Call, device: torch.device) -> BaseException | None:
    try:
        read(call(device))
    except Exception as error:
        return error
    return None


CASES = all_cases()
CPU = torch.device("cpu")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", list(CASES))
def test_same_refusal(name: str):
    call = CASES[name]
    want = refusal(call, CPU)
    if want is None:
        pytest.skip("the CPU takes it")
    got = refusal(call, DEVICE)
    assert got is not None, f"the CPU raises {want!r}"
    assert type(got) is type(want), f"{got!r}, not {want!r}"
    # Raised once; what comes next is right.
    assert ramp(DEVICE, 3).add(1).sum().item() == pytest.approx(4.5)


def test_most_cases_are_refused():
    """The list is about refusals: few of its combinations are fine."""
    refused = sum(refusal(call, CPU) is not None for call in CASES.values())
    assert refused > 0.7 * len(CASES), f"{refused} of {len(CASES)}"


def test_names_the_op():
    with pytest.raises(
        RuntimeError, match="binary_cross_entropy: all elements of input"
    ):
        read(F.binary_cross_entropy(floats(DEVICE, 2.0), floats(DEVICE, 1.0)))


def test_good_data_is_taken():
    x = floats(DEVICE, 0.0, 1.0, 0.5)
    read(F.binary_cross_entropy(x, x))
    read(torch.bernoulli(x))
    read(torch.quantile(x, x))
    read(F.multilabel_margin_loss(ramp(DEVICE, 1, 3), ints(DEVICE, [0, 2, -1])))
    read(F.binary_cross_entropy(x[:0], x[:0], reduction="sum"))


def test_gradient_of_refused_is_refused():
    x = floats(DEVICE, 0.5, 2.0).requires_grad_()
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        F.binary_cross_entropy(x, floats(DEVICE, 1.0, 0.0)).backward()
        read(x.grad)
    x = floats(DEVICE, 0.5).requires_grad_()
    F.binary_cross_entropy(x, floats(DEVICE, 1.0)).backward()
    assert x.grad.item() == pytest.approx(-2.0)
