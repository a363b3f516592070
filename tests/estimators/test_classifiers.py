"""What all classifiers have in common: labels of any kind, from any library."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score, make_scorer

import sltr
from sltr.estimators.labels import label_indicators, winning_labels
from sltr.tuning.scores import class_numbers

MODELS = [
    sltr.CPClassifier(rank=1),
    sltr.RemursClassifier(),
    sltr.RemursClassifierCV(n_alphas=2, cv=3),
    sltr.SLTRClassifier(),
    sltr.SLTRClassifierCV("loo", (0.0, 0.5), (0.5,), refine=(None, "scale"), cv=3),
]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4, 3))
    return X, np.where(X[:, 0, 0] > 0.0, "up", "down")


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("kind", [np.asarray, list])
def test_torch_samples_take_labels_of_numpy_and_lists(model, kind, data):
    torch = pytest.importorskip("torch")
    X, labels = data
    weight = np.r_[0.0, np.ones(len(X) - 1)]
    expected = clone(model).fit(X, labels, sample_weight=weight).predict(X)
    found = clone(model).fit(torch.from_numpy(X), kind(labels), sample_weight=weight)
    assert found.predict(torch.from_numpy(X)).tolist() == expected.tolist()
    assert np.mean(expected == labels) > 0.9


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_one_class_of_positive_weight_is_refused(model, data):
    X, labels = data
    with pytest.raises(ValueError, match=r"one class only, \['up'\]"):
        clone(model).fit(X, labels, sample_weight=(labels == "up").astype(float))


@pytest.mark.parametrize("labels", [["b", "a", "b"], ["c", "a", "b", "a"]])
def test_labels_survive_the_way_there_and_back(labels):
    classes, indicators = label_indicators(labels)
    assert classes[class_numbers(indicators)].tolist() == labels
    decision = indicators - 0.5
    decision = decision[:, 0] if len(classes) == 2 else decision
    assert winning_labels(classes, decision).tolist() == labels


@pytest.mark.parametrize("model", [m for m in MODELS if hasattr(m, "scoring")])
def test_scores_of_several_classes_are_scikit_learns(model, data):
    X, _ = data
    y = np.digitize(X[:, 0, 0], (-0.5, 0.5))
    model = clone(model).set_params(cv=2)
    by_name = clone(model).set_params(scoring="accuracy").fit(X, y)
    scorer = make_scorer(accuracy_score)
    by_function = clone(model).set_params(scoring=scorer).fit(X, y)
    for key in ("mean_test_score", "split1_test_score"):
        np.testing.assert_allclose(
            by_name.cv_results_[key], by_function.cv_results_[key]
        )
    with pytest.raises(ValueError, match="multi_class"):
        model.set_params(scoring="roc_auc").fit(X, y)


@pytest.mark.parametrize(
    "model",
    [
        sltr.SLTRClassifier(fit_intercept=False),
        sltr.SLTRClassifierCV(fit_intercept=False, refine=(None, "scale", "cp"), cv=3),
        sltr.RemursClassifier(fit_intercept=False),
        sltr.RemursClassifierCV(fit_intercept=False, n_alphas=3, cv=3),
    ],
    ids=lambda model: type(model).__name__,
)
def test_without_intercept_the_order_of_labels_does_not_matter(rng, model):
    X = rng.normal(size=(60, 5, 4)) + 0.7
    score = X[:, :2, :2].sum(axis=(1, 2)) - X[:, 3:, 2:].sum(axis=(1, 2))
    up = score > np.median(score)
    one = clone(model).fit(X, np.where(up, "b", "a"))
    other = clone(model).fit(X, np.where(up, "b", "z"))
    np.testing.assert_allclose(one.coef_, -other.coef_, atol=1e-8)
    assert one.intercept_ == other.intercept_ == 0.0
    np.testing.assert_array_equal(one.predict(X) == "b", other.predict(X) == "b")


def shared_candidates(model, X, y):
    rows = model.fit(X, y).cv_results_["params"]
    return {row["refine"] for row in rows if row.get("shared")}


def test_several_classes_try_one_tensor_of_all(rng):
    X = rng.standard_normal((60, 4, 3))
    y = np.argmax(X[:, :3, 0], axis=1)
    kinds = {"refine": (None, "reweight"), "cv": 2}
    assert shared_candidates(sltr.SLTRClassifierCV(**kinds), X, y) == set(
        kinds["refine"]
    )
    assert not shared_candidates(sltr.SLTRClassifierCV(**kinds), X, y > 0)
    likely = sltr.SLTRClassifierCV(family="multinomial", **kinds)
    assert not shared_candidates(likely, X, y)
    with pytest.raises(ValueError, match="expected 'separate' beside a family"):
        likely.set_params(responses="shared").fit(X, y)
