"""What the header of generated code says of a machine."""

from __future__ import annotations

from collections.abc import Iterator

from kernlet.export.encoding import NumberColumn
from kernlet.export.model_file import describe_kernel
from kernlet.export.shipped import ShippedModel
from kernlet.export.stored import StoredMachine


def n_scores(model: ShippedModel) -> int:
    """Numbers that a prediction gives besides its class."""
    if model.kind != "classifier" or model.scheme != "one vs one" or not model.votes:
        return model.expansion.n_outputs
    return 1 if len(model.classes) == 2 else len(model.classes)


def feature_names(model: ShippedModel) -> list[str]:
    """Names of the features, numbers where they have none."""
    if model.feature_names is not None:
        return list(model.feature_names)
    return [f"feature {i}" for i in range(model.n_features)]


def facts(model: ShippedModel, machine: StoredMachine) -> Iterator[str]:
    """What the machine is."""
    kernel = describe_kernel(model.expansion.kernel)
    parameters = ", ".join(f"{k} {v:g}" for k, v in kernel.items() if k != "name")
    yield f"Kernel: {kernel['name']}{', ' if parameters else ''}{parameters}."
    rank = machine.centers.shape[1]
    through = f", projected to {rank} numbers" if machine.projection is not None else ""
    yield f"{model.n_features} features{through}; {len(machine.intercept)} outputs."
    yield f"Tables: {machine.nbytes} bytes."
    if model.summary.get("estimator"):
        yield f"Trained as {model.summary['estimator']}."


def meaning(model: ShippedModel) -> str:
    """What the scores are."""
    if model.kind == "regressor":
        return "The numbers that are predicted."
    if model.kind == "transformer":
        return "The features of a row."
    if model.kind == "expansion":
        return "The outputs of the machine."
    if n_scores(model) == 1:
        return "There is one score, positive for class 1."
    if model.scheme == "one vs one" and not model.votes:
        return "There is a score for each pair i < j of classes, positive for i."
    return "There is a score for each class."


def encoding_lines(model: ShippedModel) -> Iterator[str]:
    """How the columns of a table become features."""
    for column in model.encoding.columns if model.encoding else ():
        if isinstance(column, NumberColumn):
            yield f"{column.name}: the number; {column.fill:g} where it is missing"
        else:
            yield (
                f"{column.name}: 1 for the feature of its category, 0 for the others; a category "
                "that is not there is 0 everywhere"
            )
