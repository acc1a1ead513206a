"""A fit goes on where it was stopped, or says why it cannot."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from joblib import parallel_config
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_moons

from kernlet import ChunkingSyntheticClassifier
from kernlet.atomic import Checkpoint
from kernlet.chunking import RunRecord
from kernlet.chunking import estimator as chunking_synthetic
from kernlet.chunking.estimator import StagesDone
from support.callbacks import needs_callbacks

X, y = make_moons(160, noise=0.2, random_state=0)
SIZES = (40, 80)
RECORD = RunRecord(
    40, 40, 1.5, (0.5, 0.75), 9, 4, 20, 21, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.1, 1e-9, 0.2, 0.1
)
DONE = StagesDone(
    ((RECORD, replace(RECORD, C=5.0)), (replace(RECORD, n_rows=80),) * 2),
    np.random.RandomState(0).randn(8, 3),
    np.random.RandomState(1).randn(4, 3),
)


def classifier(**parameters):
    options = {"n_points": 4, "n_runs": 2, "stage_sizes": SIZES, "random_state": 0}
    return ChunkingSyntheticClassifier(**{**options, **parameters})


def assert_same_fit(one, other):
    for name in ("centers", "coef", "intercept"):
        np.testing.assert_array_equal(
            getattr(one.expansion_, name), getattr(other.expansion_, name), strict=True
        )
    assert without_seconds(one.stages_) == without_seconds(other.stages_)


def without_seconds(stages):
    """As text, in which NaN equals NaN."""
    return [
        [str(asdict(replace(record, seconds=0.0, seconds_c=0.0))) for record in stage]
        for stage in stages
    ]


class BrokenOffError(Exception):
    pass


class Interrupter:
    """A callback that breaks a fit off at the end of a run, counted from 1."""

    def __init__(self, run, error=BrokenOffError):
        self.runs_left, self.error = run, error

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.runs_left -= context.task_name == "run"
        if not self.runs_left:
            raise self.error

    def teardown(self, estimator, context):
        pass


@pytest.fixture
def count_runs(monkeypatch):
    """The rows of each run that was done."""
    sizes = []

    def counted(plan, rows, *rest):
        sizes.append(len(rows.y))
        return run_stage(plan, rows, *rest)

    run_stage = chunking_synthetic.run_stage
    monkeypatch.setattr(chunking_synthetic, "run_stage", counted)
    return sizes


@pytest.mark.parametrize("error", [BrokenOffError, KeyboardInterrupt])
@pytest.mark.parametrize(("run", "stage"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)])
@needs_callbacks
def test_an_interrupted_fit_goes_on_to_the_same_machine(tmp_path, count_runs, run, stage, error):
    whole = classifier().fit(X, y)
    machine = classifier(checkpoint=tmp_path)
    with pytest.raises(error):
        clone(machine).set_callbacks(Interrupter(run, error)).fit(X, y)
    count_runs.clear()
    assert_same_fit(machine.fit(X, y), whole)
    assert count_runs == [40, 40, 80, 80, 160][2 * stage :]
    assert [path.name for path in tmp_path.iterdir()] == ["stages.npz"]


@needs_callbacks
def test_interrupted_again_and_again(tmp_path):
    machine = classifier(checkpoint=tmp_path, two_sets=True, n_runs=3)
    for run in (1, 5, 2, 3):
        with pytest.raises(BrokenOffError):
            clone(machine).set_callbacks(Interrupter(run)).fit(X, y)
    assert_same_fit(machine.fit(X, y), classifier(two_sets=True, n_runs=3).fit(X, y))


def test_a_finished_fit_runs_its_last_stage_only(tmp_path, count_runs):
    first = classifier(checkpoint=tmp_path).fit(X, y)
    count_runs.clear()
    assert_same_fit(classifier(checkpoint=str(tmp_path)).fit(X, y), first)
    assert count_runs == [160]


KILLED = """
import sys, time
from sklearn.datasets import make_moons
from kernlet import ChunkingSyntheticClassifier

class Sleeper:
    def setup(self, estimator, context): pass
    def teardown(self, estimator, context): pass
    def on_fit_task_end(self, estimator, context): pass
    def on_fit_task_begin(self, estimator, context):
        if context.task_name == "stage" and context.task_id == 1:
            time.sleep(60)

