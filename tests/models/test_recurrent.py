"""Recurrent translators: against their papers' equations, identities and sizes."""

import math
from typing import Any

import pytest
import torch
from models.test_pairs import LENGTHS, SOURCE, TARGET, logits
from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from regard.models import Recurrent, RecurrentConfig
from regard.models.recurrent import PUBLISHED, SIZES
from regard.nn.attention import Mask
from regard.nn.attention.alignment import Additive, Alignment, Dot
from regard.nn.recurrent import Reader, Writer
from regard.view.record import record

SMALL: dict[str, Any] = {
    "d_model": 8, "d_encoder": 4, "d_embed": 6, "d_align": 5, "d_readout": 3, "source_vocabulary": 13,
    "target_vocabulary": 13,
}  # fmt: skip


def make(**options: Any) -> Recurrent:
    torch.manual_seed(0)
    model = Recurrent(RecurrentConfig(**{**SMALL, **options})).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.abs().sum() == 0:
                parameter.normal_(std=0.5)
    return model


# --- the equations --------------------------------------------------------------------------------------------------


def test_bahdanaus_decoder_is_his_equations() -> None:
    """Appendix A.2 from the weights alone, word by word; the reset gate stands where PyTorch has it."""
    model, d, e = make(), 8, 6
    w = {name: p.detach() for name, p in model.named_parameters()}
    memory = model.encode(SOURCE[:1])
    (annotations,) = memory.keys.detach()  # S M
    s = torch.tanh(w["bridge.0.weight"] @ annotations[0, 4:] + w["bridge.0.bias"])  # of <-h_1
    expected = []
    for word in TARGET[0]:
        y = w["embed.target.weight"][word] * math.sqrt(e)
        scores = [
            w["cross.kernel.v"] @ torch.tanh(w["cross.q.weight"] @ s + w["cross.k.weight"] @ h) for h in annotations
        ]
        alpha = torch.stack(scores).exp()
        alpha = alpha / alpha.sum()
        c = sum(a * h for a, h in zip(alpha, annotations, strict=True))
        gates = w["decoder.0.rnn.weight_ih_l0"] @ torch.cat((y, c)) + w["decoder.0.rnn.bias_ih_l0"]
        own = w["decoder.0.rnn.weight_hh_l0"] @ s + w["decoder.0.rnn.bias_hh_l0"]
        r = torch.sigmoid(gates[:d] + own[:d])
        z = torch.sigmoid(gates[d : 2 * d] + own[d : 2 * d])
        fresh = torch.tanh(gates[2 * d :] + r * own[2 * d :])
        s = (1 - z) * fresh + z * s
        u, v, m = w["readout.weight"].split([d, e, 8], 1)
        t = u @ s + v @ y + m @ c
        expected.append(w["embed.output.weight"] @ torch.stack([t[2 * i : 2 * i + 2].max() for i in range(3)]))
    assert_close(logits(model, SOURCE[:1], None, TARGET[:1])[0], torch.stack(expected))


@pytest.mark.parametrize("feeding", [False, True])
def test_luongs_decoder_is_his_equations(feeding: bool) -> None:
    """h by an LSTM over the embedding (and what was read out last); score h W h_s; tanh(W [c; h])."""
    model = make(attention="general", cell="lstm", input_feeding=feeding)
    w = {name: p.detach() for name, p in model.named_parameters()}
    memory = model.encode(SOURCE[:1])
    (annotations,) = memory.keys.detach()
    h, c = (first[0].detach() for first in memory.first[0])
    read, expected = torch.zeros(3, dtype=torch.double), []
    for word in TARGET[0]:
        x = w["embed.target.weight"][word] * math.sqrt(6)
        x = torch.cat((x, read)) if feeding else x
        gates = w["decoder.0.rnn.weight_ih_l0"] @ x + w["decoder.0.rnn.bias_ih_l0"]
        gates = gates + w["decoder.0.rnn.weight_hh_l0"] @ h + w["decoder.0.rnn.bias_hh_l0"]
        i, f, g, o = gates.split(8)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        weights = torch.stack([h @ w["cross.k.weight"] @ a for a in annotations]).softmax(0)
        read = torch.tanh(w["readout.weight"] @ torch.cat((weights @ annotations, h)))
        expected.append(w["embed.output.weight"] @ read)
    assert_close(logits(model, SOURCE[:1], None, TARGET[:1])[0], torch.stack(expected))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_steps_of_a_layer_are_pytorchs(cell: str) -> None:
    torch.manual_seed(0)
    layer = Writer(cell, 3, 4)
    x = torch.randn(2, 5, 3)
    hidden = tuple(torch.randn(2, 4) for _ in range(2 if cell == "lstm" else 1))
    whole, end = layer(x, hidden)
    for t in range(5):
        hidden = layer.advance(layer.project(x[:, t]), hidden)
        assert_close(hidden[0], whole[:, t])
    assert_close(hidden, end)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_the_encoder_is_pytorchs_with_all_its_layers(cell: str) -> None:
    torch.manual_seed(0)
    reader = Reader(cell, 3, 4, 2, True, 0.0)
    whole = {"lstm": nn.LSTM, "gru": nn.GRU}[cell](3, 4, 2, batch_first=True, bidirectional=True)
    for i, layer in enumerate(reader.layers):
        for name, parameter in layer.named_parameters():
            whole.get_parameter(name.replace("_l0", f"_l{i}")).data = parameter.data
    x = torch.randn(1, 5, 3)
    states, ends = reader(x, None)
    expected, final = whole(x)
    assert_close(states, expected)
    assert_close(ends[-1][0], torch.cat((states[:, -1, :4], states[:, 0, 4:]), -1))
    last = (final[0] if cell == "lstm" else final)[2:]
    assert_close(ends[-1][0], torch.cat(tuple(last), -1))


