"""What a fit tells while it runs."""

import logging

import numpy as np
import pytest

from sltr import SLTRClassifierCV, SLTRRegressor, SLTRRegressorCV
from sltr.parameters import SECONDS, progress_of


@pytest.fixture
def data(rng):
    X = rng.normal(size=(30, 4, 3))
    return X, X[:, 0, 0]


def test_verbose_fits_tell_the_log_and_quiet_ones_do_not(data, caplog):
    X, y = data
    with caplog.at_level(logging.INFO, logger="sltr"):
        SLTRRegressorCV(refine=(None,), cv=3).fit(X, y)
        assert not caplog.records
        SLTRRegressorCV(refine=(None,), cv=3, verbose=1).fit(X, y)
        assert "SLTRRegressorCV: " in caplog.text
        assert "held-out score" in caplog.text
        caplog.clear()
        SLTRRegressor(verbose=1).fit(X, y)
        assert "duality gap" in caplog.text
        labels = np.where(y > 0, "a", "b")
        SLTRClassifierCV(refine=(None,), cv=3, verbose=1).fit(X, labels)
        assert "SLTRClassifierCV" in caplog.text


def test_lines_are_seconds_apart_and_the_last_is_told(caplog):
    now = [0.0]
    tell = progress_of(SLTRRegressorCV(verbose=1), clock=lambda: now[0])
    with caplog.at_level(logging.INFO, logger="sltr"):
        for done in range(101):
            now[0] = done * SECONDS / 10
            tell(done, 100)
    told = [record.args[1] for record in caplog.records]
    assert told == list(range(10, 101, 10))


def test_a_callable_is_told_instead():
    def tell(done, total):
        raise AssertionError

    assert progress_of(SLTRRegressorCV(verbose=1, progress=tell)) is tell
    assert progress_of(SLTRRegressorCV()) is None