X, y = make_moons(160, noise=0.2, random_state=0)
machine = ChunkingSyntheticClassifier(
    n_points=4, n_runs=2, stage_sizes=(40, 80), random_state=0, checkpoint=sys.argv[1]
)
machine.set_callbacks(Sleeper()).fit(X, y)
"""


@pytest.mark.slow
@needs_callbacks
def test_a_killed_fit_goes_on_to_the_same_machine(tmp_path, count_runs):
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)])
    try:
        deadline = time.monotonic() + 50
        while not (tmp_path / "stages.npz").exists() and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert process.poll() is None
    finally:
        process.send_signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        process.wait()
    machine = classifier(checkpoint=tmp_path).fit(X, y)
    assert count_runs == [80, 80, 160]
    assert_same_fit(machine, classifier().fit(X, y))
    assert [path.name for path in tmp_path.iterdir()] == ["stages.npz"]


def test_killed_while_writing(tmp_path, monkeypatch):
    """The stages before stay; what a killed writer leaves behind does no harm."""
    checkpoint = Checkpoint(tmp_path / "stages.npz", "this fit")
    DONE.save(checkpoint)

    def half(file, **arrays):
        file.write(b"half")
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", half)
        with pytest.raises(OSError, match="no space"):
            StagesDone().save(checkpoint)
    assert list(tmp_path.iterdir()) == [checkpoint.path]
    assert StagesDone.load(checkpoint, 3).records == DONE.records
    left = tmp_path / ".stages.npz.abc.part"
    left.write_bytes(b"half")
    assert StagesDone.load(checkpoint, 3).records == DONE.records
    DONE.save(checkpoint)
    assert StagesDone.load(checkpoint, 3).records == DONE.records
    assert set(tmp_path.iterdir()) == {checkpoint.path, left}


@pytest.mark.parametrize("score", [0.5, float("nan")])
def test_round_trip(tmp_path, score):
    done = replace(DONE, records=((replace(RECORD, scores=(score,), validation_b=score),),))
    folder = tmp_path / "not" / "there" / "yet"
    done.save(Checkpoint(folder / "stages.npz", "this fit"))
    again = StagesDone.load(Checkpoint(folder / "stages.npz", "this fit"), 3)
    assert str(again.records) == str(done.records)
    np.testing.assert_array_equal(again.candidates, done.candidates, strict=True)
    np.testing.assert_array_equal(again.start, done.start, strict=True)


def test_nothing_stored_is_no_stages(tmp_path):
    done = StagesDone.load(Checkpoint(tmp_path / "none" / "stages.npz", "this fit"), 3)
    assert (done.records, done.candidates, done.start) == ((), None, None)
    assert not any((tmp_path / "none").iterdir())


@needs_callbacks
def test_without_rows_to_validate_on(tmp_path):
    """Records without a validation part survive the file."""
    X, y = make_moons(6, noise=0.1, random_state=0)
    options = {"validation_fraction": 0.001, "stage_sizes": (3, 4), "n_points": 2}
    whole = classifier(**options).fit(X, y)
    machine = classifier(**options, checkpoint=tmp_path)
    with pytest.raises(BrokenOffError):
        clone(machine).set_callbacks(Interrupter(3)).fit(X, y)
    assert_same_fit(machine.fit(X, y), whole)
    assert machine.stages_[0][0].validation_b is None


OTHER_PARAMETERS = {
    "n_points": 5,
    "n_runs": 3,
    "stage_sizes": (40, 81),
    "C": (1.5, 5.0),
    "kernel": "linear",
    "gamma": 0.5,
    "degree": 2,
    "coef0": 1.0,
    "two_sets": True,
    "box": 1.25,
    "solver": "quadratic",
    "class_weight": "balanced",
    "validation_fraction": 0.2,
    "random_state": 1,
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The folder of a fit that is done."""
    folder = tmp_path_factory.mktemp("kept")
    classifier(checkpoint=folder).fit(X, y)
    return folder


@pytest.mark.parametrize("name", OTHER_PARAMETERS)
def test_other_parameters_are_refused(kept, name):
    before = (kept / "stages.npz").read_bytes()
    with pytest.raises(ValueError, match=r"stages\.npz belongs to another fit.*another folder"):
        classifier(checkpoint=kept, **{name: OTHER_PARAMETERS[name]}).fit(X, y)
    assert (kept / "stages.npz").read_bytes() == before


OTHER_DATA = {
    "a digit": (np.where(np.arange(320).reshape(160, 2) == 7, np.nextafter(X, 9), X), y, None),
    "a label": (X, np.where(np.arange(160) == 7, 1 - y, y), None),
    "names": (X, np.array(["no", "yes"])[y], None),
    "a weight": (X, y, np.where(np.arange(160) == 7, 2.0, 1.0)),
    "the order": (X[::-1], y[::-1], None),
    "fewer": (X[1:], y[1:], None),
    "single precision": (X.astype(np.float32), y, None),
    "sparse": (sparse.csr_array(X), y, None),
}


@pytest.mark.parametrize("change", OTHER_DATA)
def test_other_data_are_refused(kept, change):
    with pytest.raises(ValueError, match="belongs to another fit: parameters or data differ"):
        classifier(checkpoint=kept).fit(*OTHER_DATA[change])


@pytest.mark.parametrize("change", [{"n_jobs": 2}, {"final": "union"}], ids=str)
def test_what_does_not_change_the_stages_may_change(kept, count_runs, change):
    with parallel_config(backend="threading"):  # other processes would not count their runs
        machine = classifier(checkpoint=kept, **change).fit(np.asfortranarray(X), y, np.ones(160))
        assert count_runs == [160]
        assert_same_fit(machine, classifier(**change).fit(X, y))


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(0)])
def test_a_checkpoint_needs_a_seed(tmp_path, random_state):
    with pytest.raises(ValueError, match="needs a whole number as random_state"):
        classifier(checkpoint=tmp_path, random_state=random_state).fit(X, y)
    assert not list(tmp_path.iterdir())


