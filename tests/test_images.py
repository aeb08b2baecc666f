"""Blur and shifts of images."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from maxplus import LMMClassifier
from maxplus.images import GaussianBlur, RandomShift


def slow_blur(image, sigma):
    """Return the image with each pixel replaced by a weighted sum, truncated at three sigma."""
    reach = int(3.0 * sigma + 0.5)
    weight = {k: np.exp(-0.5 * (k / sigma) ** 2) for k in range(-reach, reach + 1)}
    total = sum(weight.values())
    out = np.zeros_like(image)
    for r, c in np.ndindex(image.shape):
        for i in range(-reach, reach + 1):
            for j in range(-reach, reach + 1):
                if 0 <= r + i < image.shape[0] and 0 <= c + j < image.shape[1]:
                    out[r, c] += image[r + i, c + j] * weight[i] * weight[j] / total**2
    return out


def test_blur_is_a_weighted_mean_of_neighbours():
    images = np.random.default_rng(0).random((3, 6, 5))
    blurred = GaussianBlur(0.75, (6, 5)).fit_transform(images.reshape(3, 30))
    for row, image in zip(blurred, images, strict=True):
        assert np.allclose(row.reshape(6, 5), slow_blur(image, 0.75), atol=1e-12)


@given(st.integers(0, 10**6), st.floats(0.05, 3.0))
@settings(max_examples=40, deadline=None)
def test_blur_is_nonexpansive(seed, sigma):
    rng = np.random.default_rng(seed)
    X = rng.random((2, 36))
    a, b = GaussianBlur(sigma).fit_transform(X)
    assert np.abs(a - b).max() <= np.abs(X[0] - X[1]).max() * (1 + 1e-12)


def test_blur_of_zero_is_identity_and_keeps_types():
    X = np.random.default_rng(0).random((4, 16), np.float32)
    assert GaussianBlur(1.0).fit_transform(X).dtype == np.float32
    assert np.array_equal(GaussianBlur(0).fit_transform(X), X)


def test_certificate_on_blurred_images_holds_for_raw_images(digits):
    X, y = digits.X / 16, digits.y
    model = make_pipeline(GaussianBlur(0.6), LMMClassifier(30, warmup_epochs=20, random_state=0))
    model.fit(X, y)
    blur, clf = model
    radius = clf.certified_radius(blur.transform(X))
    rng = np.random.default_rng(0)
    assert np.median(radius) > 0.02
    for _ in range(20):
        signs = rng.choice([-1.0, 1.0], X.shape)
        moved = X + signs * (0.999 * radius)[:, None]
        assert np.array_equal(model.predict(moved), model.predict(X))


def test_random_shift_is_uniform():
    image = np.arange(1.0, 13.0).reshape(3, 4)
    shift = RandomShift(1, (3, 4))
    rows = shift(np.tile(image.ravel(), (4000, 1)), np.random.default_rng(0))
    padded = np.pad(image, 1)
    possible = {tuple(padded[r : r + 3, c : c + 4].ravel()): 0 for r in range(3) for c in range(3)}
    for row in rows:
        possible[tuple(row)] += 1
    assert len(possible) == 9
    assert min(possible.values()) > 4000 / 9 * 0.8
    again = shift(np.tile(image.ravel(), (4000, 1)), np.random.default_rng(0))
    assert np.array_equal(rows, again)
    square = np.arange(9.0).reshape(1, 9)
    assert np.array_equal(RandomShift(0)(square, np.random.default_rng(0)), square)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda X: GaussianBlur(-1).fit(X), "sigma must be a finite number >= 0; got -1"),
        (lambda X: GaussianBlur(float("nan")).fit(X), "sigma must be"),
        (lambda X: GaussianBlur().fit(X), "square images, but rows have 12 pixels"),
        (lambda X: GaussianBlur(shape=(3, 5)).fit(X), "has 15 pixels, but rows have 12"),
        (lambda X: GaussianBlur(shape=(-3, -4)).fit(X), r"integers >= 1, or None; got \(-3, -4\)"),
        (lambda X: GaussianBlur(shape=(3.5, 4)).fit(X), r"shape must be \(height, width\)"),
        (lambda X: GaussianBlur(shape=3).fit(X), r"shape must be \(height, width\)"),
        (lambda X: RandomShift(-1)(X, None), "pixels must be an integer >= 0; got -1"),
        (lambda X: RandomShift(0.5)(X, None), "pixels must be an integer >= 0"),
        (lambda X: RandomShift(1)(X, np.random.default_rng(0)), "square images"),
    ],
)
def test_image_transformers_reject_invalid_arguments(call, words):
    with pytest.raises(ValueError, match=words):
        call(np.zeros((2, 12)))


def test_blur_keeps_feature_names():
    X = np.zeros((2, 9))
    assert list(GaussianBlur().fit(X).get_feature_names_out()) == [f"x{p}" for p in range(9)]
    named = GaussianBlur().set_output(transform="default").fit(X)
    words = [f"pixel {p}" for p in range(9)]
    assert list(named.get_feature_names_out(words)) == words


def test_random_shift_can_be_cloned_and_searched():
    clf = clone(LMMClassifier(12, augment=RandomShift(np.int64(2), shape=(3, 4))))
    assert clf.augment.get_params() == {"pixels": 2, "shape": (3, 4)}
    assert clf.set_params(augment__pixels=1).augment.pixels == 1
    clf.set_params(augment__pixels=-1)
    with pytest.raises(ValueError, match="pixels must be an integer >= 0; got -1"):
        clf.augment(np.zeros((2, 12)), np.random.default_rng(0))
