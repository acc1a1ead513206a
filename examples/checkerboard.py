"""Learn a checkerboard from few points, and draw the machine.

Run it with ``python examples/checkerboard.py``; it writes checkerboard.png.
"""

from kernlet import L1KernelClassifier, MinimalKernelClassifier
from kernlet.datasets import make_checkerboard
from kernlet.report.draw import draw_plane

board = make_checkerboard(n_samples=1000, noise=0.02, random_state=0)
for machine in (
    L1KernelClassifier(C=10, gamma=4, random_state=0),
    MinimalKernelClassifier(C=10, gamma=4, random_state=0),
):
    machine.fit(board.X, board.y)
    print(
        f"{type(machine).__name__}: {machine.n_centers_} centers, "
        f"{len(machine.margin_indices_)} rows with a positive dual, "
        f"{100 * machine.score(board.X_test, board.y_test):.1f} % correct, "
        f"duality gap {machine.duality_gap_[0]:.0e}"
    )
draw_plane(machine, board.X, board.y).savefig("checkerboard.png", dpi=150)
