"""Rows that are pixels: how to tell, and augmentation by random transforms."""

import os
from dataclasses import replace

import array_api_strict
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose, assert_array_equal
from scipy import ndimage, sparse
from sklearn.datasets import load_digits

from kernlet.compact import batches as batches_module
from kernlet.compact.batches import AugmentedLoader, BatchLoader
from kernlet.compact.images import (
    Augmenter,
    affine_collection,
    are_images,
    background,
    random_affine,
)
from kernlet.compact.inputs import Inputs
from kernlet.compact.network import CrossEntropy, KernelNetwork
from kernlet.compact.plan import StoragePlan
from kernlet.compact.train import TrainingConfig, train_network
from kernlet.datasets import load
from kernlet.devices import NUMPY, Device, to_numpy

SIDE, N_ROWS = 10, 200
RNG = np.random.default_rng(0)
IMAGES = np.full((N_ROWS, SIDE, SIDE), -1.0)
IMAGES[:, 2:-2, 2:-2] = RNG.uniform(-1, 1, size=(N_ROWS, SIDE - 4, SIDE - 4))
X = IMAGES.reshape(N_ROWS, -1)
Y = RNG.integers(3, size=N_ROWS)
PLAIN = StoragePlan(SIDE**2, 3, 5)
BLOCKS, CURVED = replace(PLAIN, block=2), replace(PLAIN, is_asinh=True, n_steps=3)
DEVICES = pytest.mark.parametrize(
    "device", [NUMPY, Device(array_api_strict)], ids=["numpy", "strict"]
)
KINDS = pytest.mark.parametrize("kind", ["shift", "affine"])


def loader(rows=X, **options):
    return BatchLoader(rows, Y, np.ones(N_ROWS), table=np.eye(3), **options)


def rows_of(batches):
    return to_numpy(batches.rows(batches.as_indices(np.arange(batches.n_rows))))


def epoch_rows(batches, seed=0):
    batches.next_epoch(np.random.RandomState(seed))
    return rows_of(batches)


# -- Whether columns are pixels --------------------------------------------------------------


def blurred(side, seed=0):
    noise = np.random.default_rng(seed).normal(size=(300, side, side))
    return ndimage.gaussian_filter(noise, (0, 1, 1)).reshape(300, -1)


def test_smooth_square_images_of_even_side_are_images():
    assert are_images(blurred(14))
    assert are_images(blurred(16).astype(np.float32)[:40])
    framed = np.pad(blurred(16).reshape(-1, 16, 16), ((0, 0), (2, 2), (2, 2))).reshape(300, -1)
    assert are_images(framed)  # whose border is constant


def test_other_columns_are_not():
    random = np.random.default_rng(0)
    series = np.cumsum(random.normal(size=(300, 256)), axis=1)
    permuted = blurred(16)[:, random.permutation(256)]
    peaks = np.exp(-(((np.arange(256) - random.uniform(0, 256, (300, 1))) / 12) ** 2))
    one_hot = np.eye(196)[random.integers(196, size=500)]
    for rows in (series, permuted, peaks, one_hot, random.normal(size=(300, 196))):
        assert not are_images(rows)
    assert not are_images(blurred(15))  # odd
    assert not are_images(load_digits().data)  # 8 x 8: too small
    assert not are_images(blurred(16)[:, :-1])
    assert not are_images(np.ones((300, 256)))
    assert not are_images(blurred(16)[:1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "is_square"),
    [
        ("usps", True),
        ("mnist", True),
        ("optdigits", False),
        ("satimage", False),
        ("letter", False),
        ("sonar", False),
        ("mushroom", False),
    ],
)
def test_images_among_the_data_sets(name, is_square):
    if not os.environ.get("KERNLET_DATA"):
        pytest.skip("KERNLET_DATA is not set: it names the folder of the data sets")
    assert are_images(load(name).X) == is_square


# -- Transforms ------------------------------------------------------------------------------


def test_shifts_are_rolls_and_keep_the_sum_of_images_with_an_empty_border():
    augmenter = Augmenter("shift", SIDE, -1.0, NUMPY)
    moved = [augmenter.transformed(augmenter.columns(X), number) for number in range(9)]
    rolls = [
        np.roll(IMAGES, (i, j), axis=(1, 2)).reshape(N_ROWS, -1).astype(np.float32)
        for i in (-1, 0, 1)
        for j in (-1, 0, 1)
    ]
    for rows in moved:
        assert sum(np.allclose(rows, roll, atol=1e-6) for roll in rolls) == 1
        assert_allclose(rows.sum(axis=1), X.sum(axis=1), rtol=1e-5)
    assert len({rows.tobytes() for rows in moved}) == 9


@DEVICES
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 255), st.integers(2, 9))
def test_affine_transforms_are_those_of_scipy(device, number, side):
    image = np.random.default_rng(number).uniform(size=(side, side))
    augmenter = Augmenter("affine", side, 0.5, device)
    matrices, moves = affine_collection()
    matrix, middle = matrices[number], np.full(2, (side - 1) / 2)
    offset = middle - matrix @ middle - moves[number]
    expected = ndimage.affine_transform(
        image, matrix, offset, order=1, mode="grid-constant", cval=0.5
    )
    ours = to_numpy(augmenter.transformed(augmenter.columns(image.reshape(1, -1)), number))
    assert_allclose(ours.reshape(side, side), expected, atol=1e-5)


def test_affine_transforms_rotate_scale_and_move_a_little():
    matrices, moves = random_affine(1000, np.random.default_rng(0))
    sizes = 1 / np.sqrt(np.linalg.det(matrices))
    angles = np.degrees(np.arctan2(matrices[:, 0, 1], matrices[:, 0, 0]))
    for values, limit in ((angles, 9), (sizes - 1, 0.1), (moves, 1.1)):
        assert 0.98 * limit < np.abs(values).max() <= limit + 1e-9


