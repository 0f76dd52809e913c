"""FX tracing with the layers inlined that the passes know."""

from __future__ import annotations

from torch import fx, nn

# Layers whose training mode matters (dropout, batch norm) stay modules, so
# that train() and eval() of the traced module still reach them.
_INLINED = (
    nn.Sequential,
    nn.ModuleList,
    nn.ModuleDict,
    nn.Linear,
    nn.ReLU,
    nn.SiLU,
    nn.GELU,
    nn.Sigmoid,
    nn.Tanh,
    nn.LayerNorm,
    nn.Embedding,
    nn.Softmax,
    nn.Identity,
)


class TvarantTracer(fx.Tracer):
    """Inlines the layers above; other ``torch.nn`` layers stay modules.

    A layer with hooks is not inlined: its hooks must run.
    """

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if type(m) in _INLINED:
            return bool(
                m._forward_hooks
                or m._forward_pre_hooks
                or m._backward_hooks
                or m._backward_pre_hooks
            )
        return super().is_leaf_module(m, module_qualified_name)
