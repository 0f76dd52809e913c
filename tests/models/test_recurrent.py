"""Recurrent language models, with torch.nn's own layers."""

from __future__ import annotations

import pytest
import torch
from support import DEVICE
from torch import nn
from training import forward_both, train_both

VOCABULARY = 50


class LanguageModel(nn.Module):
    def __init__(self, cell: type[nn.RNNBase], **options: object) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 16)
        self.cell = cell(16, 24, num_layers=2, batch_first=True, **options)
        width = 24 * (2 if self.cell.bidirectional else 1)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(self.embedding(tokens))[0])


def tokens(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, VOCABULARY, shape, generator=generator)


def loss_of(model: nn.Module, data: torch.Tensor) -> torch.Tensor:
    logits = model(data[:, :-1])
    return nn.functional.cross_entropy(
        logits.reshape(-1, VOCABULARY), data[:, 1:].reshape(-1)
    )


CELLS = [nn.LSTM, nn.GRU, nn.RNN]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.__name__)
def test_training(cell, dtype):
    torch.manual_seed(0)
    train_both(LanguageModel(cell), loss_of, tokens(4, 9), dtype)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.__name__)
def test_both_directions(cell):
    torch.manual_seed(0)
    model = LanguageModel(cell, bidirectional=True)
    forward_both(model, lambda net, data: net(data), tokens(4, 9))


def test_packed_sequences():
    torch.manual_seed(0)
    cell = nn.LSTM(8, 12, batch_first=True)
    x = torch.randn(3, 5, 8)
    lengths = torch.tensor([5, 3, 2])

    def run(net: nn.Module, data: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(data, lengths, batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(net(packed)[0], batch_first=True)[0]

    expected = run(cell, x)
    ours = run(cell.to(DEVICE), x.to(DEVICE))
    torch.testing.assert_close(ours.cpu(), expected, rtol=1e-5, atol=1e-5)
