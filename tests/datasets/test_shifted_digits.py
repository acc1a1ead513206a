import numpy as np
import pytest

from kernlet.datasets import Dataset, load, make_shifted_digits
from kernlet.datasets.shifted_digits import ShiftedImages


def small_usps(n=6, seed=0):
    random = np.random.RandomState(seed)
    X, y = random.rand(n, 256), np.arange(n) % 3
    return Dataset("usps", X, y, X[:3], y[:3])


def test_every_image_is_at_every_place():
    digits = make_shifted_digits(18, usps=small_usps())
    assert digits.X.shape == (4 * 9, 18 * 18)
    assert digits.X_test.shape == (2 * 9, 18 * 18)
    assert digits.y.tolist() == [0] * 9 + [1] * 9 + [0] * 9 + [1] * 9
    image = small_usps().X[1].reshape(16, 16).astype(np.float32)
    for shift, row in enumerate(digits.X[9:18].reshape(-1, 18, 18)):
        down, right = divmod(shift, 3)
        wanted = np.zeros((18, 18), np.float32)
        wanted[down : down + 16, right : right + 16] = image
        np.testing.assert_array_equal(row, wanted)


def test_rows_are_the_same_however_they_are_asked_for():
    rows = make_shifted_digits(17, usps=small_usps()).X
    whole = np.asarray(rows)
    assert isinstance(rows, ShiftedImages)
    assert whole.shape == rows.shape
    assert len(rows) == len(whole)
    assert whole.dtype == rows.dtype == np.float32
    np.testing.assert_array_equal(np.vstack(list(rows.blocks(5))), whole)
    np.testing.assert_array_equal(rows[3], whole[3])
    np.testing.assert_array_equal(rows[-1], whole[-1])
    np.testing.assert_array_equal(rows[[4, 1]], whole[[4, 1]])
    np.testing.assert_array_equal(rows[whole[:, 0] > 0], whole[whole[:, 0] > 0])
    with pytest.raises(IndexError):
        rows[len(rows)]
    with pytest.raises(ValueError, match="a copy is needed"):
        np.array(rows, copy=False)


def test_scikit_learn_takes_them():
    from kernlet import MMDA

    digits = make_shifted_digits(17, usps=small_usps(12))
    assert MMDA(random_state=0).fit(digits.X, digits.y).transform(digits.X_test).shape[1] == 1


def test_the_counts_are_those_of_the_paper(data_folder):
    digits = make_shifted_digits()
    assert digits.X.shape == (266_079, 676)
    assert digits.X_test.shape == (75_383, 676)
    assert digits.n_classes == 2
    assert digits.X.images.nbytes < 3e6, "nothing is made before it is asked for"
    usps = load("usps")
    zero = usps.X[np.flatnonzero(np.isin(usps.y, (0, 1)))[7]].reshape(16, 16)
    middle = digits.X[7 * 121 + 60].reshape(26, 26)
    np.testing.assert_array_equal(middle[5:21, 5:21], zero.astype(np.float32))


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"frame": 15}, "'frame' parameter"),
        ({"digits": (0, 7)}, r"digits \[7\]"),
        ({"digits": ()}, "digits is empty"),
        ({"usps": Dataset("x", np.eye(3), np.arange(3))}, "16 x 16"),
    ],
)
def test_bad_parameters_get_a_sentence(parameters, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_shifted_digits(**({"usps": small_usps()} | parameters))


def test_digits_may_be_an_array():
    digits = make_shifted_digits(17, digits=np.array([0, 1]), usps=small_usps())
    assert digits.n_classes == 2
