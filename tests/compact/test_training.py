import numpy as np
import pytest

from kernlet.compact.train import RATES, Effort, usual_batch, usual_epochs


@pytest.mark.parametrize(
    ("n_rows", "batch_size"),
    [(1, 16), (128, 16), (136, 17), (800, 100), (2048, 256), (49_999, 256), (50_000, 512)],
)
def test_batches_are_an_eighth_of_few_rows(n_rows, batch_size):
    assert usual_batch(n_rows) == batch_size


@pytest.mark.parametrize(
    ("n_rows", "n_epochs"), [(1, 120), (18_000, 120), (60_000, 36), (1_000_000, 10)]
)
def test_epochs_become_fewer_with_more_rows(n_rows, n_epochs):
    assert usual_epochs(n_rows) == n_epochs


def test_a_recipe_has_the_rates_and_epochs_of_the_effort():
    recipe = Effort(10, 32, noise=0.3, learning_rate=2.0).recipe(0.5, share=0.25)
    assert (recipe.n_epochs, recipe.batch_size, recipe.noise) == (3, 32, 0.3)
    np.testing.assert_allclose(list(recipe.rates.values()), list(RATES.values()))