def test_labels_as_strings_and_objects(tmp_path):
    labels = np.array(["no", "yes"])[y]
    machine = classifier(checkpoint=tmp_path).fit(X, labels.astype(object))
    again = classifier(checkpoint=tmp_path).fit(X, labels.astype(object))
    assert_same_fit(machine, again)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A checkpoint to damage, and its bytes."""
    checkpoint = Checkpoint(tmp_path_factory.mktemp("stored") / "stages.npz", "this fit")
    DONE.save(checkpoint)
    return checkpoint, checkpoint.path.read_bytes()


class DamagedError(Exception):
    """The one thing that may go wrong with a damaged file."""


def load_bytes(checkpoint, content):
    checkpoint.path.write_bytes(content)
    try:
        return StagesDone.load(checkpoint, 3)
    except ValueError as error:
        if str(error).startswith(f"The checkpoint {checkpoint.path} is corrupt ("):
            raise DamagedError from error
        raise


def is_refused(checkpoint, content):
    with pytest.raises(DamagedError):
        load_bytes(checkpoint, content)


often = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.6, 0.9, 0.999])
def test_a_truncated_file(tmp_path, stored, share):
    """Seen from the fit as well, which leaves the file for the user to look at."""
    _, whole = stored
    (tmp_path / "stages.npz").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(
        ValueError, match=r"stages\.npz is corrupt .*Delete it to start from scratch"
    ):
        classifier(checkpoint=tmp_path).fit(X, y)
    assert (tmp_path / "stages.npz").exists()


@often
@given(data=st.data())
def test_truncated_anywhere(stored, data):
    checkpoint, whole = stored
    is_refused(checkpoint, whole[: data.draw(st.integers(0, len(whole) - 1))])


@often
@given(start=st.sampled_from([b"", b"PK\3\4", b"PK\5\6", b"\x93NUMPY\1\0"]), rest=st.binary())
def test_random_bytes(stored, start, rest):
    is_refused(stored[0], start + rest)


@often
@given(data=st.data())
def test_a_flipped_bit_is_found_or_without_effect(stored, data):
    checkpoint, whole = stored
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    content = bytearray(whole)
    content[bit // 8] ^= 1 << bit % 8
    with contextlib.suppress(DamagedError):
        done = load_bytes(checkpoint, bytes(content))
        assert done.records == DONE.records
        np.testing.assert_array_equal(done.candidates, DONE.candidates)
        np.testing.assert_array_equal(done.start, DONE.start)


HEADER = {"format": 1, "fingerprint": "this fit", "records": [[asdict(RECORD)]]}


def write(checkpoint, header, **arrays):
    arrays = {"candidates": DONE.candidates, "start": DONE.start, **arrays}
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with open(checkpoint.path, "wb") as file:
        np.savez(file, header=text, **{k: v for k, v in arrays.items() if v is not None})


@pytest.mark.parametrize(
    ("header", "arrays"),
    [
        (HEADER, {"candidates": None}),
        (HEADER, {"start": None}),
        (HEADER, {"start": np.array([None])}),
        ({"format": 1, "fingerprint": "this fit"}, {}),
        ({**HEADER, "records": [[{**asdict(RECORD), "colour": "red"}]]}, {}),
        ({**HEADER, "records": [[{"n_rows": 3}]]}, {}),
        ({**HEADER, "records": [[3]]}, {}),
        ({**HEADER, "records": 3}, {}),
        ([], {}),
        (None, {}),
        ("text", {}),
    ],
)
def test_wrong_keys(tmp_path, header, arrays):
    checkpoint = Checkpoint(tmp_path / "stages.npz", "this fit")
    write(checkpoint, HEADER)
    assert StagesDone.load(checkpoint, 3).records == ((RECORD,),)
    write(checkpoint, header, **arrays)
    is_refused(checkpoint, checkpoint.path.read_bytes())


@pytest.mark.parametrize("wrong", [np.float64(1.0), np.ones(3), np.ones((4, 2)), np.inf * X])
def test_arrays_that_do_not_suit(tmp_path, wrong):
    checkpoint = Checkpoint(tmp_path / "stages.npz", "this fit")
    write(checkpoint, HEADER, start=wrong)
    is_refused(checkpoint, checkpoint.path.read_bytes())


def test_another_format_or_another_file(tmp_path):
    checkpoint = Checkpoint(tmp_path / "stages.npz", "this fit")
    write(checkpoint, {**HEADER, "format": 2})
    with pytest.raises(ValueError, match="belongs to another fit"):
        StagesDone.load(checkpoint, 3)
    with open(checkpoint.path, "wb") as file:
        np.save(file, np.ones(3))
    is_refused(checkpoint, checkpoint.path.read_bytes())
    checkpoint.path.unlink()
    checkpoint.path.mkdir()
    with pytest.raises(ValueError, match=r"stages\.npz is corrupt"):
        StagesDone.load(checkpoint, 3)
