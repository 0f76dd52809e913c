"""Sends graphs on tvarant that reach Inductor to our backend.

``torch.compile(model)`` without a backend name chooses Inductor, which knows no
tvarant device.
"""

from __future__ import annotations

import functools
from typing import Any

import torch


def _is_ours(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "tvarant"


def _uses_device(gm: torch.fx.GraphModule, example_inputs: Any) -> bool:
    if any(_is_ours(value) for value in example_inputs or ()):
        return True
    if any(_is_ours(value) for value in gm.state_dict().values()):
        return True
    # A graph that makes its tensors on the device itself.
    return any(
        _is_ours(node.meta.get("example_value", node.meta.get("val")))
        for node in gm.graph.nodes
    )


def install() -> None:
    import torch._inductor.compile_fx as compile_fx_module

    original = compile_fx_module.compile_fx

    @functools.wraps(original)
    def compile_fx(gm: Any, example_inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(gm, torch.fx.GraphModule) and _uses_device(gm, example_inputs):
            from torch_tvarant.dynamo_backend import tvarant

            return tvarant(gm, example_inputs)
        return original(gm, example_inputs, *args, **kwargs)

    compile_fx_module.compile_fx = compile_fx
