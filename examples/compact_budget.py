"""How accurate can a machine of 500, 1,000, 2,000 and 4,000 bytes be? Draws accuracy by bytes."""

from pathlib import Path

from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from kernlet import CompactKernelClassifier


def main(folder: Path = Path()) -> None:
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
    svc = SVC().fit(X, y)
    svc_bytes = svc.support_vectors_.nbytes + svc.dual_coef_.nbytes + svc.intercept_.nbytes
    sizes, scores = [], []
    for max_bytes in (500, 1000, 2000, 4000):
        machine = CompactKernelClassifier(max_bytes=max_bytes, random_state=0).fit(X, y)
        sizes.append(machine.nbytes_)
        scores.append(machine.score(X_test, y_test))
        print(f"{scores[-1]:.3f} {machine.choice_}")
    print(f"{svc.score(X_test, y_test):.3f} SVC, {svc_bytes} bytes")

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(sizes, scores, "o-", label="CompactKernelClassifier")
    axes.plot(svc_bytes, svc.score(X_test, y_test), "s", label="SVC")
    axes.set(xlabel="bytes", ylabel="test accuracy", xscale="log")
    axes.legend()
    figure.savefig(folder / "compact_budget.png", dpi=120)


if __name__ == "__main__":
    main()
