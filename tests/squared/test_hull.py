"""The hull perceptron, and removal against the rule applied by hand."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from kernlet import HullPerceptronClassifier, Removal
from kernlet.squared import hull
from kernlet.squared.hull import first_stop, stop_criteria
from support.callbacks import ScoringMonitor, needs_callbacks


def moons(m=150, seed=0):
    return make_moons(m, noise=0.3, random_state=seed)


def test_it_is_the_machine_of_squared_errors():
    """LIBLINEAR solves 1/2 |w|^2 + C sum slack^2 with the intercept in w."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    ours = HullPerceptronClassifier(0.5, kernel="linear", tol=1e-10).fit(X, y)
    peer = LinearSVC(C=0.5, loss="squared_hinge", dual=False, tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=1e-5)


def test_decision_values_margin_and_gap_fit_together():
    X, y = moons()
    machine = HullPerceptronClassifier(2.0, gamma=1.0, tol=1e-11).fit(X, y)
    signs = np.where(y == 1, 1.0, -1.0)
    alpha = np.zeros(len(X))
    alpha[machine.support_indices_] = machine.alpha_[0]
    margins = signs * machine.decision_function(X)
    slack = np.maximum(0.0, 1.0 - margins)
    n2 = machine.margin_[0] ** 2  # at the optimum
    np.testing.assert_allclose(alpha, 2 * 2.0 * n2 * slack, atol=1e-8)
    norm = machine.expansion_.feature_norms()[0] ** 2 + machine.expansion_.intercept[0] ** 2
    assert norm + 2 * 2.0 * (slack**2).sum() == pytest.approx(1 / n2, rel=1e-8)
    assert machine.gap_ <= 1e-11
    assert machine.alpha_.sum() == pytest.approx(1.0)
    assert not hasattr(machine, "removal_path_")


@pytest.mark.parametrize("solver", ["mdm", "sk"])
def test_both_solvers_keep_the_promised_gap(solver):
    X, y = moons()
    exact = HullPerceptronClassifier(gamma=1.0, tol=1e-11).fit(X, y)
    machine = HullPerceptronClassifier(gamma=1.0, solver=solver, tol=1e-2).fit(X, y)
    assert 0 <= machine.gap_ <= 1e-2
    norm = exact.margin_[0]
    assert norm * (1 - 0.01) <= machine.margin_[0] <= norm * (1 + 1e-9)
    agree = machine.predict(X) == exact.predict(X)
    assert agree.mean() > 0.97


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_every_kernel(kernel):
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    machine = HullPerceptronClassifier(kernel=kernel, coef0=1.0).fit(X, y)
    assert machine.score(X, y) > 0.95


def test_a_kernel_without_a_feature_space_is_refused():
    X, y = moons()
    with pytest.raises(ValueError, match="positive semi-definite kernel"):
        HullPerceptronClassifier(kernel="sigmoid").fit(X, y)


def test_weight_two_is_the_row_twice():
    X, y = moons()
    weight = np.where(np.arange(150) < 40, 2.0, 1.0)
    heavy = HullPerceptronClassifier(gamma=1.0, tol=1e-11).fit(X, y, weight)
    twice = HullPerceptronClassifier(gamma=1.0, tol=1e-11)
    twice.fit(np.vstack([X, X[:40]]), np.r_[y, y[:40]])
    np.testing.assert_allclose(heavy.decision_function(X), twice.decision_function(X), atol=1e-7)
    assert heavy.n_centers_ == twice.n_centers_ < len(twice.support_indices_)


def test_a_class_of_weight_nothing_is_never_predicted():
    X, y = load_iris(return_X_y=True)
    machine = HullPerceptronClassifier(class_weight={0: 1.0, 1: 1.0, 2: 0.0}).fit(X, y)
    assert set(machine.predict(X)) == {0, 1}
    assert machine.support_indices_.max() < 100


def test_more_classes_share_centers_and_equal_one_vs_rest():
    X, y = load_iris(return_X_y=True)
    machine = HullPerceptronClassifier(gamma=0.5, tol=1e-10).fit(X, y)
    for number in range(3):
        alone = HullPerceptronClassifier(gamma=0.5, tol=1e-10).fit(X, y == number)
        np.testing.assert_allclose(
            machine.decision_function(X)[:, number], alone.decision_function(X), atol=1e-7
        )
    assert machine.margin_.shape == (3,)
    assert np.isscalar(machine.gap_)
    np.testing.assert_allclose(machine.alpha_.sum(axis=1), 1.0)
    assert machine.n_centers_ == len(machine.center_indices_) <= len(machine.support_indices_)