def test_a_quarter_of_the_images_stays_sharp():
    augmenter = Augmenter("affine", SIDE, -1.0, NUMPY)
    columns = augmenter.columns(X)
    moved = [augmenter.transformed(columns, number) for number in range(augmenter.n_transforms)]
    n_unchanged = sum(np.allclose(rows, X, atol=1e-6) for rows in moved)
    assert n_unchanged == augmenter.n_transforms / 4


def test_the_background_is_the_median_of_the_border():
    assert background(X) == -1
    assert background(-X) == 1


# -- The loader ------------------------------------------------------------------------------


@DEVICES
@KINDS
@pytest.mark.parametrize("cached_bytes", [2**30, 0])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, lambda X: X.astype("f4")])
def test_rows_change_from_epoch_to_epoch(monkeypatch, device, kind, cached_bytes, container):
    monkeypatch.setattr(batches_module, "CACHED_BYTES", cached_bytes)
    plain = loader(container(X), inputs=Inputs(0.5, 2.0), device=device, augment=kind)
    before = rows_of(plain)
    batches = plain.augmented()
    assert batches.is_cached == (cached_bytes > 0)
    first, second = (epoch_rows(batches, seed) for seed in (0, 1))
    assert (first != second).any(axis=1).mean() > 0.2
    assert (first != before).any(axis=1).mean() > 0.2
    again = plain.augmented()
    for seed, rows in ((0, first), (1, second)):
        assert_array_equal(epoch_rows(again, seed), rows)
    assert_array_equal(rows_of(plain), before)  # for scores
    assert first.min() >= np.float32((-1 - 0.5) / 2)
    if kind == "shift":
        assert_allclose(first.sum(axis=1), before.sum(axis=1), rtol=1e-4)
    numpy_rows = epoch_rows(loader(inputs=Inputs(0.5, 2.0), augment=kind).augmented())
    assert_allclose(first, numpy_rows, atol=1e-5)


@KINDS
def test_shuffling_begins_an_epoch_and_targets_stay(kind):
    plain = loader(augment=kind)
    batches = plain.augmented()
    numbers = np.arange(0, N_ROWS, 3)
    subset, again = batches.subset(numbers), plain.subset(numbers).augmented()
    order = subset.shuffled(np.random.RandomState(0))
    assert set(order) == set(numbers)
    assert_array_equal(again.shuffled(np.random.RandomState(0)), order)
    assert_array_equal(again.rows(order), subset.rows(order))
    assert (subset.rows(order) != plain.rows(order)).any(axis=1).mean() > 0.2
    assert_array_equal(subset.targets(order), plain.targets(order))
    assert batches.augmented() is batches


def test_the_background_is_that_of_training_rows():
    rows, train = X.copy(), np.arange(20)
    rows[20:] = 7.0
    ours = loader(rows, augment="affine").subset(train).augmented()
    ours.shuffled(np.random.RandomState(0))
    assert ours.rows(train).max() <= 1


def test_without_augment_nothing_is_drawn():
    plain, random = loader(), np.random.RandomState(0)
    assert plain.augmented() is plain
    assert_array_equal(plain.shuffled(random), np.random.RandomState(0).permutation(N_ROWS))


def test_transforms_come_before_block_means_and_columns_are_mapped():
    train = np.arange(N_ROWS)
    plain = loader(augment="shift")
    for kind in (BLOCKS, CURVED):
        theirs = epoch_rows(plain.augmented())
        mapped = plain.for_plan(kind, train)
        assert isinstance(mapped.augmented(), AugmentedLoader)
        strict = loader(augment="shift", device=Device(array_api_strict)).for_plan(kind, train)
        ours = epoch_rows(mapped.augmented())
        assert_allclose(ours, mapped.inputs(theirs), atol=1e-6)
        assert_allclose(epoch_rows(strict.augmented()), ours, atol=1e-5)


def test_torch_rows_are_those_of_numpy():
    pytest.importorskip("torch")
    from kernlet.devices import find_device

    torch = find_device("torch")
    for kind in (PLAIN, BLOCKS, CURVED):
        ours, theirs = (
            epoch_rows(loader(augment="affine", **options).for_plan(kind, Y).augmented())
            for options in ({}, {"device": torch})
        )
        assert_allclose(to_numpy(theirs), ours, atol=1e-5)


def test_rows_that_are_not_square_images_are_refused():
    with pytest.raises(ValueError, match="X has 99 columns, which are not the pixels of a square"):
        loader(X[:, 1:], augment="shift")


@DEVICES
@pytest.mark.parametrize("cached_bytes", [2**30, 0])
def test_training_sees_the_images_of_each_epoch(monkeypatch, device, cached_bytes):
    monkeypatch.setattr(batches_module, "CACHED_BYTES", cached_bytes)
    loss = CrossEntropy()

    def losses(augment):
        plain = loader(inputs=Inputs(-0.5, 0.5), device=device, augment=augment)
        batches = plain.subset(np.arange(0, N_ROWS, 2)).augmented()
        weights, intercept = np.zeros((3, 4)), np.zeros(3)
        network = KernelNetwork(rows_of(plain)[:4], weights, intercept, np.array([-4.0]))
        random = np.random.RandomState(0)
        config = TrainingConfig(4, batch_size=30, noise=0.1)
        return train_network(network.map(device.send), loss, batches, config, random).losses

    ours = losses("affine")
    assert ours == losses("affine")
    assert ours != losses("shift")
    assert np.isfinite(ours).all()
