"""
From a scikit-learn pipeline to ONNX
====================================

ONNX graphs run in web services, in browsers and on phones, without Python.
This example exports a pipeline with a compact classifier, runs the graph in
onnxruntime, and compares size and speed with the graph of an SVC. It needs
``pip install "kernlet[onnx]"``.
"""

# %%
# Train two pipelines
# -------------------

import time

import numpy as np
import onnxruntime
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernlet

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(
    X, y, test_size=0.4, stratify=y, random_state=0
)
X_test = X_test.astype(np.float32)

compact = kernlet.CompactKernelClassifier(40, n_epochs=60, random_state=0)
models = {
    "compact": make_pipeline(StandardScaler(), compact).fit(X, y),
    "SVC": make_pipeline(StandardScaler(), SVC()).fit(X, y),
}

# %%
# Export and run
# --------------
# :func:`~kernlet.to_onnx` writes matrix products and exponentials, no special
# operators, and checks the graph against Python on the rows given. It takes an
# SVC as well. (For steps that kernlet cannot export,
# ``kernlet.export.skl2onnx.register_skl2onnx()`` makes kernlet's models known
# to skl2onnx.)

graphs = {
    name: kernlet.to_onnx(model, X=X_test) for name, model in models.items()
}
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
options.inter_op_num_threads = 1
sessions, sizes, times = {}, {}, {}
for name, graph in graphs.items():
    content = graph.SerializeToString()
    session = onnxruntime.InferenceSession(
        content, options, providers=["CPUExecutionProvider"]
    )
    inputs = {session.get_inputs()[0].name: X_test}
    labels = session.run(None, inputs)[0]
    elapsed = []
    for _ in range(20):
        start = time.perf_counter()
        session.run(None, inputs)
        elapsed.append(time.perf_counter() - start)
    sizes[name], times[name] = len(content), 1e6 * min(elapsed) / len(X_test)
    agreement = np.mean(labels == models[name].predict(X_test))
    print(
        f"{name:8} {sizes[name]:7,} bytes, {times[name]:.2f} us per row, "
        f"accuracy {np.mean(labels == y_test):.3f}"
    )
    print(f"         same class as in Python for {agreement:.2%} of the rows")

# %%
# The graph has labels, scores and probabilities as outputs, and describes
# itself:

session = onnxruntime.InferenceSession(
    graphs["compact"].SerializeToString(),
    options,
    providers=["CPUExecutionProvider"],
)
for output in session.get_outputs():
    print(output.name, output.type, output.shape)
print(
    "operators:",
    *sorted({node.op_type for node in graphs["compact"].graph.node}),
)

# %%
# Size and speed
# --------------
# The compact graph is smaller and faster because it has fewer centers and one
# output per class. The SVC is a little more accurate; ``n_centers="auto"`` or
# more centers buy some of that back.

fig, axes = plt.subplots(1, 2, figsize=(6.4, 2.8), layout="constrained")
for ax, values, label in zip(
    axes, (sizes, times), ("bytes", "microseconds per row"), strict=True
):
    bars = ax.bar(
        list(values), list(values.values()), color=["C0", "C1"], width=0.6
    )
    ax.bar_label(bars, fmt="{:,.0f}" if label == "bytes" else "{:.2f}")
    ax.set(ylabel=label)
    ax.margins(y=0.15)
plt.show()
