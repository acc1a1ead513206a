"""Chunking with synthetic points: the classifier problems, a run of a stage, and the estimator."""

from kernlet.chunking.estimator import ChunkingSyntheticClassifier
from kernlet.chunking.stage import RunRecord

__all__ = ["ChunkingSyntheticClassifier", "RunRecord"]
