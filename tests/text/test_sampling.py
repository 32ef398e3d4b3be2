"""Subword sampling: the text stays, its pieces change, and the seed decides."""

import numpy as np
import pytest

from regard.errors import UserError
from regard.text import EOS, Splitter, Tokenizer

TEXTS = ["the small dogs sleep in the garden", "two gardeners are watering the smallest flowers"] * 30
TOKENIZER = Tokenizer.learn(TEXTS, "bpe", 400)
SEQUENCES = [np.array(ids, dtype="<u2") for ids in TOKENIZER.encode_batch(TEXTS)]


def split(chance: float, seed: int = 1, longest: int = 200) -> list[list[int]]:
    return [s.tolist() for s in Splitter(TOKENIZER, chance)(SEQUENCES, longest, np.random.PCG64(seed))]


@pytest.mark.parametrize("chance", [0.05, 0.5, 0.999])
def test_the_text_stays(chance: float) -> None:
    assert [TOKENIZER.decode(ids) for ids in split(chance)] == TEXTS


def test_a_chance_of_nearly_1_leaves_single_bytes_and_of_0_everything() -> None:
    bytes_ = [["Ġ", *text.replace(" ", "Ġ")] for text in TEXTS]
    assert [[TOKENIZER.token(i) for i in ids] for ids in split(1 - 2**-53)] == bytes_
    assert split(0.0) == [s.tolist() for s in SEQUENCES]


def test_each_merge_is_undone_with_the_chance_given() -> None:
    merged = {whole: (left, right) for whole, left, right in TOKENIZER.merges()}
    whole, (left, right) = next((w, parts) for w, parts in merged.items() if all(p in merged for p in parts))
    found = Splitter(TOKENIZER, 0.25)([np.array([whole])] * 20_000, 200, np.random.PCG64(1))
    split = [s.tolist() for s in found if len(s) > 1]
    assert len(split) / 20_000 == pytest.approx(0.25, abs=0.02)
    assert sum(s[0] == left for s in split) / len(split) == pytest.approx(0.75, abs=0.03)
    assert sum(s[-1] == right for s in split) / len(split) == pytest.approx(0.75, abs=0.03)


def test_the_seed_decides() -> None:
    assert split(0.3, seed=1) == split(0.3, seed=1)
    assert split(0.3, seed=1) != split(0.3, seed=2)


def test_equal_sentences_are_split_in_different_ways() -> None:
    assert len({tuple(ids) for ids in split(0.5)[::2]}) > 1


def test_what_would_grow_too_long_stays() -> None:
    longest = max(map(len, SEQUENCES))
    found = split(0.9, longest=longest)
    assert all(len(ids) <= longest for ids in found)
    assert any(ids == s.tolist() for ids, s in zip(found, SEQUENCES, strict=True))


def test_special_ids_are_never_made() -> None:
    assert all(token > EOS for ids in split(0.7) for token in ids)


def test_only_merges_can_be_undone() -> None:
    with pytest.raises(UserError, match="only kind 'bpe'"):
        Splitter(Tokenizer.learn(TEXTS, "unigram", 300), 0.1)
