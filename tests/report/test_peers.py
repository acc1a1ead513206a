import numpy as np

from kernlet.report.evaluate import fit_svc
from support.shipped_machines import DIGIT_LABELS, DIGITS, IRIS, IRIS_LABELS


def test_an_svc_is_tuned_and_measured():
    peer = fit_svc(DIGITS[:600:2], DIGIT_LABELS[:600:2])
    test = DIGITS[1:600:2], DIGIT_LABELS[1:600:2]
    found = peer.measured(*test)
    assert found["accuracy"] == peer.svc.score(*test) > 0.9
    assert found["centers"] == len(peer.svc.support_)
    assert found["training_rows"] == 300


def test_rare_classes_are_not_cross_validated():
    rare = np.append(IRIS_LABELS, 9)
    assert fit_svc(np.vstack([IRIS, IRIS[:1]]), rare).svc.C == 10.0
