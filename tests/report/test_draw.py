import io

import numpy as np
from sklearn.datasets import load_digits

from kernlet import L1KernelClassifier, MinimalKernelClassifier
from kernlet.datasets import make_checkerboard
from kernlet.report.draw import draw_image_centers, draw_plane


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