# --- identities of attention ----------------------------------------------------------------------------------------


def weights(
    model: Recurrent, source: Tensor = SOURCE, lengths: Tensor | None = LENGTHS, target: Tensor = TARGET
) -> Tensor:
    with torch.no_grad(), record(model) as trace:
        model(source, lengths, target)
    return trace.weights("cross", 0)[:, 0]  # B T S


def test_additive_attention_with_v_zero_looks_everywhere_alike() -> None:
    kernel = Additive(4)
    found = kernel.weights(torch.randn(3, 1, 2, 4), torch.randn(3, 1, 6, 4), Mask(lengths=LENGTHS))
    for row, n in enumerate(LENGTHS):
        assert_close(found[row, 0, :, :n], torch.full((2, int(n)), 1 / float(n)))


def test_general_attention_with_the_identity_is_dot() -> None:
    dot, general = make(attention="dot"), make(attention="general")
    general.load_state_dict(dot.state_dict() | {"cross.k.weight": torch.eye(8)})
    assert_close(logits(general, SOURCE, LENGTHS, TARGET), logits(dot, SOURCE, LENGTHS, TARGET))


@pytest.mark.parametrize("attention", ["dot", "general", "additive"])
def test_local_attention_that_reaches_everywhere_is_global(attention: str) -> None:
    wide, local = make(attention=attention), make(attention=attention, span="local-m", reach=6)
    local.load_state_dict(wide.state_dict())
    assert_close(logits(local, SOURCE, LENGTHS, TARGET), logits(wide, SOURCE, LENGTHS, TARGET))
    narrow = make(attention=attention, span="local-m", reach=1)
    narrow.load_state_dict(wide.state_dict())
    assert not torch.allclose(logits(narrow, SOURCE, LENGTHS, TARGET), logits(wide, SOURCE, LENGTHS, TARGET))


def test_a_bell_without_end_is_no_bell() -> None:
    wide, local = make(attention="dot"), make(attention="dot", span="local-p", reach=100_000_000)
    local.load_state_dict(local.state_dict() | wide.state_dict())
    assert_close(logits(local, SOURCE, LENGTHS, TARGET), logits(wide, SOURCE, LENGTHS, TARGET))


@pytest.mark.parametrize("attention", ["dot", "general", "additive"])
def test_one_word_gets_all_the_weight(attention: str) -> None:
    assert_close(weights(make(attention=attention), SOURCE[:, :1], None), torch.ones(3, 5, 1).double())


def test_a_window_moves_with_the_target_and_stays_within_the_sentence() -> None:
    found = weights(make(attention="dot", span="local-m", reach=1))
    seen = [[row.nonzero().flatten().tolist() for row in sentence] for sentence in found]
    assert seen[0] == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]]
    assert seen[1] == [[0, 1], [0, 1], [0, 1], [0, 1], [0, 1]]  # two words: it stays at the last
    assert seen[2] == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3], [2, 3]]


@torch.no_grad()
def test_a_predicted_place_and_its_bell_are_luongs_equations() -> None:
    """p = S sigmoid(v tanh(W h)); softmax within [p - D, p + D]; times exp(-(s - p)^2 / (2 (D / 2)^2))."""
    torch.manual_seed(0)
    cross = Alignment("dot", 4, 4, 4, "local-p", 2)
    h, memory = torch.randn(1, 1, 4), torch.randn(1, 6, 4)
    with record(cross.eval()) as trace:
        cross(h, cross.project(memory, memory), Mask(lengths=torch.tensor([5])))
    inner, _, outer = cross.place
    p = float(5 * torch.sigmoid(outer.weight[0] @ torch.tanh(inner.weight @ h[0, 0])))
    near = [s for s in range(5) if abs(s - p) <= 2]
    powers = {s: float(torch.exp(h[0, 0] @ memory[0, s])) for s in near}
    expected = torch.zeros(6)
    for s, power in powers.items():
        expected[s] = power / sum(powers.values()) * float(torch.exp(torch.tensor(-((s - p) ** 2) / 2)))
    assert_close(trace.weights("attention", 0)[0, 0, 0], expected)