def test_a_limit_of_steps_warns_with_the_gap_reached():
    X, y = moons()
    with pytest.warns(ConvergenceWarning, match=r"relative duality gap of up to .* Raise it"):
        machine = HullPerceptronClassifier(max_iter=5).fit(X, y)
    assert machine.gap_ > 1e-3
    assert machine.n_iter_ == 5


def test_no_digits_left_warns_with_a_sentence():
    X = np.repeat(moons()[0], 2, axis=0)
    y = np.tile([0, 1], 150)
    with pytest.warns(ConvergenceWarning, match="lower C"):
        HullPerceptronClassifier(C=1e16).fit(X, y)


def test_the_cache_may_be_small():
    X, y = moons()
    small = HullPerceptronClassifier(cache_size=0.005).fit(X, y)
    assert small.gap_ <= 1e-3


@needs_callbacks
def test_the_machine_so_far_predicts_with_rows_far_from_the_origin():
    X, y = moons(900)
    monitor = ScoringMonitor(scoring="accuracy")
    machine = HullPerceptronClassifier(gamma=1.0, tol=1e-6).set_callbacks(monitor)
    machine.fit(X + 1e3, y)
    scores = [line["accuracy"] for line in monitor.get_logs().data]
    assert len(scores) > 2
    assert scores[-1] > 0.85


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"C": 0.0}, "'C' parameter"),
        ({"solver": "wolfe"}, "'solver' parameter"),
        ({"removal": "iterative"}, "'removal' parameter"),
        ({"tol": -1.0}, "'tol' parameter"),
        ({"max_iter": -2}, "'max_iter' parameter"),
        ({"C": 1e-320}, "nearer to 1"),
        ({"C": 1e308, "class_weight": {0: 1e10, 1: 1.0}}, "overflows"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters, sentence):
    X, y = moons()
    with pytest.raises(ValueError, match=sentence):
        HullPerceptronClassifier(**parameters).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"start": -0.1}, "'start' parameter of Removal"),
        ({"step": "0.1"}, "'step' parameter of Removal"),
        ({"rounds": 0}, "'rounds' parameter of Removal"),
        ({"cv": 1}, "'cv' parameter of Removal"),
        ({"size": "mean"}, "'size' parameter of Removal"),
        ({"which": "all"}, "'which' parameter of Removal"),
        ({"stop": "never"}, "'stop' parameter of Removal"),
    ],
)
def test_a_removal_checks_its_values(parameters, sentence):
    with pytest.raises(ValueError, match=sentence):
        Removal(**parameters)


def test_a_removal_survives_clone_and_repr():
    machine = HullPerceptronClassifier(removal=Removal(rounds=3, cv=5))
    again = clone(machine)
    assert again.removal == machine.removal == Removal(rounds=3, cv=5)
    assert again.get_params()["removal"] == Removal(rounds=3, cv=5)
    text = " ".join(repr(machine).split())
    assert "Removal(start=0.5, step=0.025, rounds=3, size='initial', cv=5, which='rows'," in text


def exact(**parameters):
    return HullPerceptronClassifier(2.0, gamma=1.0, tol=1e-10, **parameters)


def alpha_of(machine, m):
    alpha = np.zeros(m)
    alpha[machine.support_indices_] = machine.alpha_[0]
    return alpha


def by_hand(X, y, n_rounds, size, which):
    """The rows left after each removal, by plain trainings."""
    rows = np.arange(len(X))
    kept = []
    for k in range(n_rounds):
        alpha = alpha_of(exact().fit(X[rows], y[rows]), len(rows))
        threshold = (0.5 + 0.025 * k) / (len(X) if size == "initial" else len(rows))
        rows = rows[(alpha >= threshold) | ((alpha == 0) if which == "support" else False)]
        kept.append(rows)
    return kept


