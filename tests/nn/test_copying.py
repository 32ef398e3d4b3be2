"""Copying: See 2017's equation, its gradient, the steps of a search, and words that were never written in training."""

import math
import random
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.testing import assert_close

from regard.decode import DecodeOptions, beam_search
from regard.models import Transformer, TransformerConfig
from regard.nn.copying import Copies, Pointer

SHAPE: dict[str, Any] = {
    "d_model": 8, "d_ff": 12, "heads": 2, "encoder_layers": 1, "decoder_layers": 2, "dropout": 0.0, "copying": True,
    "source_vocabulary": 11, "target_vocabulary": 11,
}  # fmt: skip
SOURCE = torch.tensor([[4, 5, 4, 6, 3], [7, 8, 3, 0, 0], [9, 9, 10, 3, 0]])
LENGTHS = torch.tensor([5, 3, 4])
TARGET = torch.tensor([[2, 4, 5], [2, 8, 7], [2, 9, 6]])


def make(seed: int = 0, **options: Any) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(TransformerConfig(**{**SHAPE, **options})).double()


@torch.inference_mode()
def test_it_is_the_papers_equation() -> None:
    """p(w) = g P_vocab(w) + (1 - g) sum of a_i over i with x_i = w, by loops."""
    torch.manual_seed(0)
    pointer = Pointer(4).double()
    states, memory = torch.randn(3, 2, 4).double(), torch.randn(3, 5, 4).double()
    logits = torch.randn(3, 2, 11).double()
    found = pointer(states, logits, pointer.copies(SOURCE, memory, LENGTHS)).exp()
    for b in range(3):
        for t in range(2):
            s = states[b, t]
            g = 1 / (1 + math.exp(-float(pointer.gate(s))))
            q = pointer.q(s)
            scores = [math.exp(float(q @ pointer.k(memory[b, i])) / math.sqrt(4)) for i in range(int(LENGTHS[b]))]
            expected = [g * float(p) for p in logits[b, t].softmax(-1)]
            for i, score in enumerate(scores):
                expected[int(SOURCE[b, i])] += (1 - g) * score / sum(scores)
            assert_close(found[b, t], torch.tensor(expected).double())


def test_it_is_a_distribution_and_padding_is_not_copied() -> None:
    model = make()
    log_p = model.logits(SOURCE, LENGTHS, TARGET)
    assert_close(log_p.exp().sum(-1), torch.ones(3, 3).double())
    other = SOURCE.clone()
    other[1, 3:], other[2, 4:] = 6, 6  # whatever stands there
    assert_close(model.logits(other, LENGTHS, TARGET), log_p)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_losses_are_of_what_is_real_with_the_softmax_smoothed(smoothing: float) -> None:
    model = make()
    wanted = torch.tensor([[4, 5, 3], [8, 3, 0], [9, 6, 3]])
    real = wanted != 0
    total, nll = model.losses(SOURCE, LENGTHS, TARGET, wanted, real, smoothing)
    log_p = model.logits(SOURCE, LENGTHS, TARGET)[real]
    words = (model(SOURCE, LENGTHS, TARGET) @ model.output.T).log_softmax(-1)[real]
    assert_close(nll, -log_p.gather(1, wanted[real][:, None]).sum())
    assert_close(total, (1 - smoothing) * nll - smoothing * (words / 11).sum())


def test_every_weight_gets_a_finite_gradient() -> None:
    model = make(tie=())
    total, _ = model.losses(SOURCE, LENGTHS, TARGET, TARGET, torch.ones(3, 3, dtype=torch.bool), 0.1)
    total.backward()
    for name, p in model.named_parameters():
        assert p.grad is not None, name
        assert torch.isfinite(p.grad).all(), name
        if not name.endswith("k.bias"):  # the softmax does not see what is added to every key
            assert p.grad.abs().sum() > 0, name


