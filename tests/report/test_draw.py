import io

import matplotlib
import matplotlib.image
import numpy as np
from sklearn.datasets import load_digits

from kernlet import L1KernelClassifier, MinimalKernelClassifier
from kernlet.datasets import make_checkerboard
from kernlet.report.draw import draw_image_centers, draw_plane, picture_style, save_picture


def png(figure):
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def test_plane_shows_every_row_circle_and_star():
    board = make_checkerboard(300, random_state=0)
    machine = MinimalKernelClassifier(C=100, gamma=4.0, random_state=0).fit(board.X, board.y)
    figure = draw_plane(machine, board.X, board.y, n_grid=30)
    first, second, circles, stars = (len(line.get_xdata()) for line in figure.axes[0].lines)
    assert first + second == 300
    assert circles == len(machine.margin_indices_)
    assert stars == machine.n_centers_
    assert png(figure).startswith(b"\x89PNG")


def test_images_show_every_center_once():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 16.0 + 1.0, y[:300]
    machine = L1KernelClassifier(random_state=0).fit(X, y)
    figure = draw_image_centers(machine.expansion_, y[machine.center_indices_], (8, 8))
    mosaic = figure.axes[0].images[0].get_array()
    drawn = np.isfinite(np.ma.filled(mosaic, np.nan)).sum()
    assert drawn == 64 * machine.n_centers_
    assert png(figure).startswith(b"\x89PNG")


def settings():
    """All of matplotlib's settings but the backend, which is chosen when it is first needed."""
    return {key: value for key, value in matplotlib.rcParams.items() if key != "backend"}


def test_the_style_ends_with_its_context():
    before = settings()
    with picture_style():
        assert matplotlib.rcParams["savefig.transparent"]
        assert matplotlib.rcParams["axes.prop_cycle"].by_key()["color"][0] == "#0072b2"
    assert settings() == before


def test_a_picture_is_written_with_a_transparent_ground_and_the_same_bytes(tmp_path):
    X, y = load_digits(return_X_y=True)
    machine = L1KernelClassifier(random_state=0).fit(X[:100] / 16.0, y[:100])
    paths = [tmp_path / "first.png", tmp_path / "second.png"]
    before = settings()
    for path in paths:
        labels = y[machine.center_indices_]
        save_picture(draw_image_centers(machine.expansion_, labels, (8, 8)), path)
    assert settings() == before
    assert paths[0].read_bytes() == paths[1].read_bytes()
    pixels = matplotlib.image.imread(paths[0])
    assert pixels[0, 0, 3] == 0.0
