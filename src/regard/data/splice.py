"""More sentences like those of a corpus: the beginning of one and the end of another that share two words there.

They are for a model to translate that another model is to learn from. What the first one was trained on it knows by
heart; what it makes of sentences it has never seen tells how it translates.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

from regard.errors import UserError

PATIENCE = 1000  # vain attempts in a row after which there is nothing new to be found


def spliced(lines: Sequence[str], count: int, seed: int = 0) -> Iterator[str]:
    """So many new sentences: none is among the lines, none comes twice."""
    sentences = [line.split() for line in lines]
    shared: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)  # -> sentence, second word
    for number, words in enumerate(sentences):
        for place in range(1, len(words) - 1):
            shared[words[place - 1], words[place]].append((number, place))
    seen = {" ".join(words) for words in sentences}
    places = [place for found in shared.values() if len(found) > 1 for place in found]
    draw, made, vain = random.Random(seed), 0, 0
    while made < count:
        if not places or vain == PATIENCE:
            raise UserError(
                f"{made:,} new sentences were found, not {count:,}: too few of these lines share two words in a row "
                "(words are told apart by spaces)"
            )
        number, place = draw.choice(places)
        first = sentences[number][: place + 1]
        other, there = draw.choice(shared[first[-2], first[-1]])
        text = " ".join(first + sentences[other][there + 1 :])
        vain = vain + 1 if text in seen else 0
        if not vain:
            seen.add(text)
            made += 1
            yield text
