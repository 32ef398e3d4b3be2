"""From a recipe's files to a task that can be trained: tokenizers learned once, tokens cached, dev pairs set apart."""

import hashlib
import heapq
import json
import random
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config import Recipe
from regard.data.cache import TokenCache, fingerprint
from regard.data.formats import Report, read_pairs
from regard.data.sets import resolve
from regard.errors import UserError
from regard.files import write_text
from regard.memory import give_back_freed_memory
from regard.tasks.answering import prepare as prepare_answering
from regard.tasks.classification import prepare as prepare_classification
from regard.tasks.language import prepare as prepare_language
from regard.tasks.masked import prepare as prepare_masked
from regard.tasks.prompted import PromptedTask, limits
from regard.tasks.scores import METRICS, require
from regard.tasks.tagging import prepare as prepare_tagging
from regard.tasks.task import HELD_OUT, Asked, Pairs, Task
from regard.tasks.translation import TranslationTask
from regard.tasks.twoway import prepare as prepare_two_way
from regard.text import Tokenizer

LARGE = 200_000
Tell = Callable[[dict[str, Any]], None]

HELD_OUT_SHARE, HELD_OUT_MOST = 0.02, 1000


@dataclass
class Corpus:
    """Training pairs that can be read again and again, and what identifies them."""

    read: Callable[[Report], Iterable[tuple[str, str]]]
    facts: dict[str, Any]


def absolute_paths(recipe: Recipe, base: Path | None) -> Recipe:
    """The recipe with every data file found and named in full, so that the run can be resumed from anywhere."""

    def find(paths: Sequence[str]) -> tuple[str, ...]:
        return tuple(str(resolve(path, folder=base).absolute()) for path in paths)

    found = {name: find(getattr(recipe.data, name)) for name in ("train", "dev", "test")}
    return recipe.model_copy(update={"data": recipe.data.model_copy(update=found)})


def training_corpus(recipe: Recipe, pairs: Pairs | None) -> Corpus:
    if pairs is not None:
        digest = hashlib.sha256()
        for source, target in pairs:
            digest.update(f"{source}\t{target}\n".encode())
        return Corpus(lambda report: _counted(pairs, report), {"memory": digest.hexdigest()})
    if not recipe.data.train:
        raise UserError("the recipe names no training data: set data.train to one .tsv or .jsonl file, or to two files")
    paths = [Path(p) for p in recipe.data.train]
    return Corpus(lambda report: _texts(recipe, paths, report), fingerprint(paths))


def _counted(pairs: Pairs, report: Report) -> Iterator[tuple[str, str]]:
    for source, target in pairs:
        if not source.strip() or not target.strip():
            report.empty += 1
            continue
        report.pairs += 1
        yield source, target


def _texts(recipe: Recipe, paths: Sequence[Path], report: Report) -> Iterator[tuple[str, str]]:
    data = recipe.data
    found = read_pairs(paths, max_chars=data.max_chars, skip_bad=data.skip_bad, keys=data.keys, report=report)
    return ((pair.source, pair.target) for pair in found)


def small_set(recipe: Recipe, paths: Sequence[str], report: Report | None = None) -> list[tuple[str, str]]:
    """A dev or test set, which fits in memory."""
    return list(_texts(recipe, [Path(p) for p in paths], report or Report())) if paths else []


def prepare_translation(asked: Asked) -> tuple[TranslationTask, dict[str, Any]]:
    """The task, and the facts that must be the same when the run is resumed."""
    recipe, folder, tell, dev = asked.recipe, asked.folder, asked.tell, asked.dev
    corpus = training_corpus(recipe, asked.pairs)
    tokenizers = (asked.parent.source, asked.parent.target) if asked.parent else None
    require(recipe.score, METRICS[recipe.task])
    sets = {}
    for name, paths in (("dev", recipe.data.dev if dev is None else ()), ("test", recipe.data.test)):
        report = Report()
        sets[name] = small_set(recipe, paths, report)
        if any(report.dropped.values()):
            tell({"event": "warning", "text": f"the {name} set: {report}"})
    dev, test = dev or sets["dev"], sets["test"]
    threshold = -1
    if not dev:
        threshold, dev = _hold_out(corpus)
        first, second = recipe.data.keys
        lines = [json.dumps({first: source, second: target}, ensure_ascii=False) + "\n" for source, target in dev]
        write_text(folder / HELD_OUT, "".join(lines))
        tell({"event": "prepare", "text": f"no dev set given: {len(dev)} training pairs are held out"})
    count = _survey(corpus, threshold, {"dev": dev, "test": test}, tell)
    source, target = _tokenizers(recipe, folder, corpus, threshold, count, tell, tokenizers)
    give_back_freed_memory()  # of learning, which takes more than all else here
    cache = _cache(recipe, folder, corpus, threshold, source, target, tell)
    for tokenizer in (source, target):
        tokenizer.forget()
    give_back_freed_memory()
    facts = {
        "data": corpus.facts,
        "pairs": len(cache),
        "tokenizers": [source.checksum, target.checksum],
    }
    kind = PromptedTask if recipe.writes_on else TranslationTask
    task = kind(recipe, source, target, cache, dev, test)
    if dev and not any(task.dev_batches()):
        raise UserError(f"every dev pair is longer than data.max_length = {recipe.data.max_length}: none can be scored")
    return task, facts


