"""A few hundred cases of the fuzzer; `make fuzz N=10000` runs more."""

from dataclasses import replace

import cases
import numpy as np
import pytest
from cases import case_of, main, run
from fuzzer import ORACLES, SPECS, Fit, Violation

import sltr

CHUNKS, EACH = 12, 30


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_odd_inputs_and_damaged_files_violate_nothing(chunk):
    seeds = range(chunk * EACH, (chunk + 1) * EACH)
    found = [violation for seed in seeds for violation in run(seed)]
    assert not found, "\n\n".join(map(str, found))


def test_a_seed_is_one_case():
    one, other = case_of(7), case_of(7)
    assert str(one) == str(other)
    np.testing.assert_array_equal(one.X, other.X)


OF_SLTR = {"outside_mask", "each_response", "permuted_responses"}
CHANGES = sorted(set(ORACLES) - {"repeated", "saved", "parallel", "labelled"} - OF_SLTR)


@pytest.mark.parametrize("name", CHANGES)
def test_an_oracle_notices_another_answer(name):
    rng = np.random.default_rng(0)
    X, X_new = rng.normal(size=(12, 3, 2)), rng.normal(size=(5, 3, 2))
    case = Fit("TensorRidge", {"epsilon": 1.0}, X, rng.normal(size=12), X_new)
    case = replace(case, weight=np.ones(12))
    assert ORACLES[name](case, case.fitted()) == ""
    wrong = replace(case, y=case.y**2).fitted()
    assert "scores differ" in ORACLES[name](case, wrong)


@pytest.mark.parametrize("name", sorted(OF_SLTR))
def test_an_oracle_of_sltr_notices_another_answer(name):
    rng = np.random.default_rng(0)
    X, X_new = rng.normal(size=(12, 3, 2)), rng.normal(size=(5, 3, 2))
    mask = np.array([[1, 1], [0, 1], [1, 1]], bool)
    params = {"epsilon": 1.0, "mask": mask, "responses": "separate"}
    case = Fit("SLTRRegressor", params, X, rng.normal(size=(12, 2)), X_new)
    case = replace(case, seed=1)
    assert ORACLES[name](case, case.fitted()) == ""
    wrong = replace(case, y=case.y**2).fitted()
    assert "scores differ" in ORACLES[name](case, wrong)


def test_every_estimator_is_tried():
    names = {name for name in sltr.__all__ if hasattr(getattr(sltr, name), "fit")}
    assert set(SPECS) == names


def test_every_oracle_holds_for_some_estimator():
    assert {name for spec in SPECS.values() for name in spec.oracles} == set(ORACLES)


def test_the_command_prints_the_smallest_of_each_class(monkeypatch, capsys):
    def violates(seed):
        return [Violation(seed, "fit, KeyError", "'a'", "a case", 100 - seed)]

    monkeypatch.setattr(cases, "run", violates)
    assert main(["3"]) == 1
    printed = capsys.readouterr().out
    assert "3 × fit, KeyError" in printed
    assert "case_of(2)" in printed
    monkeypatch.setattr(cases, "run", lambda seed: [])
    assert main(["3"]) == 0
