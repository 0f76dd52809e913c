"""``torch.compile(backend="tvarant")``: forward and backward through our passes.

Imported only when a program compiles: anything of dynamo takes over a second
to import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch import fx
from torch._dynamo.backends.common import aot_autograd

from torch_tvarant import compiler


def _compile_aten(
    gm: fx.GraphModule, example_inputs: Sequence[Any]
) -> Callable[..., Any]:
    """One graph of ATen ops, forward or backward, without mutation."""
    return make_boxed_func(compiler.compile_fx(gm, example_inputs).forward)


def tvarant(
    gm: fx.GraphModule, example_inputs: Sequence[torch.Tensor], **options: Any
) -> Callable[..., Any]:
    """The backend. Keyword options of ``torch.compile`` are not used yet."""
    if options:
        raise ValueError(f"the tvarant backend takes no options, got {sorted(options)}")
    backend = aot_autograd(fw_compiler=_compile_aten, bw_compiler=_compile_aten)
    return backend(gm, example_inputs)
