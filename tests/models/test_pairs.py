"""What every network that writes one sequence from another must keep, whatever its name and options."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

from regard.bundle import Bundle, load_bundle
from regard.decode import DecodeOptions
from regard.decode.beam import beam_search
from regard.models import MODELS
from regard.text import Tokenizer
from regard.view.record import kernels_of, record

VOCABULARY = 13
RNN: dict[str, Any] = {
    "d_model": 8, "d_encoder": 4, "d_embed": 6, "d_align": 5, "d_readout": 6, "encoder_layers": 2, "decoder_layers": 2,
    "max_positions": 16,
}  # fmt: skip
CONV: dict[str, Any] = {
    "d_model": 6, "encoder_layers": 2, "decoder_layers": 3, "widths": [8, 8, 10], "kernels": [3, 1, 5],
    "max_positions": 16, "weight_norm": False,
}  # fmt: skip
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer": ("transformer", {"d_model": 8, "d_ff": 8, "heads": 2, "encoder_layers": 2, "decoder_layers": 2}),
    **{f"rnn-{a}-{cell}": ("rnn", RNN | {"attention": a, "cell": cell})
       for a in ("none", "dot", "general", "additive") for cell in ("lstm", "gru")},
    **{f"rnn-{a}-{span}": ("rnn", RNN | {"attention": a, "span": span, "reach": 2})
       for a in ("dot", "additive") for span in ("local-m", "local-p")},
    "rnn-fed": ("rnn", RNN | {"attention": "general", "input_feeding": True, "cell": "lstm"}),
    "rnn-fed-local": ("rnn", RNN | {"attention": "dot", "input_feeding": True, "span": "local-m", "reach": 1}),
    "rnn-one-way": ("rnn", RNN | {"two_way": False, "d_encoder": 8, "attention": "dot", "cell": "lstm"}),
    "rnn-plain": ("rnn", RNN | {"attention": "none", "d_readout": 8, "cell": "lstm"}),
    "cnn-rnn": ("rnn", RNN | {"encoder": "cnn", "attention": "general", "cell": "lstm"}),
    "cnn-rnn-additive": ("rnn", RNN | {"encoder": "cnn", "attention": "additive"}),
    "conv": ("conv", CONV),
    "conv-normed": ("conv", CONV | {"weight_norm": True}),
}  # fmt: skip
ATTENDING = [name for name in CASES if "none" not in name and name != "rnn-plain"]
LENGTHS = torch.tensor([6, 2, 4])


def make(case: str, **options: Any) -> Any:
    """In double precision, with every weight random: those that begin at zero too."""
    name, given = CASES[case]
    torch.manual_seed(0)
    keys = {"tie": (), "dropout": 0.0} | given | options
    model = MODELS[name](
        MODELS[name].Config(**keys, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)
    ).double()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.abs().sum() == 0:
                parameter.normal_(std=0.5)
    return model


def some_tokens(rows: int, length: int, seed: int) -> Tensor:
    return torch.randint(4, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(seed))


SOURCE, TARGET = some_tokens(3, 6, 0), some_tokens(3, 5, 1)


def logits(model: Any, source: Tensor, lengths: Tensor | None, target: Tensor) -> Tensor:
    return F.linear(model(source, lengths, target), model.output)


def test_every_name_that_translates_is_tried() -> None:
    assert {name for name, _ in CASES.values()} == {n for n, kind in MODELS.items() if "translation" in kind.tasks}


@pytest.mark.parametrize("case", CASES)
def test_every_weight_gets_a_finite_gradient(case: str) -> None:
    model = make(case, dropout=0.1) if case == "transformer" else make(case, dropout=0.1, max_positions=6)
    logits(model, SOURCE, LENGTHS, some_tokens(3, 6, 1)).logsumexp(-1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("case", CASES)
def test_padding_changes_nothing(case: str) -> None:
    model = make(case)
    alone = [logits(model, SOURCE[i : i + 1, :n], None, TARGET[i : i + 1]) for i, n in enumerate(LENGTHS)]
    padded = F.pad(SOURCE, (0, 4), value=0)
    for row, n in enumerate(LENGTHS):
        padded[row, n:] = 7  # whatever stands there
    assert_close(logits(model, padded, LENGTHS, TARGET), torch.cat(alone))


@pytest.mark.parametrize("case", CASES)
def test_the_future_changes_nothing_and_the_past_does(case: str) -> None:
    model = make(case)
    before = logits(model, SOURCE, LENGTHS, TARGET)
    changed = TARGET.clone()
    changed[:, 3] = (changed[:, 3] - 3) % 7 + 4
    after = logits(model, SOURCE, LENGTHS, changed)
    assert torch.equal(after[:, :3], before[:, :3])
    assert not torch.allclose(after[:, 3], before[:, 3])
    assert not torch.allclose(after[:, 4], before[:, 4])


@pytest.mark.parametrize("case", CASES)
def test_the_source_changes_the_output(case: str) -> None:
    model = make(case)
    changed = SOURCE.clone()
    changed[:, 1] = (changed[:, 1] - 3) % 7 + 4
    assert not torch.allclose(logits(model, SOURCE, LENGTHS, TARGET), logits(model, changed, LENGTHS, TARGET))


@pytest.mark.parametrize("cuts", [[1] * 5, [2, 3], [5]], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_steps_are_the_forward_pass(case: str, cuts: list[int]) -> None:
    model = make(case)
    whole = logits(model, SOURCE, LENGTHS, TARGET)
    with torch.inference_mode():
        state, at = model.start(model.encode(SOURCE, LENGTHS)), 0
        for part in TARGET.split(cuts, 1):
            found, state = model.step(part, state)
            at += part.size(1)
            assert state.length == at
            assert_close(found, whole[:, at - 1])


@pytest.mark.parametrize("case", CASES)
def test_rows_of_a_state_can_be_chosen_and_sentences_forgotten(case: str) -> None:
    model = make(case)
    with torch.inference_mode():
        state = model.start(model.encode(SOURCE, LENGTHS))
        model.step(TARGET[:, :2], state)
        rows = torch.tensor([0, 0, 2, 2])  # two hypotheses of sentences 0 and 2
        state.reorder(rows)
        state.keep(torch.tensor([0, 2]))
        following = torch.tensor([[5, 9], [6, 8], [7, 7], [8, 6]])
        found, _ = model.step(following, state)
    targets = torch.cat((TARGET[rows, :2], following), 1)
    assert_close(found, logits(model, SOURCE[rows], LENGTHS[rows], targets)[:, -1])


@pytest.mark.parametrize("case", CASES)
def test_a_beam_finds_the_same_in_a_batch_and_alone_and_two_of_a_model_are_the_model(case: str) -> None:
    model, options = make(case).eval(), DecodeOptions(beam=3, extra_length=4)
    together = beam_search([model], SOURCE, LENGTHS, options)
    twice = beam_search([model, model], SOURCE, LENGTHS, options)
    for i, n in enumerate(LENGTHS):
        (alone,) = beam_search([model], SOURCE[i : i + 1, :n], n[None], options)
        assert [h.tokens for h in together[i]] == [h.tokens for h in alone] == [h.tokens for h in twice[i]]
        assert [h.score for h in together[i]] == pytest.approx([h.score for h in alone], abs=1e-4)


@pytest.mark.parametrize("case", CASES)
def test_saved_is_loaded(case: str, tmp_path: Path) -> None:
    name, _ = CASES[case]
    tokenizer = Tokenizer.learn(["a b c d e f g h i"], "word", VOCABULARY)
    assert len(tokenizer) == VOCABULARY
    model = make(case, dropout=0.3).float().eval()
    Bundle(model, tokenizer, tokenizer, ("en", "de"), 10, name=name).save(tmp_path / "model")
    loaded = load_bundle(tmp_path / "model").model
    assert loaded.config == model.config
    assert torch.equal(loaded(SOURCE, LENGTHS, TARGET), model(SOURCE, LENGTHS, TARGET))
    assert not torch.equal(loaded.train()(SOURCE, LENGTHS, TARGET), model(SOURCE, LENGTHS, TARGET))  # dropout is kept


@pytest.mark.parametrize("case", ATTENDING)
def test_recorded_weights_are_over_the_real_words_and_change_nothing(case: str) -> None:
    model = make(case).eval()
    plain = model(SOURCE, LENGTHS, TARGET)
    with record(model, full=True) as trace:
        assert torch.equal(model(SOURCE, LENGTHS, TARGET), plain)
    layers = trace.layers("cross")
    assert layers == (model.config.decoder_layers if case.startswith(("transformer", "conv")) else 1)
    for layer in range(layers):
        weights = trace.weights("cross", layer)
        assert weights.shape[2:] == (5, 6)
        for row, n in enumerate(LENGTHS):
            assert weights[row, :, :, n:].abs().sum() == 0
        total = weights.sum(-1)
        if "local-p" in case:
            assert (total <= 1).all()
            assert (total > 0).all()
        else:
            assert_close(total, torch.ones_like(total))


@pytest.mark.parametrize("case", ATTENDING)
def test_steps_record_what_the_pass_records(case: str) -> None:
    model = make(case).eval()
    with torch.no_grad(), record(model) as whole:
        model(SOURCE, LENGTHS, TARGET)
    with torch.no_grad(), record(model) as trace:
        state = model.start(model.encode(SOURCE, LENGTHS))
        for tokens in TARGET.split(1, dim=1):
            model.step(tokens, state)
    steps = [r.weights for r in trace.records if (r.kind, r.layer) == ("cross", 0)]
    assert_close(torch.cat(steps, dim=2), whole.weights("cross", 0))


def test_a_network_without_attention_offers_none() -> None:
    assert not kernels_of(make("rnn-none-gru"))
