"""Grid masks are the paper's, and a place that matters is found."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from regard.errors import UserError
from regard.explain import image, image_steps
from regard.explain.picture import Grid, Picture, bilinear, blur


@pytest.mark.parametrize(("short", "long"), [(7, 256), (3, 4), (1, 5), (5, 5), (4, 9)])
def test_enlarging_is_pytorchs(short: int, long: int) -> None:
    grid = np.random.default_rng(0).random((short, short))
    theirs = F.interpolate(torch.tensor(grid)[None, None], (long, long), mode="bilinear", align_corners=False)[0, 0]
    weights = bilinear(short, long)
    np.testing.assert_allclose(weights @ grid @ weights.T, theirs.numpy(), atol=1e-12)


def plain_mask(bits: np.ndarray, size: tuple[int, int], cut: tuple[int, int]) -> np.ndarray:
    """The definition, pixel by pixel: the grid enlarged to one cell more than the image, then cut out."""
    h, w = bits.shape
    cell = [math.ceil(size[0] / h), math.ceil(size[1] / w)]
    mask = np.zeros(size)
    for y in range(size[0]):
        for x in range(size[1]):
            # centres of cells are whole numbers; beyond the first and the last the edge goes on
            a = min(max((y + cut[0] + 0.5) * h / ((h + 1) * cell[0]) - 0.5, 0), h - 1)
            b = min(max((x + cut[1] + 0.5) * w / ((w + 1) * cell[1]) - 0.5, 0), w - 1)
            i, j = min(int(a), h - 2), min(int(b), w - 2)
            top = bits[i, j] * (1 - b + j) + bits[i, j + 1] * (b - j)
            under = bits[i + 1, j] * (1 - b + j) + bits[i + 1, j + 1] * (b - j)
            mask[y, x] = top * (1 - a + i) + under * (a - i)
    return mask


def test_masks_are_the_papers() -> None:
    grid = Grid((20, 33), (4, 5), 0.4)
    masks = grid.draw(np.random.default_rng(9), 6)
    drawn = np.random.default_rng(9).random((6, 22))
    for mask, (y, x, *bits) in zip(masks, drawn, strict=True):
        cut = int(y * 5), int(x * 7)  # the cells are 5 x 7
        np.testing.assert_allclose(mask, plain_mask(np.array(bits).reshape(4, 5) < 0.4, (20, 33), cut), atol=1e-12)


def test_the_mean_of_every_pixel_is_what_is_kept() -> None:
    masks = Grid((30, 40), (3, 4), 0.3).draw(np.random.default_rng(0), 6000)
    assert masks.min() >= 0
    assert masks.max() <= 1
    np.testing.assert_allclose(masks.mean(0), 0.3, atol=0.03)


def test_the_shift_leaves_no_seam() -> None:
    """Without it, pixels in one cell would share a value; with it, neighbours differ in some masks everywhere."""
    masks = Grid((28, 28), (4, 4)).draw(np.random.default_rng(0), 400)
    steps = np.abs(np.diff(masks, axis=2)).mean((0, 1))
    assert steps.min() > steps.max() / 3


def test_it_converges_to_the_papers_map() -> None:
    """Against the expectation over all grids and shifts there are."""
    score = lambda images: images[:, 0, 0] * images[:, 3, 5] + images[:, 1, 2] ** 2  # noqa: E731
    masks = []
    for number in range(16):
        bits = np.array([number >> k & 1 for k in range(4)], dtype=float).reshape(2, 2)
        masks += [plain_mask(bits, (4, 6), (y, x)) for y in range(2) for x in range(3)]
    every = np.stack(masks)
    exact = np.tensordot(score(every), every, 1) / len(every) / 0.5
    found = image(score, np.ones((4, 6)), cells=2, masks=20_000)
    np.testing.assert_allclose(found.saliency.rise[0], exact, atol=0.02)
    values = (exact - score(every).mean()) / 0.5
    assert (np.abs(found.values - values) < 4.5 * found.errors).all()


def corner(images: np.ndarray) -> np.ndarray:
    """Two scores: how bright the upper right corner is, and the whole."""
    return np.stack([images[:, :10, 30:].mean((1, 2, 3)), images.mean((1, 2, 3))], 1)


def test_it_finds_what_the_score_looks_at() -> None:
    pixels = np.full((30, 40, 3), 200, dtype=np.uint8)
    found = image(corner, pixels, of=0, masks=2000, cells=6, seed=1)
    y, x = np.unravel_index(found.values.argmax(), found.values.shape)
    assert y < 10
    assert x >= 30
    far = found.values[18:, :20]
    assert found.values.max() > 40
    assert (np.abs(far) < 5 * found.errors[18:, :20]).all()
    (curves,) = found.curves(steps=20, orders=3)
    assert curves.deletion.auc < min(curves.deletion.random) - 20


def test_the_class_is_the_whole_images() -> None:
    pixels = np.random.default_rng(0).random((12, 15)).astype(np.float32)  # grey, and floats stay floats

    def score(images: np.ndarray) -> np.ndarray:
        assert images.dtype == np.float32
        assert images.shape[1:] == (12, 15)
        return np.stack([1 - images.mean((1, 2)), images.mean((1, 2)), images.max((1, 2))], 1)

    found = image(score, pixels, masks=64)
    assert found.of == int(score(pixels[None])[0].argmax())
    assert found.saliency.whole[0] == pytest.approx(score(pixels[None])[0].max())
    assert found.values.shape == (12, 15)
    assert len(list(image_steps(score, pixels, masks=64, batch=16))) == 4


def test_large_images_are_masked_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.explain.picture.HELD", 3 * 8 * 8 * 5)
    sizes = []

    def score(images: np.ndarray) -> np.ndarray:
        sizes.append(len(images))
        return images.mean((1, 2, 3))

    image(score, np.ones((8, 8, 3)), masks=32, batch=64)
    assert max(sizes) == 5


@pytest.mark.parametrize("fill", ["zeros", "mean", "blur"])
def test_hiding(fill: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (16, 20, 3)).astype(np.uint8)
    picture = Picture(pixels, fill)
    whole, none = picture.masked(np.stack([np.ones((16, 20)), np.zeros((16, 20))]))
    np.testing.assert_array_equal(whole, pixels)
    assert none.dtype == np.uint8
    if fill == "zeros":
        half = picture.masked(np.full((1, 16, 20), 0.5))[0]
        np.testing.assert_array_equal(half, np.rint(pixels / 2))
    if fill == "zeros":
        assert not none.any()
    else:
        np.testing.assert_allclose(none.mean((0, 1)), pixels.mean((0, 1)), atol=3)
        assert none.std() < pixels.std() / 3


def test_blur_keeps_a_plain_image_and_spreads_a_point() -> None:
    np.testing.assert_allclose(blur(np.full((9, 7), 5.0), 2.0), 5.0)
    point = np.zeros((41, 41))
    point[20, 20] = 1
    spread = blur(point, 2.0)
    assert spread.sum() == pytest.approx(1)
    assert spread[20, 20] == pytest.approx(1 / (2 * np.pi * 4), rel=0.02)


def test_mistakes_are_told() -> None:
    score = lambda images: images.mean((1, 2, 3))  # noqa: E731
    with pytest.raises(UserError, match="H x W"):
        image(score, np.ones(5))
    with pytest.raises(UserError, match="finite"):
        image(score, np.full((4, 4, 3), np.nan))
    with pytest.raises(UserError, match="fill"):
        image(score, np.ones((4, 4, 3)), fill="noise")
    with pytest.raises(UserError, match="no score 3"):
        image(score, np.ones((4, 4, 3)), of=3)
    with pytest.raises(UserError, match="cells"):
        image(score, np.ones((4, 4, 3)), cells=0)