def test_a_word_that_the_softmax_rules_out_is_no_trap() -> None:
    pointer = Pointer(4)
    logits = torch.full((1, 1, 11), -1e4, requires_grad=True)
    with torch.no_grad():
        logits[..., 5] = 1e4
    log_p = pointer(torch.randn(1, 1, 4), logits, Copies(SOURCE[:1], torch.randn(1, 5, 4), None))
    log_p[..., 8].sum().backward()  # neither likely nor in the source
    assert torch.isfinite(log_p).all()
    assert torch.isfinite(torch.cat([p.grad.flatten() for p in pointer.gate.parameters()])).all()  # type: ignore[union-attr]


@torch.inference_mode()
@pytest.mark.parametrize("norm", [{}, {"embedding_norm": True, "positions": "learned", "max_positions": 9}], ids=str)
def test_steps_plain_and_packed_are_the_forward_pass(norm: dict[str, Any]) -> None:
    model = make(**norm).eval()
    memory = model.encode(SOURCE, LENGTHS)
    rows = torch.tensor([1, 1, 2, 2])  # two hypotheses of the second and the third sentence
    following = torch.tensor([[7], [5], [10], [3]])
    targets = torch.cat((TARGET[rows, :2], following), 1)
    expected = model.logits(SOURCE[rows], LENGTHS[rows], targets)
    for twin in (model, model.for_decoding()):
        state: Any = twin.start(memory)
        for t in range(2):
            found, state = twin.step(TARGET[:, t : t + 1], state)
            assert_close(found, model.logits(SOURCE, LENGTHS, TARGET)[:, t])
        state.reorder(rows)
        state.keep(torch.tensor([1, 2]))
        found, state = twin.step(following, state)
        assert_close(found, expected[:, -1])


@pytest.mark.parametrize("norm", [{}, {"embedding_norm": True, "positions": "learned", "max_positions": 9}], ids=str)
def test_closed_form_counts_what_is_there(norm: dict[str, Any]) -> None:
    model = make(**norm)
    assert model.config.parameters() == sum(p.numel() for p in model.parameters())


def test_one_vocabulary_is_needed() -> None:
    with pytest.raises(ValidationError, match="one tokenizer for both sides"):
        TransformerConfig(copying=True, source_vocabulary=8, target_vocabulary=9, tie=("target", "output"))


def names(numbers: range, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Sentences "a a NAME a a" in which the NAME (4 is the a's mark, 5 stands before a name) is what is wanted."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        row = [4] * 6
        at = draw.randrange(5)
        row[at], row[at + 1] = 5, draw.choice(numbers)
        rows.append(row)
    source = torch.tensor(rows)
    return source, source[source.roll(1, 1) == 5][:, None]


@pytest.mark.parametrize("copying", [True, False])
def test_names_that_were_never_seen_are_written_by_copying_alone(copying: bool) -> None:
    torch.manual_seed(1)
    known, new = range(6, 40), range(40, 60)
    shape = {"d_model": 32, "d_ff": 32, "decoder_layers": 1, "copying": copying} | dict.fromkeys(
        ("source_vocabulary", "target_vocabulary"), 60
    )
    model = Transformer(TransformerConfig(**{**SHAPE, **shape}))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for step in range(250):
        source, wanted = names(known, 64, step)
        begin, end = torch.full_like(wanted, 2), torch.full_like(wanted, 3)
        target, wanted = torch.cat((begin, wanted), 1), torch.cat((wanted, end), 1)
        total, _ = model.losses(source, None, target, wanted, wanted != 0, 0.0)
        optimizer.zero_grad()
        (total / wanted.numel()).backward()
        optimizer.step()
    model.eval()

    def right(numbers: range) -> float:
        source, wanted = names(numbers, 100, 999)
        lengths = torch.full((100,), 6)
        found = beam_search([model.for_decoding()], source, lengths, DecodeOptions(beam=3, max_length=4))
        return sum(h[0].tokens == (int(w),) for h, w in zip(found, wanted, strict=True)) / 100

    assert right(known) > 0.9
    assert right(new) > 0.9 if copying else right(new) < 0.1