@pytest.mark.parametrize("which", ["rows", "support"])
@pytest.mark.parametrize("size", ["initial", "current"])
def test_the_rounds_are_those_of_plain_trainings(size, which):
    X, y = moons(200)
    machine = exact(removal=Removal(rounds=4, size=size, which=which)).fit(X, y)
    path = machine.removal_path_
    assert len(path) > 2
    kept = by_hand(X, y, len(path) - 1, size, which)
    assert [record.n_rows for record in path] == [200, *map(len, kept)]
    last = kept[-1]
    plain = exact().fit(X[last], y[last])
    np.testing.assert_allclose(machine.decision_function(X), plain.decision_function(X), atol=1e-6)
    np.testing.assert_array_equal(machine.support_indices_, last[plain.support_indices_])
    removed = np.setdiff1d(np.arange(200), last)
    assert path[-1].validation_accuracy == pytest.approx(plain.score(X[removed], y[removed]))
    assert path[-1].train_accuracy == pytest.approx(plain.score(X[last], y[last]))
    assert path[-1].n_support == len(plain.support_indices_)


def test_the_records_say_what_happened():
    X, y = moons(200)
    path = exact(removal=Removal(rounds=3)).fit(X, y).removal_path_
    first = path[0]
    assert (first.round, first.threshold, first.n_rows) == (0, 0.0, 200)
    assert np.isnan(first.validation_accuracy)
    assert [r.round for r in path] == list(range(len(path)))
    for k, record in enumerate(path[1:]):
        assert record.factor == pytest.approx(0.5 + 0.025 * k)
        assert record.threshold == pytest.approx(record.factor / 200)
        assert record.n_support <= record.n_rows < 200
        assert record.gap <= 1e-10


def test_the_current_size_removes_more():
    X, y = moons(200)
    counts = [
        exact(removal=Removal(size=size)).fit(X, y).n_centers_ for size in ("initial", "current")
    ]
    assert counts[1] <= counts[0] < exact().fit(X, y).n_centers_


def test_rows_of_zero_alpha_stay_where_support_vectors_are_removed():
    X, y = moons(200)
    first = exact().fit(X, y)
    removal = Removal(rounds=1, size="current", which="support")
    machine = exact(removal=removal).fit(X, y)
    alpha = first.alpha_[0]
    n_removed = np.count_nonzero(alpha < 0.5 / 200)
    assert 0 < n_removed == 200 - machine.removal_path_[1].n_rows
    assert machine.removal_path_[1].n_support < machine.removal_path_[1].n_rows


def test_all_support_vectors_may_leave_where_the_others_stay():
    X, y = moons(200)
    machine = exact(removal=Removal(start=100.0, rounds=1, which="support")).fit(X, y)
    first, last = machine.removal_path_
    assert last.n_rows == 200 - first.n_support
    assert machine.gap_ <= 1e-10


def stops(rule, accuracy, deviation):
    return bool(stop_criteria(rule, accuracy, deviation)[-1] > 0)


def test_the_stop_rule_is_the_papers():
    """Of its table for heart disease: 0.988 to 0.980 is within 0.010, not within 0.007."""
    assert not stops("change", [0.988], [0.010])
    assert not stops("change", [0.991, 0.988, 0.980], [0.011, 0.010, 0.014])
    assert stops("change", [0.991, 0.988, 0.980], [0.011, 0.007, 0.014])
    assert stops("change", [0.9, 0.95], [0.01, 0.01])
    # the last column of its table for diabetes, up to the rounding of the others
    criteria = stop_criteria("change", [0.998, 0.995, 0.991], [0.004, 0.004, 0.005])
    np.testing.assert_allclose(criteria[1:], [-0.001, 0.001], atol=0.0011)


def test_a_fall_is_one_below_any_earlier_round():
    slow = np.linspace(1.0, 0.9, 11)
    assert first_stop(stop_criteria("change", slow, np.full(11, 0.02))) == 11
    assert first_stop(stop_criteria("fall", slow, np.full(11, 0.025))) == 4
    assert not stops("fall", [0.9, 0.95], [0.01, 0.01])
    assert not stops("fall", [np.nan, 0.9, 0.9], [np.nan, 0.01, 0.01])
    assert np.isnan(stop_criteria("fall", [0.9], [0.01])).all()
    for rule in ("change", "fall"):
        assert len(stop_criteria(rule, [], [])) == 0
        assert first_stop(stop_criteria(rule, [], [])) == 0


