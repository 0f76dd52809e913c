"""Indexing by tensors and masks, scatter and its kin, bags of embeddings."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from support import (
    DEVICE,
    DTYPES,
    FLOATS,
    REAL,
    Grid,
    assert_same,
    compare,
    compare_gradients,
    layouts,
    make,
    mirror,
    raises,
)

pytestmark = pytest.mark.usefixtures("no_fallback")

I = torch.tensor  # noqa: E741

KINDS = {
    "one": (I([2, 0, -1, 1]),),
    "matrix": (I([[2, 0], [-3, 1]]),),
    "two": (I([0, 2, -1]), I([3, -4, 1])),
    "three": (I([0, 2]), I([3, 1]), I([4, -5])),
    "broadcast": (I([[0], [2]]), I([1, 3, 0])),
    "gap before": (slice(None), I([3, 0])),
    "gap between": (I([0, 2]), slice(None), I([4, 1])),
    "gap, matrix": (slice(None), I([[0], [2]]), I([4, 1])),
    "all after": (slice(None), slice(None), I([4, 1])),
    "int32": (I([2, 0], dtype=torch.int32), I([1, 1])),
    "mask": (make(3, 4, 5) > 0,),
    "mask of a row": (I([True, False, True]),),
    "mask and index": (I([True, False, True]), I([1, 2])),
    "gap, mask": (slice(None), make(4, 5) > 0),
    "none true": (torch.zeros(3, 4, dtype=torch.bool),),
    "empty": (torch.zeros(0, dtype=torch.long),),
    "with slices": (I([0, 1]), slice(1, 3), slice(None, None, 2)),
    "with numbers": (1, I([0, 2])),
    "with None": (None, I([0, 2]), None),
    "ellipsis": (..., I([0, 2])),
    "transposed": (I([[0, 1], [2, 0], [1, 1]]).t(),),
    "scalar": (I(1),),
}


def whole(x: torch.Tensor) -> torch.Tensor:
    return x.round() if x.dtype.is_floating_point else x


def moved(index):
    return tuple(mirror(i) if isinstance(i, torch.Tensor) else i for i in index)


class TestIndex:
    def test_kinds_dtypes_layouts(self):
        with Grid() as grid:
            for dtype in DTYPES:
                for layout, x in layouts(make(3, 4, 5, dtype=dtype)).items():
                    for name, index in KINDS.items():
                        with grid.case(dtype, layout, name):
                            assert_same(mirror(x)[moved(index)], x[index])

    def test_complex_and_host_indices(self):
        x = make(3, 4, dtype=torch.complex64)
        index = I([2, -1, 0])
        assert_same(mirror(x)[mirror(index)], x[index])
        assert_same(mirror(x)[index], x[index])
        mask = x.real > 0
        assert_same(mirror(x)[mask], x[mask])

    def test_out_and_empty(self):
        x = make(4, 3)
        out = torch.empty(0, device=DEVICE)
        index = I([3, 1])
        torch.ops.aten.index.Tensor_out(mirror(x), [mirror(index)], out=out)
        assert_same(out, x[index])
        empty = torch.empty(0, 3)
        none = torch.zeros(0, dtype=torch.long)
        assert_same(mirror(empty)[mirror(none)], empty[none])
        with pytest.raises(IndexError, match="size 0"):
            mirror(empty)[mirror(index)]

    def test_large(self):
        x = make(500, 300)
        rows, columns = torch.randint(-500, 500, (40000,)), torch.randint(300, (40000,))
        compare(lambda t, r, c: t[r, c], x, rows, columns)
        compare(lambda t, r: t[:, r], x, columns)
        compare(lambda t, r: t[r], x, rows)
        compare(lambda t: t[t > 0], x)

    def test_unsafe_and_gradients(self):
        compare(
            lambda t, i: torch.ops.aten._unsafe_index(t, [None, i]),
            make(3, 4),
            I([1, 0]),
        )
        with Grid() as grid:
            for name, index in KINDS.items():
                with grid.case(name):
                    parts = [i for i in index if isinstance(i, torch.Tensor)]

                    def pick(x, *tensors, index=index):
                        left = list(tensors)
                        return x[
                            tuple(
                                left.pop(0) if isinstance(i, torch.Tensor) else i
                                for i in index
                            )
                        ]

                    compare_gradients(pick, make(3, 4, 5), *parts)

    def test_errors(self):
        x = torch.ones(4, 3, device=DEVICE)
        raises(lambda: x[I([0, 4]).to(DEVICE)])
        raises(lambda: x[I([0, -5]).to(DEVICE)])
        raises(lambda: x[I([0, 1]).to(DEVICE), I([0, 3]).to(DEVICE)])
        with pytest.raises(IndexError, match="could not be broadcast"):
            x[I([0, 1]).to(DEVICE), I([0, 1, 2]).to(DEVICE)]
        with pytest.raises(IndexError, match="mask"):
            x[torch.ones(3, dtype=torch.bool, device=DEVICE)]
        with pytest.raises(IndexError, match="too many indices"):
            x[I([0]), I([0]), I([0])]
        with pytest.raises(IndexError, match="must be long"):
            x[torch.ones(2, device=DEVICE)]


class TestIndexPut:
    def test_kinds_dtypes_layouts(self):
        with Grid() as grid:
            for dtype in DTYPES:
                for layout, x in layouts(make(3, 4, 5, dtype=dtype)).items():
                    for name, index in KINDS.items():
                        values = make(*x[index].shape, dtype=dtype, seed=3)
                        with grid.case(dtype, layout, name):
                            theirs, ours = x.clone(), mirror(x).clone()
                            theirs[index] = values
                            ours[moved(index)] = mirror(values)
                            assert_same(ours, theirs)

    def test_accumulate(self):
        with Grid() as grid:
            for dtype in DTYPES:
                for shape in ((4,), (4, 3), (200, 300)):
                    x = make(*shape, dtype=dtype, low=0, high=2)
                    index = torch.randint(-4, 4, (17,))
                    values = make(17, *shape[1:], dtype=dtype, low=0, high=2)
                    with grid.case(dtype, shape):
                        compare(
                            lambda t, i, v: t.index_put_((i,), v, accumulate=True),
                            x,
                            index,
                            values,
                        )
        x, i = torch.zeros(100), torch.randint(100, (50000,))
        compare(
            lambda t, i, v: t.index_put((i,), v, accumulate=True),
            x,
            i,
            torch.ones(50000),
        )

    def test_values_broadcast(self):
        indices = (
            (I([0, 2]),),
            (make(3, 4, 5) > 0,),
            (make(3, 4, 5) > 9,),
            (slice(None), slice(None), I([1, 3])),
        )
        with Grid() as grid:
            for value in (5, 2.5, I(7.0), make(5), make(1, 5), make(4, 1), make(1)):
                for index in indices:
                    theirs, ours = make(3, 4, 5), mirror(make(3, 4, 5))
                    if isinstance(value, torch.Tensor) and value.dim():
                        moved_value = mirror(value)
                    else:
                        moved_value = value
                    with grid.case(value, index):
                        try:
                            theirs[index] = value
                        except (RuntimeError, IndexError) as error:
                            with pytest.raises(type(error)):
                                ours[moved(index)] = moved_value
                            continue
                        ours[moved(index)] = moved_value
                        assert_same(ours, theirs)

    def test_last_of_equal_places_wins(self):
        x = torch.zeros(10, device=DEVICE)
        index = torch.arange(50000, device=DEVICE) % 10
        x[index] = torch.arange(50000.0, device=DEVICE)
        assert x.tolist() == list(map(float, range(49990, 50000)))

    def test_gradients(self):
        compare_gradients(
            lambda x, v, i: x.clone().index_put((i,), v),
            make(4, 3),
            make(2, 3),
            I([1, 3]),
        )
        compare_gradients(
            lambda x, v, i: x.clone().index_put((i,), v, accumulate=True),
            make(4, 3),
            make(3, 3),
            I([1, 3, 1]),
        )

    def test_errors(self):
        x = torch.ones(4, 3, device=DEVICE)
        index = I([0, 1]).to(DEVICE)
        with pytest.raises(RuntimeError, match="dtypes match"):
            x.index_put_((index,), torch.ones(2, 3, dtype=torch.float64, device=DEVICE))
        with pytest.raises(RuntimeError, match="shape mismatch"):
            x.index_put_((index,), torch.ones(5, 3, device=DEVICE))

        def put_bad():
            x[I([0, 9]).to(DEVICE)] = 1.0

        raises(put_bad)
        with pytest.raises(RuntimeError):
            x[index] = torch.ones(2, 3)


class TestMasks:
    def test_nonzero(self):
        with Grid() as grid:
            for dtype in DTYPES:
                for shape in ((), (0,), (7,), (3, 4), (2, 3, 4), (0, 3), (40000,)):
                    x = whole(make(*shape, dtype=dtype, low=-1, high=1))
                    for layout, value in layouts(x).items():
                        with grid.case(dtype, shape, layout):
                            compare(torch.nonzero, value)
                            compare(torch.argwhere, value)
                            compare(torch.count_nonzero, value)
                            compare(
                                lambda t: torch.nonzero_static(
                                    t, size=5, fill_value=-2
                                ),
                                value,
                            )
        compare(lambda t: t.nonzero(as_tuple=True), make(3, 4) > 0)
        compare(torch.nonzero, I([float("nan"), -0.0, 0.0, 1e-45]))
        out = torch.empty(0, dtype=torch.long, device=DEVICE)
        torch.nonzero(mirror(make(3, 4) > 0), out=out)
        assert_same(out, torch.nonzero(make(3, 4) > 0))

    def test_masked_select(self):
        with Grid() as grid:
            for dtype in DTYPES:
                for layout, x in layouts(make(3, 4, 5, dtype=dtype)).items():
                    for name, mask in {
                        "whole": make(3, 4, 5) > 0,
                        "row": make(5) > 0,
                        "column": make(4, 1) > 0,
                        "wider": make(2, 1, 1, 5) > 0,
                        "scalar": I(True),
                        "nothing": make(3, 4, 5) > 9,
                    }.items():
                        with grid.case(dtype, layout, name):
                            compare(torch.masked_select, x, mask)
        compare(torch.masked_select, make(300, 400), make(300, 400, seed=5) > 0)
        compare_gradients(torch.masked_select, make(3, 4), make(3, 4, seed=5) > 0)

    def test_masked_scatter(self):
        with Grid() as grid:
            for dtype in DTYPES:
                for layout, x in layouts(make(3, 4, 5, dtype=dtype)).items():
                    for name, mask in {
                        "whole": make(3, 4, 5) > 0,
                        "row": make(5) > 0,
                        "nothing": make(3, 4, 5) > 9,
                    }.items():
                        with grid.case(dtype, layout, name):
                            source = make(70, dtype=dtype, seed=4)
                            compare(torch.masked_scatter, x, mask, source)
                            compare(
                                lambda t, m, s: t.masked_scatter_(m, s),
                                x.clone(),
                                mask,
                                source,
                            )
        compare_gradients(
            torch.masked_scatter, make(3, 4), make(3, 4, seed=5) > 0, make(12)
        )
        raises(
            lambda: torch.ones(5, device=DEVICE).masked_scatter_(
                torch.ones(5, dtype=torch.bool, device=DEVICE),
                torch.ones(3, device=DEVICE),
            )
        )
        with pytest.raises(RuntimeError, match="same dtypes"):
            torch.ones(5, device=DEVICE).masked_scatter_(
                torch.ones(5, dtype=torch.bool, device=DEVICE),
                torch.ones(5, dtype=torch.long, device=DEVICE),
            )


class TestScatter:
    def test_src_and_value(self):
        with Grid() as grid:
            for dtype in DTYPES:
                for layout, x in layouts(make(3, 4, 5, dtype=dtype)).items():
                    for dim in range(3):
                        # No place twice: what wins is not defined.
                        index = torch.stack(
                            [torch.randperm(x.shape[dim])[:2] for _ in range(6)]
                        )
                        index = index.t().reshape(2, 2, 3).transpose(0, dim)
                        index = index[:3, :4, :5].contiguous()
                        source = make(3, 4, 5, dtype=dtype, seed=1)
                        with grid.case(dtype, layout, dim):
                            compare(
                                lambda t, i, s, d=dim: t.scatter(d, i, s),
                                x,
                                index,
                                source,
                            )
                            compare(lambda t, i, d=dim: t.scatter(d, i, 2), x, index)
        compare_gradients(
            lambda t, i, s: t.scatter(1, i, s),
            make(3, 4),
            I([[0, 2], [1, 3]]),
            make(2, 2),
        )
        compare(lambda t, i: t.scatter_(0, i, 3.5), make(5), I([1, 3]))
        compare(lambda t, i: t.scatter(0, i, 1), make(), I(0))

    @pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
    def test_scatter_reduce(self, reduce):
        index = I([[0, 0, 2, 1], [1, 1, 1, 3], [0, 3, 3, 2]])
        with Grid() as grid:
            for dtype in DTYPES:
                if dtype == torch.bool and reduce == "mean":
                    continue
                for include in (True, False):
                    for dim in (0, 1):
                        i = index.clamp_max(2) if dim == 0 else index
                        with grid.case(dtype, include, dim):
                            compare(
                                lambda t, i, s, d=dim, inc=include: t.scatter_reduce(
                                    d, i, s, reduce, include_self=inc
                                ),
                                make(3, 4, dtype=dtype),
                                i,
                                make(3, 5, dtype=dtype, seed=2),
                            )
        compare_gradients(
            lambda t, i, s: t.scatter_reduce(1, i, s, reduce),
            make(3, 4),
            index,
            make(3, 4, seed=2),
        )

    def test_old_reductions(self):
        index = I([[0, 0, 2], [1, 1, 1]])
        for reduce in ("add", "multiply"):
            compare(
                lambda t, i, s, r=reduce: t.scatter(1, i, s, reduce=r),
                make(2, 4),
                index,
                make(2, 3),
            )
            compare(
                lambda t, i, r=reduce: t.scatter(1, i, 3, reduce=r), make(2, 4), index
            )

    def test_scatter_add(self):
        with Grid() as grid:
            for dtype in DTYPES:
                with grid.case(dtype):
                    compare(
                        lambda t, i, s: t.scatter_add(0, i, s),
                        make(7, dtype=dtype),
                        torch.randint(7, (5000,)),
                        whole(make(5000, dtype=dtype, low=0, high=1)),
                    )
        compare_gradients(
            lambda t, i: t.gather(1, i), make(3, 4), I([[0, 0], [1, 3], [2, 2]])
        )

    def test_bad_index(self):
        x, i = torch.ones(4, device=DEVICE), I([0, 4]).to(DEVICE)
        raises(lambda: x.scatter(0, i, torch.ones(2, device=DEVICE)))
        raises(lambda: x.scatter_reduce(0, i, torch.ones(2, device=DEVICE), "prod"))
        raises(lambda: x.index_copy(0, i, torch.ones(2, device=DEVICE)))
        raises(lambda: x.index_copy(0, -i, torch.ones(2, device=DEVICE)))
        raises(lambda: x.index_fill(0, i, 1))
        raises(lambda: x.take(i))
        raises(lambda: x.put_(i, torch.ones(2, device=DEVICE)))
        with pytest.raises(RuntimeError, match="dtype"):
            x.scatter(0, i, torch.ones(2, dtype=torch.long, device=DEVICE))


class TestIndexAlong:
    def test_copy_fill_add(self):
        index = I([2, 0])
        with Grid() as grid:
            for dtype in DTYPES:
                for layout, x in layouts(make(3, 4, 5, dtype=dtype)).items():
                    for dim in range(3):
                        source = make(3, 4, 5, dtype=dtype, seed=1).narrow(dim, 0, 2)
                        with grid.case(dtype, layout, dim):
                            compare(
                                lambda t, i, s, d=dim: t.index_copy(d, i, s),
                                x,
                                index,
                                source,
                            )
                            compare(
                                lambda t, i, d=dim: t.index_fill(d, -i, 1), x, index
                            )
                            compare(
                                lambda t, i, d=dim: t.index_fill_(
                                    d, i, torch.tensor(0)
                                ),
                                x.clone(),
                                index,
                            )
                            compare(
                                lambda t, i, s, d=dim: t.index_add(d, i, s),
                                x,
                                index,
                                source,
                            )
        compare(
            lambda t, i, s: t.index_add(0, i, s, alpha=2), make(3, 4), index, make(2, 4)
        )
        compare(lambda t, i: t.index_fill(0, i, 3), make(), I([0]))
        compare_gradients(
            lambda t, i, s: t.index_copy(0, i, s), make(3, 4), index, make(2, 4)
        )
        compare_gradients(
            lambda t, i, s: t.index_add(0, i, s, alpha=0.5),
            make(3, 4),
            index,
            make(2, 4),
        )
        compare_gradients(lambda t, i: t.index_fill(1, i, 3), make(3, 4), index)

    @pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
    def test_index_reduce(self, reduce):
        index = I([0, 2, 0, 0])
        with Grid() as grid:
            for dtype in REAL:
                for include in (True, False):
                    with grid.case(dtype, include):
                        compare(
                            lambda t, i, s, inc=include: t.index_reduce(
                                0, i, s, reduce, include_self=inc
                            ),
                            make(3, 5, dtype=dtype),
                            index,
                            make(4, 5, dtype=dtype, seed=2),
                        )

    def test_take_and_put(self):
        index = I([[0, -1], [7, 3]])
        with Grid() as grid:
            for dtype in DTYPES:
                for layout, x in layouts(make(3, 4, dtype=dtype)).items():
                    with grid.case(dtype, layout):
                        compare(torch.take, x, index)
                        source = make(2, 2, dtype=dtype, seed=1)
                        compare(lambda t, i, s: t.put_(i, s), x.clone(), index, source)
                        compare(
                            lambda t, i, s: t.put(i, s, accumulate=True),
                            x,
                            index,
                            source,
                        )
        compare_gradients(torch.take, make(3, 4), index)
        compare_gradients(lambda t, i, s: t.put(i, s), make(3, 4), index, make(2, 2))
        compare(lambda t, i: t.take_along_dim(i, 1), make(3, 4), make(3, 4).argsort(1))


class TestBags:
    @pytest.mark.parametrize("mode", ["sum", "mean", "max"])
    def test_modes(self, mode):
        index = I([1, 2, 4, 5, 4, 3, 2, 9])
        offsets = I([0, 4, 4, 6])
        with Grid() as grid:
            for dtype in FLOATS:
                weight = make(10, 3, dtype=dtype)
                for options in (
                    {},
                    {"padding_idx": 4},
                    {"padding_idx": -6},
                ):
                    with grid.case(dtype, options):
                        compare_gradients(
                            lambda w, i, o, k=options: F.embedding_bag(
                                i, w, o, mode=mode, **k
                            ),
                            weight,
                            index,
                            offsets,
                            rtol=2e-2 if dtype.itemsize == 2 else 1e-5,
                            atol=2e-2 if dtype.itemsize == 2 else 1e-5,
                        )
        compare_gradients(
            lambda w, i: F.embedding_bag(i, w, mode=mode), make(10, 3), index.view(2, 4)
        )
        compare(
            lambda w, i, o: F.embedding_bag(
                i, w, o, mode=mode, include_last_offset=True
            ),
            make(10, 3),
            index.int(),
            I([0, 4, 4, 6, 8]).int(),
        )

    def test_gradients_by_frequency(self):
        # PyTorch's CPU looks up the frequency of another row.
        index = I([1, 2, 4, 1, 4, 1]).to(DEVICE)
        weight = torch.ones(5, 2, device=DEVICE, requires_grad=True)
        F.embedding_bag(
            index, weight, I([0, 3]).to(DEVICE), mode="sum", scale_grad_by_freq=True
        ).sum().backward()
        assert weight.grad[:, 0].tolist() == [0, 1, 1, 0, 1]

    def test_weights_per_sample(self):
        for padding in (None, 4):
            compare_gradients(
                lambda w, s, i, o, p=padding: F.embedding_bag(
                    i, w, o, mode="sum", per_sample_weights=s, padding_idx=p
                ),
                make(10, 3),
                make(8),
                I([1, 2, 4, 5, 4, 3, 2, 9]),
                I([0, 4, 4, 6]),
            )

    def test_errors(self):
        weight = torch.ones(4, 3, device=DEVICE)
        raises(lambda: F.embedding_bag(I([[0, 4]]).to(DEVICE), weight))
        raises(
            lambda: F.embedding_bag(I([0, 1]).to(DEVICE), weight, I([0, 5]).to(DEVICE))
        )

    def test_max_norm(self):
        for p in (1.0, 2.0, 3.0, float("inf")):
            compare(
                lambda w, i, p=p: (F.embedding(i, w, max_norm=1.0, norm_type=p), w),
                make(6, 5),
                I([[1, 3], [1, 5]]),
            )