def test_dot_is_not_divided_by_the_width() -> None:
    q, k = torch.randn(1, 1, 2, 9), torch.randn(1, 1, 3, 9)
    assert_close(Dot().weights(q, k, Mask()), (q @ k.transpose(-2, -1)).softmax(-1))


# --- learning -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ["rnn", "cnn"])
@pytest.mark.parametrize("attention", ["dot", "general", "additive"])
def test_first_every_word_counts_nearly_the_same(encoder: str, attention: str) -> None:
    """Wide as a real one: scores that begin large choose one word, whatever the others are, and it stays so for long.
    1 is the entropy of weights that are all the same."""
    torch.manual_seed(0)
    d_embed = 256 if encoder == "cnn" else 64
    shape = {"d_model": 256, "d_encoder": 128, "d_embed": d_embed, "d_align": 64, "d_readout": 64}
    model = Recurrent(RecurrentConfig(**{**SMALL, **shape, "encoder": encoder, "attention": attention})).eval()
    found = weights(model, torch.randint(13, (8, 9)), None, torch.randint(13, (8, 5)))
    entropy = -(found * found.clamp(min=1e-9).log()).sum(-1).mean() / math.log(9)
    assert entropy > 0.7


@pytest.mark.parametrize("options", [
    {"attention": "dot"}, {"attention": "general", "input_feeding": True, "cell": "lstm"},
    {"attention": "general", "span": "local-p"}, {"attention": "additive", "span": "local-m"},
    *[{"encoder": "cnn", "attention": attention} for attention in ("dot", "general", "additive")],
], ids=str)  # fmt: skip
def test_it_learns_to_turn_a_sentence_round(options: dict[str, Any]) -> None:
    """Of three to five words; with attention near the same place (local-m) it copies."""
    torch.manual_seed(0)
    shape = {"d_model": 64, "d_encoder": 32, "d_embed": 64, "d_align": 32, "d_readout": 32, "reach": 3}
    model = Recurrent(RecurrentConfig(**{**SMALL, **shape, **options}))
    optimizer = torch.optim.Adam(model.parameters(), 0.01, (0.9, 0.98))
    right, steps = 0.0, 100
    for step in range(steps):
        source, lengths, before, target = turned(32, copied=options.get("span") == "local-m")
        real = target > 0
        guessed = F.linear(model(source, lengths, before), model.output)[real]
        right = float((guessed.argmax(-1) == target[real]).float().mean())
        optimizer.zero_grad()
        F.cross_entropy(guessed, target[real]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = 0.01 * min(1, step / 10) * (1 - step / steps)
        optimizer.step()
    assert right > 0.9


def turned(count: int, *, copied: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sources that end with 2 and their lengths; targets after 1; 0 stands for nothing."""
    lengths = torch.randint(3, 6, (count,))
    words, places = torch.randint(3, 13, (count, 6)), torch.arange(6)
    end, real = places == lengths[:, None], places < lengths[:, None]
    turn = words.gather(1, torch.where(real, lengths[:, None] - 1 - places, places))
    source, target = ((side * real).masked_fill(end, 2) for side in (words, words if copied else turn))
    before = torch.cat((torch.ones(count, 1, dtype=torch.long), target[:, :-1]), 1)
    return source, lengths + 1, before, target


# --- sizes and refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "exact"), [("bahdanau", 80_420_000), ("luong-none", 214_064_000), ("luong-general", 221_064_000)]
)
def test_published_sizes(size: str, exact: int) -> None:
    vocabulary, published = PUBLISHED[size]
    config = RecurrentConfig(**SIZES[size], source_vocabulary=vocabulary, target_vocabulary=vocabulary)
    assert config.parameters() == counted(config) == exact
    assert exact == pytest.approx(published, rel=0.001)


@pytest.mark.parametrize("options", [
    *[{"attention": a, "cell": c} for a in ("none", "dot", "general", "additive") for c in ("lstm", "gru")],
    {"attention": "general", "input_feeding": True, "span": "local-p", "decoder_layers": 3},
    {"encoder": "cnn", "attention": "general", "encoder_layers": 2}, {"encoder": "cnn", "attention": "none"},
    {"two_way": False, "encoder_layers": 2, "decoder_layers": 1},
    {"d_readout": 6, "tie": ["output", "source", "target"]},
], ids=str)  # fmt: skip
def test_closed_form_counts_what_is_there(options: dict[str, Any]) -> None:
    config = RecurrentConfig(**{**SMALL, **options})
    assert config.parameters() == counted(config)


def counted(config: RecurrentConfig) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in Recurrent(config).parameters())


@pytest.mark.parametrize(("options", "message"), [
    ({"attention": "dot", "d_encoder": 5}, "make them equal, or use attention = 'general'"),
    ({"input_feeding": True}, "input_feeding is for dot and general"),
    ({"attention": "none", "span": "local-m"}, "needs an attention"),
    ({"encoder": "cnn", "encoder_kernel": 4}, "no middle; try 5"),
    ({"tie": ["target", "output"]}, "target 6, output 3"),
])  # fmt: skip
def test_what_does_not_fit_is_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RecurrentConfig(**{**SMALL, **options})
