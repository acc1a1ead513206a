"""Folds, and stacks of networks beside the same networks trained one by one."""

from dataclasses import replace

import array_api_strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernlet.compact.batches import BatchLoader, TrainingSet
from kernlet.compact.folds import (
    StackedBatches,
    _stacked,
    stacks_of,
    stratified_folds,
    train_stack,
    train_trials,
)
from kernlet.compact.inputs import Inputs
from kernlet.compact.network import CrossEntropy, KernelNetwork
from kernlet.compact.plan import STORAGE, StoragePlan
from kernlet.compact.scoring import ClassValidation
from kernlet.compact.train import TrainingConfig
from kernlet.compact.trainer import Candidate, Trainer
from kernlet.devices import NUMPY, Device, to_numpy


@given(
    groups=st.lists(st.integers(0, 6), min_size=1, max_size=60),
    n_folds=st.integers(2, 6),
    seed=st.integers(0, 5),
)
def test_folds_are_even_in_every_group(groups, n_folds, seed):
    groups = np.array(groups)
    folds = stratified_folds(groups, n_folds, np.random.RandomState(seed))
    held_out = np.concatenate([np.arange(0), *(fold for _, fold in folds)])
    counts = np.bincount(groups)
    assert sorted(held_out) == np.flatnonzero(counts[groups] > 1).tolist()
    for train, fold in folds:
        assert len(fold)
        assert sorted([*train, *fold]) == list(range(len(groups)))
    if folds:
        sizes = [len(fold) for _, fold in folds]
        assert max(sizes) - min(sizes) <= 1
        by_group = np.array([np.bincount(groups[fold], minlength=7) for _, fold in folds])
        assert np.ptp(by_group, axis=0).max() <= 1


N_ROWS, N_FEATURES = 90, 5


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    codes = random.integers(3, size=N_ROWS)
    return random.normal(size=(N_ROWS, N_FEATURES)) + 2 * np.eye(3, N_FEATURES)[codes], codes


def trainer_of(data, device=NUMPY):
    X, codes = data
    loss, weights = CrossEntropy(), np.linspace(0.5, 1.5, N_ROWS)
    table = loss.target_table(3)
    validation = ClassValidation(codes, weights)
    rows = np.arange(N_ROWS)
    training = TrainingSet(X, weights, codes, loss, validation, rows, rows[:0], table, 5 * table)
    batches = BatchLoader(X, codes, weights, table=table, inputs=Inputs(0.5, 2.0), device=device)
    return Trainer(training, batches, None, TrainingConfig(6, 16), seed=3)


SHAPES = [
    {"rank": rank, "width": width, "formats": STORAGE[storage]}
    for rank in (None, 2)
    for width in ("shared", "per_center")
    for storage in ("float32", "int4")
]
SHAPES += [
    {"is_asinh": True, "formats": STORAGE["int4"]},
    {"kernel": "rational_quadratic", "width": "per_center", "rank": 2},
    {"n_steps": 4, "formats": STORAGE["int4"]},
    {"n_steps": 2, "width": "per_feature"},
    {"n_entries": 1, "formats": STORAGE["int4"]},
]
every_shape = pytest.mark.parametrize(
    "shape", SHAPES, ids=lambda shape: " ".join(map(str, shape.values()))
)


def candidates_of(n_entries=None, **shape):
    plans = [StoragePlan(N_FEATURES, 3, n, **shape) for n in (7, 3, 12)]
    plans += [replace(plan, n_entries=n_entries) for plan in plans[:1]]
    smoothings = (None, 0.0, 0.2, 0.05)
    return [
        Candidate(plan, noise, smoothing)
        for plan, smoothing in zip(plans, smoothings, strict=True)
        for noise in (0.1, 0.3)
    ]


@pytest.mark.slow
@every_shape
def test_a_stack_is_its_networks_trained_one_by_one(data, shape):
    """A stack of one candidate, for each; their noise is drawn in the same order."""
    trainer = trainer_of(data)
    splits = stratified_folds(data[1], 5, np.random.RandomState(0))[:1]
    candidates = [replace(each, noise=0.1) for each in candidates_of(**shape)]
    stacked = train_stack(trainer, candidates, splits, [0], 1.0)
    for candidate, (outputs,) in zip(candidates, stacked, strict=True):
        ((expected,),) = train_stack(trainer, [candidate], splits, [0], 1.0)
        assert np.mean(np.abs(outputs - expected)) < 0.02 * np.abs(expected).mean()


