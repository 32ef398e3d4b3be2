"""Speed that no clock is needed for: operations, memory, random draws, padding and steps are counted.

The numbers are what there is today. Fewer are welcome: lower the number then. More need a reason.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from conftest import small_recipe
from decode.toys import Rows, Toy, echo, in_order, padded
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from regard.config import make_recipe
from regard.decode import DecodeOptions, beam_search
from regard.decode.beam import BLOCK, top
from regard.decode.engine import Torch
from regard.decode.greedy import greedy
from regard.models import Transformer
from regard.models.transformer import Packed
from regard.nn import loss as loss_module
from regard.nn.loss import CHUNK_ELEMENTS, smoothed_loss
from regard.tasks.translation import Batch, TranslationBatches, TranslationTask
from regard.text import BOS, EOS, PAD, Tokenizer

BYTES = Tokenizer.learn([], "byte")
V, D, FF, HEADS = len(BYTES), 16, 32, 2  # those of the small recipe
PRODUCTS = ("mm", "addmm", "addmm_")
# They make another view of what is there, or room; nothing is computed.
NO_WORK = {
    "view", "_unsafe_view", "reshape", "transpose", "t", "permute", "slice", "select", "unbind", "expand", "unsqueeze",
    "squeeze", "detach", "alias", "as_strided", "empty", "empty_like", "new_empty", "new_empty_strided", "lift_fresh",
    "scalar_tensor", "to", "resolve_conj", "resolve_neg",
}  # fmt: skip


class Watch(TorchDispatchMode):
    """The operations that compute, by name; the largest tensor made; what is drawn at random."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()
        self.largest = 0
        self.drawn: Counter[str] = Counter()
        self.sorted: list[int] = []  # widths that topk was given

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name, outputs = func.overloadpacket.__name__, out if isinstance(out, tuple) else (out,)
        if name not in NO_WORK:
            self.count[name] += 1
            self.largest = max([self.largest, *(t.numel() for t in outputs if isinstance(t, Tensor))])
        if torch.Tag.nondeterministic_seeded in func.tags and "attention" not in name:
            self.drawn[name] += out.numel()
        if name == "topk":
            self.sorted.append(args[0].size(-1))
        return out


class Sized:
    """Stands in for a token cache: pairs of these lengths."""

    def __init__(self, source: Sequence[int], target: Sequence[int]) -> None:
        self.sides = np.array(source), np.array(target)
        self.longest = max(source), max(target)

    def __len__(self) -> int:
        return len(self.sides[0])

    def lengths(self, indices: Any) -> tuple[Any, Any]:
        return self.sides[0][indices], self.sides[1][indices]

    def pair(self, index: int) -> tuple[Any, Any]:
        source, target = (np.full(side[index], 9) for side in self.sides)
        return source, target


def training_step(batch: Batch, **model: Any) -> Watch:
    """Forward and backward, as the loop does them."""
    tree = small_recipe()
    tree["model"] |= model
    task = TranslationTask(make_recipe(tree), BYTES, BYTES, Sized([1], [1]), dev=[])  # type: ignore[arg-type]
    network = task.model().train()
    with Watch() as watch:
        found = task.loss(network, batch)
        (found.total / found.count).backward()
    return watch


def some_batch(rows: int, longest: int) -> Batch:
    g = np.random.default_rng(0)
    lengths = np.linspace(longest, longest - 2, rows).astype(int)
    return Batch.of([(g.integers(4, V, n), g.integers(4, V, n)) for n in lengths])


# --- training -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize(("side", "projections", "most"), [("encoder", 4 + 2, 45), ("decoder", 8 + 2, 70)])
def test_what_one_more_layer_costs(norm: str, side: str, projections: int, most: int) -> None:
    """Each projection is one product forward and two backward, and attention needs no others.

    Beside them: for each sub-layer five operations for its dropout and sum, with one backward, and its norm; for each
    attention one and its backward; the activation with the biases' gradients; one mask; and a sum of gradients for each
    further reader of a vector.
    """
    layers = {"encoder_layers": 2, "decoder_layers": 2, "norm": norm}
    batch = some_batch(3, 7)
    two = training_step(batch, **layers).count
    three = training_step(batch, **{**layers, f"{side}_layers": 3}).count
    more = three - two
    assert sum(more[name] for name in PRODUCTS) == 3 * projections
    assert more.total() <= most, more