@pytest.mark.parametrize("rule", ["change", "fall"])
def test_criteria_of_folds_are_those_of_a_loop(rule):
    random = np.random.RandomState(0)
    accuracy, binomial = random.uniform(0.9, 1, (3, 6)), random.uniform(0, 0.1, (3, 6))
    mean, sigma = accuracy.mean(axis=0), accuracy.std(axis=0)
    if rule == "fall":
        sigma = np.maximum(sigma, binomial.mean(axis=0))
    for k in range(1, 6):
        loop = abs(mean[k - 1] - mean[k]) - sigma[k - 1]
        if rule == "fall":
            loop = max(mean[j] - sigma[j] for j in range(k)) - mean[k]
        assert stop_criteria(rule, accuracy, binomial)[k] == pytest.approx(loop)


def test_without_an_error_in_any_fold_the_first_does_not_stop_a_fall():
    accuracy = np.array([[1.0, 0.99], [1.0, 1.0]])
    binomial = np.full((2, 2), 0.02)
    assert stops("change", accuracy, binomial)
    assert not stops("fall", accuracy, binomial)


@pytest.mark.parametrize("rule", ["change", "fall"])
def test_a_single_training_stops_by_the_binomial_deviation(rule):
    X, y = moons(200)
    removal = Removal(rounds=30, step=0.1, stop=rule)
    path = exact(removal=removal).fit(X, y).removal_path_
    accuracy = [r.validation_accuracy for r in path[1:]]
    deviation = [r.deviation for r in path[1:]]
    np.testing.assert_array_equal(
        [r.stop for r in path[1:]], stop_criteria(rule, accuracy, deviation)
    )
    assert not any(r.stop > 0 for r in path[:-1])
    assert np.isnan(path[0].stop)
    for record in path[1:]:
        n = 200 - record.n_rows
        share = (record.validation_accuracy * n + 1) / (n + 2)
        assert record.deviation == pytest.approx(np.sqrt(share * (1 - share) / n))


def test_the_fall_stops_a_removal_of_the_paper_and_the_machine_stays_accurate():
    """With rows of zero alpha left in, removal goes on until removed rows are no longer right."""
    X, y = moons(400)
    removal = Removal(rounds=40, size="current", which="support", stop="fall")
    machine = exact(removal=removal).fit(X[:300], y[:300])
    path = machine.removal_path_
    assert path[-1].stop > 0
    assert 5 < len(path) < 40
    assert path[-1].n_support < 0.8 * path[0].n_support
    full = exact().fit(X[:300], y[:300])
    assert machine.score(X[300:], y[300:]) >= full.score(X[300:], y[300:]) - 0.05


@pytest.mark.parametrize("rule", ["change", "fall"])
def test_folds_say_when_to_stop(rule):
    X, y = moons(200)
    removal = Removal(rounds=6, cv=3, stop=rule)
    machine = exact(removal=removal, random_state=0).fit(X, y)
    again = exact(removal=removal, random_state=0).fit(X, y)
    path = machine.removal_path_
    assert 2 <= len(path) <= 7
    assert path[2:] == again.removal_path_[2:]
    assert len(path) == 7 or path[-1].stop > 0
    assert not any(record.stop > 0 for record in path[:-1])
    plain = exact(removal=Removal(rounds=len(path) - 1)).fit(X, y)
    if len(plain.removal_path_) == len(machine.removal_path_):
        np.testing.assert_array_equal(plain.center_indices_, machine.center_indices_)


def test_a_removal_that_would_leave_one_class_is_not_made():
    X, y = moons(200)
    machine = exact(removal=Removal(start=50.0)).fit(X, y)
    assert len(machine.removal_path_) == 1
    np.testing.assert_allclose(machine.alpha_, exact().fit(X, y).alpha_, atol=1e-8)


def test_weight_two_is_the_row_twice_in_removal_too():
    X, y = moons(200)
    weight = np.where(np.arange(200) < 50, 2.0, 1.0)
    machine = exact(removal=Removal(rounds=3))
    heavy = machine.fit(X, y, weight).decision_function(X)
    twice = machine.fit(np.vstack([X, X[:50]]), np.r_[y, y[:50]]).decision_function(X)
    np.testing.assert_allclose(heavy, twice, atol=1e-6)


def test_every_class_has_its_own_path():
    X, y = load_iris(return_X_y=True)
    machine = exact(removal=Removal(rounds=2)).fit(X, y)
    assert {record.output for record in machine.removal_path_} == {0, 1, 2}
    assert machine.score(X, y) > 0.9