@pytest.mark.slow
@every_shape
def test_trials_of_a_stack_are_stored_as_those_trained_alone(data, shape):
    trainer = trainer_of(data)
    rows = np.arange(N_ROWS)
    training = replace(trainer.training, train=rows[rows % 3 > 0], held_out=rows[rows % 3 == 0])
    trainer = replace(trainer, training=training, config=TrainingConfig(30, 16))
    candidates = candidates_of(**shape)
    trials = train_trials(trainer, candidates)
    for candidate, trial in zip(candidates, trials, strict=True):
        alone = trainer.trial(candidate)
        assert trial.candidate == alone.candidate
        assert trial.expansion.nbytes == alone.expansion.nbytes == trial.candidate.plan.nbytes
        assert trial.network.arrays().keys() == alone.network.arrays().keys()
        assert len(trial.losses) == len(alone.losses)
        expected = trial.expansion.decision_values(data[0][trial.rows])
        np.testing.assert_allclose(trial.outputs, expected, rtol=2e-3, atol=2e-3)
        errors = [np.mean(t.outputs.argmax(1) != data[1][t.rows]) for t in (trial, alone)]
        assert errors[0] == pytest.approx(errors[1], abs=0.2)
        tuned = trainer.finetune(trial)
        assert tuned.expansion.nbytes == trial.expansion.nbytes


def test_every_fold_has_the_outputs_of_its_held_out_rows(data):
    trainer, candidates = trainer_of(data), candidates_of(formats=STORAGE["int8"])
    splits = stratified_folds(data[1], 5, np.random.RandomState(0))
    some = train_stack(trainer, candidates[:2], splits, [1, 4], 1.0)
    assert [[len(of) for of in row] for row in some] == [[len(splits[k][1]) for k in (1, 4)]] * 2
    errors = np.mean(
        [
            np.mean(of.argmax(1) != data[1][splits[k][1]])
            for of, k in zip(some[0], (1, 4), strict=True)
        ]
    )
    assert errors < 0.4
    again = train_stack(trainer, candidates[:2], splits, [1, 4], 1.0)
    np.testing.assert_array_equal(again[1][1], some[1][1])


def test_stacks_of_strict_arrays_are_those_of_numpy(data):
    splits = stratified_folds(data[1], 5, np.random.RandomState(0))
    candidates = candidates_of(formats=STORAGE["int4"], rank=2)[:2]
    ours, theirs = (
        # few epochs: after many, a number that is rounded the other way makes another network
        train_stack(trainer_of(data, device), candidates, splits, [0, 1], 0.1)
        for device in (NUMPY, Device(array_api_strict))
    )
    for one, two in zip(ours, theirs, strict=True):
        for a, b in zip(one, two, strict=True):
            assert np.mean(np.abs(a - b)) < 0.05 * np.abs(a).mean()


def test_batches_of_a_stack_are_equally_many_rows_of_every_fold(data):
    trainer = trainer_of(data)
    subsets = [np.arange(0, 40), np.arange(50, 81)]
    batches = StackedBatches([trainer.batches] * 2, subsets)
    order = batches.shuffled(np.random.RandomState(0))
    assert order.shape == (2, 31)
    assert set(order[0]) < set(subsets[0])
    assert set(order[1]) == set(subsets[1])
    assert batches.rows(order[:, :4]).shape == (2, 4, N_FEATURES)
    np.testing.assert_array_equal(batches.rows(order)[1], trainer.batches.rows(order[1]))
    assert batches.targets(order).shape == (2, 31, 3)
    assert batches.weights(order).shape == (2, 31)


def test_stacks_hold_candidates_of_one_shape_and_similar_size():
    plan = StoragePlan(10, 1, 1)
    sizes, ranks = (2, 4, 8, 16, 32, 64, 2000), (None, 8)
    candidates = [
        Candidate(StoragePlan(10, 1, size, rank, STORAGE[storage]), 0.1)
        for rank in ranks
        for size in sizes
        for storage in ("int8", "int4")
    ]
    stacks = stacks_of(candidates, 5, 60)
    assert sorted(number for stack in stacks for number in stack) == list(range(len(candidates)))
    for stack in stacks:
        plans = [candidates[number].plan for number in stack]
        assert len({(plan.rank, plan.formats) for plan in plans}) == 1
        largest, smallest = (f(plan.n_centers for plan in plans) for f in (max, min))
        assert 60 * (largest - smallest) <= 2**14
        assert 5 * 60 * largest * len(stack) <= 2**18 or len(stack) == 1
    assert len(stacks) < len(candidates) / 2
    assert plan.n_centers == 1


def test_a_padded_stack_has_the_outputs_of_its_networks():
    random = np.random.default_rng(0)
    X = random.normal(size=(1, 6, 3)).astype(np.float32)
    networks = [
        KernelNetwork(
            random.normal(size=(n, 3)),
            random.normal(size=(2, n)),
            random.normal(size=2),
            np.zeros(1),
        )
        for n in (2, 5)
    ]
    stack, sizes = _stacked([[network] for network in networks])
    assert sizes.tolist() == [[2], [5]]
    assert stack.mask.sum(axis=(2, 3)).tolist() == [[4], [10]]
    outputs = to_numpy(stack.outputs(X))
    for network, of in zip(networks, outputs, strict=True):
        np.testing.assert_allclose(of[0], network.outputs(X[0]), rtol=1e-4, atol=1e-5)
