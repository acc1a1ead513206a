import numpy as np

from kernlet.report.peers import fit_svc
from shipped_machines import DIGIT_LABELS, DIGITS, IRIS, IRIS_LABELS


def test_an_svc_is_tuned_and_measured():
    peer = fit_svc(DIGITS[:300], DIGIT_LABELS[:300])
    found = peer.measured(DIGITS[300:600], DIGIT_LABELS[300:600])
    assert found["accuracy"] == peer.svc.score(DIGITS[300:600], DIGIT_LABELS[300:600]) > 0.85
    assert found["centers"] == len(peer.svc.support_)
    assert found["training_rows"] == 300


def test_rare_classes_are_not_cross_validated():
    rare = np.append(IRIS_LABELS, 9)
    assert fit_svc(np.vstack([IRIS, IRIS[:1]]), rare).svc.C == 10.0
