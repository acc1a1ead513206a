import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError

from kernlet import CompactKernelClassifier, CompactKernelRegressor
from kernlet.compact.path import CompactPathDisplay

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def moons():
    return make_moons(300, noise=0.2, random_state=0)


@pytest.fixture(scope="module")
def auto(moons):
    return CompactKernelClassifier("auto", n_epochs=4, random_state=0).fit(*moons)


@pytest.fixture(scope="module")
def budget(moons):
    return CompactKernelClassifier(max_bytes=400, n_epochs=12, random_state=0).fit(*moons)


def test_every_size_of_a_path_is_drawn(auto):
    display = auto.plot_path()
    full = sorted((p for p in auto.path_ if p.is_full), key=lambda point: point.n_centers)
    assert display.sizes.tolist() == [point.n_centers for point in full]
    assert display.scores.tolist() == [point.score for point in full]
    assert display.chosen == auto.n_centers_
    assert display.ax_.get_xlabel() == "Centers"
    assert display.ax_.get_ylabel() == "Validated accuracy"
    assert display.ax_.get_xscale() == "log"
    np.testing.assert_array_equal(display.errorbar_[0].get_xdata(), display.sizes)
    assert f"chosen: {auto.n_centers_}" in display.ax_.get_legend().get_texts()[0].get_text()


def test_full_trials_of_a_budget_are_drawn_and_short_ones_are_not(budget):
    display = budget.plot_path(by="nbytes")
    full = [point for point in budget.path_ if point.is_full]
    assert 0 < len(full) < len(budget.path_)
    assert display.sizes.tolist() == sorted(point.nbytes for point in full)
    assert display.chosen == budget.nbytes_
    assert display.chosen in display.sizes
    assert display.ax_.get_xlabel() == "Bytes"


def test_it_draws_into_given_axes_with_given_lines(auto):
    _, ax = plt.subplots()
    display = CompactPathDisplay.from_estimator(auto, ax=ax, color="red", marker="s")
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert display.errorbar_[0].get_color() == "red"
    assert display.errorbar_[0].get_marker() == "s"


def test_a_regressor_is_drawn_too():
    X = np.linspace(0, 6, 200)[:, None]
    small = CompactKernelRegressor(5, n_epochs=3, random_state=0).fit(X, np.sin(X[:, 0]))
    display = small.plot_path()
    assert display.sizes.tolist() == [5]
    assert display.ax_.get_ylabel() == "Validated R²"


def test_the_score_that_was_chosen_by_is_named(moons):
    machine = CompactKernelClassifier(3, scoring="f1_macro", n_epochs=2, random_state=0)
    assert machine.fit(*moons).plot_path().ax_.get_ylabel() == "Validated f1_macro"


def test_what_cannot_be_drawn_is_refused(auto):
    with pytest.raises(ValueError, match=r'by=.size. must be "n_centers" or "nbytes"'):
        auto.plot_path(by="size")
    with pytest.raises(NotFittedError):
        CompactKernelClassifier().plot_path()
