"""HTML taken apart and put together: nothing is lost, tags stay nested, text is escaped."""

import time
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.serve.align import Alignment, by_place, located
from regard.serve.inline import tagged
from regard.serve.markup import VOID, Block, parse
from regard.serve.pages import Page


def raw(html: str) -> str:
    return "".join(p if isinstance(p, str) else p.raw for p in parse(html))


def texts(html: str) -> list[str]:
    return [p.text.strip() for p in parse(html) if isinstance(p, Block) and p.text.strip()]


def shouted(html: str) -> str:
    """The page as if a model shouted: each sentence in capitals, its words in their order."""
    page = Page(html)
    return in_order(page, [s.upper() for s in page.sentences])


def in_order(page: Page, translations: list[str]) -> str:
    return page.filled(translations, [by_place(*pair) for pair in page.marked(translations)])


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ("<p>one <b>two</b></p><p>three</p>", ["one two", "three"]),
        ("one<br>two<hr>three", ["one", "two", "three"]),
        ("<table><tr><td>a</td><td>b</td></tr></table>", ["a", "b"]),
        ("a<script>var x = '<p>no</p>';</script>b<style>p{}</style>c", ["a", "b", "c"]),
        ("a<code>x <b>y</b></code>b<pre>z</pre>c", ["a", "b", "c"]),
        ('a<span translate="no">x <span>y</span> z</span>b', ["a", "b"]),
        ("a<div class='big notranslate'>x<div>y</div></div>b", ["a", "b"]),
        ('<div class="translate">x</div>', ["x"]),
        ("a<textarea>x</textarea>b", ["a", "b"]),
        ("caf&eacute; &amp; &#116;ea &lt;b&gt;", ["café & tea <b>"]),
        ("<a href='x>y' title=\"<b>\">link</a>", ["link"]),
        ("a <!-- <b>no</b> --> b", ["a  b"]),
        ("<!DOCTYPE html><?php echo 1 ?><![CDATA[x]]>a", ["a"]),
        ("<p>open <b>never closed<p>next", ["open", "never closed", "next"]),
        ("<b>x <i>y</b> z</i>", ["x", "y", "z"]),
        ("1 < 2 and 3 > 2", ["1 < 2 and 3 > 2"]),
    ],
)
def test_blocks_of_text(html: str, found: list[str]) -> None:
    assert texts(html) == found
    assert raw(html) == html


PARTS = [
    "<", "</", ">", "b", "i>", "<p>", " ", "=", '"', "'", "<!--", "-->", "/", "<script>", "</script>", "<b>", "</b>",
    "<i>", "</i>", " translate=no", "&amp;", "word", "<!", "<?", "<code>", "</code>", "<br/>", "\n", "<![x", ".",
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=30).map("".join) | st.text())
def test_nothing_is_lost_whatever_the_input(html: str) -> None:
    assert raw(html) == html
    page = Page(html)
    same = in_order(page, [" ".join(s.split()) for s in page.sentences])
    assert sorted(tags(same)) == sorted(tags(html))


def tags(html: str) -> list[str]:
    found = [p for p in parse(html) if isinstance(p, str)]
    waiting = [mark for p in parse(html) if isinstance(p, Block) for mark in p.marks]
    while waiting:
        mark = waiting.pop()
        found += [mark.open, mark.close]
        waiting += mark.inner
    return [tag for tag in found if tag]


@pytest.mark.parametrize(
    "unit",
    [
        "<", "<!--", "<a ", "<b>", "</b>", "<b></i>", "<script>", "<code>", "<a '", "a&", "<b>x</b>", "<a =", "<![x",
        "<b></b>", "<wbr>", "<!---->",
    ],
)  # fmt: skip
def test_it_takes_linear_time(unit: str) -> None:
    start = time.process_time()
    page = Page("a " * 3900 + unit * (50_000 // len(unit)))
    in_order(page, page.sentences)
    assert time.process_time() - start < 2  # in square time it would be minutes


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>one <b>two</b> three</p>", "<p>ONE <b>TWO</b> THREE</p>"),
        ("<b>one <i>two <u>three</u></i></b>", "<b>ONE <i>TWO <u>THREE</u></i></b>"),
        ('<a href="?a=1&amp;b=2">one</a> two', '<a href="?a=1&amp;b=2">ONE</a> TWO'),
        ("one <img src=x alt=dog> two", "ONE <img src=x alt=dog> TWO"),
        ("one <img src=x>two", "ONE <img src=x>TWO"),
        ("<img src=x> one two", " <img src=x> ONE TWO"),
        ("one two <img src=x>", "ONE TWO <img src=x>"),
        ("one two<img src=x>", "ONE TWO<img src=x>"),
        ("one two<!-- note -->", "ONE TWO<!-- note -->"),
        ("one <i>two</i><!-- note --> three\n<!--", "ONE <i>TWO</i><!-- note --> THREE\n<!--"),
        ("one <a id=here></a>two", "ONE <a id=here></a>TWO"),
        ("a &lt;script&gt; &amp; b", "A &lt;SCRIPT&gt; &amp; B"),
        ("one&nbsp;", "ONE&nbsp;"),
        ("\n  <p>\n    one\n    two.\n    Three\n  </p>\n", "\n  <p>\n    ONE TWO.\n    THREE\n  </p>\n"),
        ("<td>12</td><td>a</td><td>&mdash;</td>", "<td>12</td><td>A</td><td>&mdash;</td>"),
        ("<b>One.</b> <i>***</i> Two.", "<b>ONE.</b> <i>***</i> TWO."),
        ("use <code>ls -l</code> here", "USE <code>ls -l</code> HERE"),
        ("<b>one<p>two</b>three", "<b>ONE<p>TWO</b>THREE"),
    ],
)
def test_tags_stay_around_their_words(html: str, expected: str) -> None:
    assert shouted(html) == expected


