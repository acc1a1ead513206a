"""What imbalanced-learn asks of a sampler, in scikit-learn's words."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from sklearn.utils import InputTags, Tags


@dataclass
class SamplerInputTags(InputTags):
    """Of the rows: also whether frames come back as frames."""

    dataframe: bool = True


@dataclass
class SamplerTags:
    """Of the answer: whether it is some of the rows."""

    sample_indices: bool = True


@dataclass
class CondenserTags(Tags):
    """scikit-learn's tags and a sampler's."""

    sampler_tags: SamplerTags = field(default_factory=SamplerTags)


def condenser_tags(tags: Any, *, sample_indices: bool) -> CondenserTags:
    """Tags of a condenser from those of an estimator."""
    values = {each.name: getattr(tags, each.name) for each in fields(tags)}
    inputs = values["input_tags"]
    inputs = {each.name: getattr(inputs, each.name) for each in fields(inputs)}
    values |= {
        "estimator_type": "sampler",
        "input_tags": SamplerInputTags(**(inputs | {"sparse": True})),
    }
    values["target_tags"].required = True
    return CondenserTags(**values, sampler_tags=SamplerTags(sample_indices))