@needs_callbacks
def test_a_callback_that_stops_a_training_stops_the_removal():
    class Stopper:
        def setup(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_end(self, estimator, context):
            return context.task_name == "round"

    X, y = moons(200)
    for cv in (None, 2):
        machine = exact(removal=Removal(cv=cv)).set_callbacks(Stopper()).fit(X, y)
        assert len(machine.removal_path_) == 1
        assert machine.gap_ > 1e-10


def test_sk_steps_of_the_paper():
    X, y = moons(200)
    machine = HullPerceptronClassifier(
        10.0, gamma=1.0, solver="sk", tol=0.05, removal=Removal(rounds=2)
    ).fit(X, y)
    assert max(record.gap for record in machine.removal_path_) <= 0.05
    assert machine.n_centers_ < machine.removal_path_[0].n_support


@pytest.mark.slow
def test_steps_cut_short_are_the_same_whatever_the_number_of_processes():
    X, y = load_iris(return_X_y=True)
    machine = HullPerceptronClassifier(solver="sk", max_iter=200, removal=Removal(rounds=2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one, two = (clone(machine).set_params(n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.support_indices_, two.support_indices_)
    np.testing.assert_array_equal(one.alpha_, two.alpha_)


def noisy_rows(n_rows):
    random = np.random.RandomState(0)
    X = random.randn(n_rows, 3)
    return X, (X[:, 0] + random.randn(n_rows) > 0).astype(int)


def test_larger_samples_lead_to_the_optimum_on_all_rows(monkeypatch):
    X, y = noisy_rows(900)
    plain = HullPerceptronClassifier(max_iter=-1, tol=1e-6).fit(X, y)
    monkeypatch.setattr(hull, "_MANY_ROWS", 200)
    machine = HullPerceptronClassifier(tol=1e-6).fit(X, y)
    assert machine.gap_ <= 1e-6
    np.testing.assert_allclose(machine.decision_function(X), plain.decision_function(X), atol=1e-3)


def test_a_limit_of_work_leaves_the_machine_on_a_sample_with_its_gap_on_all_rows(monkeypatch):
    X, y = noisy_rows(900)
    monkeypatch.setattr(hull, "_MANY_ROWS", 200)
    monkeypatch.setattr(hull, "_AUTO_KERNEL_VALUES", 150_000)
    with pytest.warns(ConvergenceWarning, match="-1 for no limit.*CompactKernelClassifier"):
        machine = HullPerceptronClassifier().fit(X, y)
    assert machine.gap_ > 1e-3
    assert len(machine.support_indices_) < 500
    values = machine.decision_function(X)
    assert np.mean((values > 0) == y) > 0.65
    # the certificate is that of all rows: the least margin is the relative one of the worst row
    assert machine.margin_[0] < 0


@pytest.mark.parametrize("options", [{}, {"solver": "sk"}, {"removal": Removal(rounds=2)}], ids=str)
@pytest.mark.parametrize(
    ("scale", "kernel"),
    [
        (1e8, {"kernel": "poly", "degree": 20, "gamma": 1.0, "coef0": 1.0}),
        (1e160, {"kernel": "linear"}),
        (1e154, {"kernel": "linear"}),
        (1e154, {"kernel": "rbf"}),
        (1e-155, {"kernel": "rbf"}),
    ],
)
def test_nothing_is_certified_where_kernel_values_overflow(scale, kernel, options, recwarn):
    X = np.random.RandomState(0).randn(60, 3)
    with pytest.raises(ValueError, match=r"[Ss]cale the(m| features)"):
        HullPerceptronClassifier(**kernel, **options).fit(scale * X, X[:, 0] > 0)
    assert not recwarn.list


def test_sk_steps_end_for_a_tol_of_zero(monkeypatch):
    """They approach the optimum for ever; the limit is a million steps, here 20,000."""
    X, y = moons(60)
    monkeypatch.setattr(hull, "_STEP_ROWS", 10**6)
    machine = HullPerceptronClassifier(solver="sk", tol=0.0)
    with pytest.warns(ConvergenceWarning, match=r"gap of up to \d.*max_iter. Raise it"):
        machine.fit(X, y)
    assert machine.n_iter_ == 20_000
    assert 0 < machine.gap_ < 1e-2


def test_round_off_counts_in_the_gap():
    """Kernel values of 1e14 leave 0.01 of a margin uncertain, which no gap may hide."""
    X, y = moons(60)
    machine = HullPerceptronClassifier(C=100.0, kernel="linear", tol=1e-6)
    with pytest.warns(ConvergenceWarning, match="exhaust double precision"):
        machine.fit(1e7 * X, y)
    assert machine.gap_ > 1e-6