def test_tags_follow_their_words_when_the_order_changes() -> None:
    (block,) = parse("the <b>red</b> <i>house</i>")
    assert isinstance(block, Block)
    words = Alignment([(0, 3), (4, 7), (8, 13)], [(0, 2), (3, 7), (8, 12)], np.eye(3)[[0, 2, 1]])
    assert tagged("la casa roja", block.marks, words) == "la <i>casa</i> <b>roja</b>"


def test_no_word_is_in_two_elements_that_stood_side_by_side() -> None:
    (block,) = parse("<b>red</b> <i>house</i>")
    assert isinstance(block, Block)
    words = Alignment([(0, 3), (4, 9)], [(0, 4), (5, 9)], np.array([[0.6, 0.4], [0.9, 0.1]]))
    assert tagged("casa roja", block.marks, words) == "<i>casa</i> <b>roja</b>"


def test_a_word_that_was_half_in_each_of_two_elements_is_in_one() -> None:
    (block,) = parse("<b>foo</b><i>bar</i> baz")
    assert isinstance(block, Block)
    words = Alignment([(0, 6), (7, 10)], [(0, 1), (2, 3), (4, 5)], np.array([[1, 0], [0.8, 0.2], [0.9, 0.1]]))
    assert tagged("x y z", block.marks, words) == "<b>x y</b> <i>z</i>"


def test_in_a_very_long_block_tags_end_sentences() -> None:
    assert "<b>" not in parse("a " * 3000 + "<b>x</b>")
    assert "<b>" in parse("a " * 5000 + "<b>x</b>")


@pytest.mark.parametrize("depth", [100, 5000])
def test_deep_nesting_is_no_fault(depth: int) -> None:
    html = "<b>" * depth + "word" + "</b>" * depth
    assert shouted(html) == html.replace("word", "WORD")


def test_an_element_is_never_torn_in_two() -> None:
    (block,) = parse("<b>does not</b> go")
    assert isinstance(block, Block)
    words = Alignment(
        [(0, 4), (5, 8), (9, 11)], [(0, 2), (3, 6), (7, 10)], np.array([[0.4, 0.6, 0], [0, 0, 1], [0, 0.9, 0.1]])
    )
    assert tagged("ne va pas", block.marks, words).count("<b>") == 1


class Nesting(HTMLParser):
    """Fails where tags are not properly nested."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


NAMES = st.sampled_from(["b", "i", "a", "span", "p", "em"])
TREES = st.recursive(
    st.sampled_from(["dog", "cat. The", " ", "red house", "<br>", "&amp;", "<img src=x>"]),
    lambda inner: st.tuples(NAMES, st.lists(inner, max_size=3)).map(lambda t: f"<{t[0]}>{' '.join(t[1])}</{t[0]}>"),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(TREES, max_size=4).map(" ".join), st.randoms(use_true_random=False))
def test_what_was_well_formed_stays_so_whatever_the_translation_and_its_alignment(html: str, random: object) -> None:
    seed = random.randrange(2**31)  # type: ignore[attr-defined]
    numbers = np.random.default_rng(seed)

    def anyhow(pairs: list[tuple[str, str]]) -> list[Alignment]:
        found = []
        for one in (by_place(*pair) for pair in pairs):
            weights = numbers.random(one.weights.shape) ** 8
            found.append(Alignment(one.source, one.target, weights / weights.sum(-1, keepdims=True)))
        return found

    page = Page(html)
    words = ["x & y", "uno", "dos <tres> cuatro", ""]
    translations = [words[int(numbers.integers(len(words)))] for _ in page.sentences]
    out = page.filled(translations, anyhow(page.marked(translations)))
    checker = Nesting()
    checker.feed(out)
    checker.close()
    assert checker.open == []
    assert sorted(tags(out)) == sorted(tags(html))


def test_words_are_found_in_their_text() -> None:
    assert located("the cat sat", ["the", "cat", "sat"]) == [(0, 3), (4, 7), (8, 11)]
    assert located("banana a dog", ["<unk>", "a", "dog"]) == [(0, 6), (7, 8), (9, 12)]
    assert located("xx yy zz", ["<unk>", "<unk>", "<unk>"]) == [(0, 2), (3, 5), (6, 8)]
    assert located("don't stop.", ["don't", "stop", "."]) == [(0, 5), (6, 10), (10, 11)]
    assert located("日本語", ["日", "本", "語"]) == [(0, 1), (1, 2), (2, 3)]
    assert located("", ["<unk>"]) == [(0, 0)]