def _hold_out(corpus: Corpus) -> tuple[int, list[tuple[str, str]]]:
    """Some pairs chosen by their source's hash, so that no held-out source is also trained on."""
    count = sum(1 for _ in corpus.read(Report()))
    if count < 2:
        raise UserError(f"{count} usable training pairs are too few to hold any out; give data.dev")
    wanted = min(HELD_OUT_MOST, max(1, int(count * HELD_OUT_SHARE)))
    smallest = heapq.nsmallest(wanted, (_hash(source) for source, _ in corpus.read(Report())))
    threshold = smallest[-1]
    return threshold, [pair for pair in corpus.read(Report()) if _hash(pair[0]) <= threshold]


def _hash(source: str) -> int:
    return zlib.crc32(source.encode("utf-8", "surrogatepass"))


def _training(corpus: Corpus, threshold: int, report: Report) -> Iterator[tuple[str, str]]:
    return (pair for pair in corpus.read(report) if threshold < 0 or _hash(pair[0]) > threshold)


def _survey(corpus: Corpus, threshold: int, sets: dict[str, Pairs], tell: Tell) -> int:
    """The number of training pairs. Scores on sentences that were trained on flatter: if any are, it is said here."""
    wanted = {name: {_hash(s) * 2**32 + _hash(t) for s, t in pairs} for name, pairs in sets.items()}
    either = set().union(*wanted.values())
    count, seen = 0, set()
    for source, target in _training(corpus, threshold, Report()):
        count += 1
        if count == LARGE:  # the rest will take a while
            tell({"event": "prepare", "text": "reading the training pairs"})
        if (found := _hash(source) * 2**32 + _hash(target)) in either:
            seen.add(found)
    for name, hashes in wanted.items():
        if both := len(hashes & seen):
            share = both / len(hashes)
            text = f"{both} of {len(hashes)} {name} pairs ({share:.1%}) are also training pairs: scores will flatter"
            tell({"event": "warning", "text": text})
    return count


def _tokenizers(
    recipe: Recipe,
    folder: Path,
    corpus: Corpus,
    threshold: int,
    count: int,
    tell: Tell,
    given: tuple[Tokenizer, Tokenizer] | None,
) -> tuple[Tokenizer, Tokenizer]:
    """Learned from the training text alone, once, before the first step; kept in the run's folder."""
    paths = folder / "tokenizer.json", folder / "tokenizer.target.json"
    if given is None and paths[0].exists():
        source = Tokenizer.load(paths[0])
        return source, source if recipe.tokenizer.shared else Tokenizer.load(paths[1])
    if given is None:
        kind, size, share = recipe.tokenizer.kind, recipe.tokenizer.size, recipe.tokenizer.pairs / max(1, count)
        tell({"event": "prepare", "text": f"learning the tokenizer: {kind}, up to {size:,} tokens"})

        def pairs() -> Iterator[tuple[str, str]]:
            # Different words are counted in memory, and a larger corpus has more of them.
            draw = random.Random(recipe.seed).random
            return (pair for pair in _training(corpus, threshold, Report()) if share >= 1 or draw() < share)

        if recipe.tokenizer.shared:
            source = target = Tokenizer.learn((text for pair in pairs() for text in pair), kind, size)
        else:
            source = Tokenizer.learn((s for s, _ in pairs()), kind, size)
            target = Tokenizer.learn((t for _, t in pairs()), kind, size)
    else:
        source, target = given
    if source.checksum != target.checksum:
        target.save(paths[1])
    source.save(paths[0])  # last: it says that both are there
    return source, target


def _cache(
    recipe: Recipe, run: Path, corpus: Corpus, threshold: int, source: Tokenizer, target: Tokenizer, tell: Tell
) -> TokenCache:
    folder, report = run / "tokens", Report()
    sides = limits(recipe, source) if recipe.writes_on else (recipe.data.max_length,) * 2
    longest = [min(side, recipe.train.batch_tokens - 1) for side in sides]
    facts: dict[str, Any] = {
        "data": corpus.facts,
        "sides": [*recipe.data.train, *recipe.data.keys],  # in their order: which is the source
        "tokenizers": [source.checksum, target.checksum],
        "max_length": longest,
        "cut": recipe.task == "summarisation",
        "max_chars": recipe.data.max_chars,
        "skip_bad": recipe.data.skip_bad,
        "held_out": threshold,
    }
    if folder.exists():
        cache = TokenCache.open(folder)
        if cache.meta["facts"] == facts:
            return cache
    tell({"event": "prepare", "text": "tokenising the training pairs"})
    cache = TokenCache.build(
        folder,
        _training(corpus, threshold, report),
        source,
        target,
        max_length=(longest[0], longest[1]),
        cut=facts["cut"],
        facts=facts,
    )
    if not len(cache):
        raise UserError(f"no training pair is left: {report}, {cache.meta['dropped']} longer than {longest[1]} tokens")
    long = cache.meta["dropped"]
    dropped = f", {long:,} longer than {longest[1]} tokens left out" if long else ""
    tell({"event": "prepare", "text": f"{len(cache):,} training pairs ({report}{dropped}), vocabulary {len(source):,}"})
    return cache


PREPARE: dict[str, Callable[[Asked], tuple[Task, dict[str, Any]]]] = {
    "translation": prepare_translation,
    "summarisation": prepare_translation,
    "masked": prepare_masked,
    "two-way": prepare_two_way,
    "classification": prepare_classification,
    "language": prepare_language,
    "tagging": prepare_tagging,
    "answering": prepare_answering,
}