def test_what_is_around_the_layers() -> None:
    """Embeddings, positions, one padding mask for all layers, and one chunk of the loss."""
    found = training_step(some_batch(3, 7), encoder_layers=0, decoder_layers=1).count
    assert found.total() <= 70 + 65, found


def test_the_loss_never_holds_all_logits() -> None:
    tokens, vocabulary = 1024, 8192
    assert tokens * vocabulary == 4 * CHUNK_ELEMENTS
    hidden, weight = torch.randn(tokens, 8, requires_grad=True), torch.randn(vocabulary, 8, requires_grad=True)
    with Watch() as watch:
        smoothed_loss(hidden, weight, None, torch.randint(vocabulary, (tokens,)), 0.1)[0].backward()
    assert watch.largest <= CHUNK_ELEMENTS


def test_the_largest_tensor_of_a_training_step_is_the_feed_forwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the logits of all tokens (T V) nor the attention weights (H T T) are ever there."""
    monkeypatch.setattr(loss_module, "CHUNK_ELEMENTS", 8 * V)
    batch = some_batch(4, 60)
    most = batch.source.numel() * FF
    assert most < batch.count * V
    assert most < 4 * HEADS * 60 * 60
    assert training_step(batch, encoder_layers=1, decoder_layers=1).largest == most


def test_dropout_draws_a_byte_for_each_element_and_nothing_else_is_drawn() -> None:
    batch = some_batch(3, 7)
    dropouts = {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1}
    found = training_step(batch, encoder_layers=2, decoder_layers=1, **dropouts)
    source, target = batch.source.numel(), batch.target_in.numel()
    s, t = batch.source.size(1), batch.target_in.size(1)
    masks = [source * D, target * D]  # the embeddings
    masks += 2 * [source * D, source * D, source * FF, source * HEADS * s]
    masks += [target * D, target * D, target * D, target * FF, target * HEADS * t, target * HEADS * s]
    assert found.drawn == {"random_": sum(math.ceil(n / 8) for n in masks)}  # words of eight bytes


def test_the_batches_trained_on_are_hardly_padded() -> None:
    rng = np.random.default_rng(0)
    source = np.clip(rng.lognormal(2.6, 0.45, 20_000), 1, 120)
    target = np.clip(source * rng.lognormal(0.0, 0.15, 20_000), 1, 120)
    cache: Any = Sized(source.astype(int).tolist(), target.astype(int).tolist())
    batches = TranslationBatches(cache, 4096, seed=1)
    claimed = batches.order.padding()
    content = whole = 0
    while not batches.epoch:
        batch = next(batches)
        content += sum(int((side != PAD).sum()) for side in (batch.source, batch.target_out))
        whole += batch.source.numel() + batch.target_out.numel()
    assert 1 - content / whole == pytest.approx(claimed)
    assert claimed < 0.05


# --- decoding -------------------------------------------------------------------------------------------------------


def decoding_step(**model: Any) -> Counter[str]:
    torch.manual_seed(0)
    shape = {"d_model": D, "d_ff": FF, "heads": HEADS, "encoder_layers": 1}
    sizes = {"source_vocabulary": V, "target_vocabulary": V}
    packed = Transformer(Transformer.Config.model_validate(shape | sizes | model)).eval().for_decoding()
    tokens = torch.full((3, 1), BOS)
    with torch.no_grad():  # in inference mode some operations would hide copies inside them
        state = packed.start(packed.encode(torch.randint(4, V, (3, 7)), torch.tensor([7, 3, 2])))
        packed.step(tokens, state)  # makes room
        with Watch() as watch:
            packed.step(tokens, state)
    return watch.count


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize(("bias", "most"), [(False, 14), (True, 16)])
def test_what_one_more_layer_costs_in_a_decoding_step(norm: str, bias: bool, most: int) -> None:
    """Six products (q, k and v are one; sums with the residual are part of them), two attentions, three norms, the
    activation, the keys and values put in their place, and one more sum for each bias that stands beside a residual."""
    two, three = (decoding_step(norm=norm, attention_bias=bias, decoder_layers=n) for n in (2, 3))
    more = three - two
    assert sum(more[name] for name in PRODUCTS) == 6
    assert more.total() <= most, more
    around = two.total() - 2 * more.total()
    assert around <= 3 + (norm == "pre"), two  # the embedding, its position, the output and a last norm


def test_the_engine_decodes_with_the_packed_twin() -> None:
    model = Transformer(Transformer.Config(d_model=4, d_ff=4, heads=1, source_vocabulary=9, target_vocabulary=9))
    assert isinstance(Torch([model]).models[0], Packed)


def test_the_largest_of_many_rows_are_found_without_sorting_the_vocabulary() -> None:
    scores = torch.randn(8, 64 * BLOCK + 5)
    with Watch() as watch:
        top(scores, 8)
    assert max(watch.sorted) <= 8 * BLOCK + 5


class Babble:
    """Writes without end; its own work is nothing."""

    limit = None

    def __init__(self) -> None:
        self.logits = torch.randn(V, generator=torch.Generator().manual_seed(0))
        self.logits[EOS] = -1e9

    def encode(self, source: Tensor, lengths: Tensor | None) -> list[tuple[int, ...]]:
        return [()] * len(source)

    def start(self, memory: list[tuple[int, ...]]) -> Rows:
        return Rows(memory)

    def step(self, tokens: Tensor, state: Rows) -> tuple[Tensor, Rows]:
        return torch.from_numpy(np.tile(self.logits, (len(tokens), 1))), state


def greedy_by_tokens(*args: Any) -> Any:
    return greedy(*args, scored=False)


@pytest.mark.parametrize(("search", "beam", "most"), [(beam_search, 4, 22), (greedy, 1, 11), (greedy_by_tokens, 1, 10)])
def test_what_a_step_of_the_search_costs_beside_the_model(search: Any, beam: int, most: int) -> None:
    """Log-probabilities and a look for NaN, what may not come, the best of each row and of each sentence."""
    counts = []
    for length in (5, 6):
        with Watch() as watch:
            search([Babble()], *padded([[4, 5, 3], [5, 3]]), DecodeOptions(beam=beam, max_length=length))
        counts.append(watch.count)
    assert (counts[1] - counts[0]).total() <= most, counts[1] - counts[0]


class Counted(Toy):
    """Remembers how often it encoded, and how many rows each step had."""

    def __init__(self) -> None:
        super().__init__(echo(V))
        self.encoded: list[int] = []
        self.rows: list[int] = []

    def encode(self, source: Tensor, lengths: Tensor | None) -> Any:
        self.encoded.append(len(source))
        return super().encode(source, lengths)

    def step(self, tokens: Tensor, state: Rows) -> tuple[Tensor, Rows]:
        self.rows.append(len(tokens))
        return super().step(tokens, state)


def counted(lengths: Sequence[int], **options: Any) -> Counted:
    """Translates sentences of these lengths into themselves."""
    toy, inputs = Counted(), [[9] * n for n in lengths]
    found = in_order(Torch([toy]).decode(inputs, range(len(inputs)), DecodeOptions(**options)))
    assert [list(group[0].tokens) for group in found] == inputs
    return toy


@pytest.mark.parametrize("beam", [1, 3])
def test_a_batch_takes_as_many_steps_as_its_longest_output_and_the_finished_leave(beam: int) -> None:
    lengths = [2, 6, 3, 3, 1]
    toy = counted(lengths, beam=beam)
    assert toy.encoded == [5]
    open_ = [sum(n >= written for n in lengths) for written in range(6 + 1)]  # a step more for the end symbol
    assert toy.rows == [open_[0], *(beam * n for n in open_[1:])]  # one row a sentence at first


def test_sampling_lets_go_of_what_has_ended() -> None:
    assert counted([2, 6, 3], sample=True, top_k=1).rows == [3] * 3 + [2] + [1] * 3


def test_the_encoder_runs_once_a_batch() -> None:
    assert counted([9] * 10, beam=2, batch=40).encoded == [4, 4, 2]  # ten tokens each, with the end symbol
