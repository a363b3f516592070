"""The report's content: scores, words, packed data, escaping, size."""

import base64
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, mean_absolute_error, r2_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sltr import SLTRClassifier, SLTRRegressor, SLTRRegressorCV, inference
from sltr.datasets import label, load_nifti
from sltr.estimators.fitted import linear_scores
from sltr.plotting.modes import Modes
from sltr.reporting import payload as payload_module
from sltr.reporting import report
from sltr.reporting.payload import Map, coefficient_payload, path_payload
from sltr.reporting.scores import evaluate
from sltr.reporting.text import _METHODS, bibtex, method_name, references
from sltr.samples.check import check_samples
from sltr.tuning.choose import cv_table

pytest.importorskip("jinja2")


class TunedRegressor(RegressorMixin, BaseEstimator):
    """Ridge on the flattened tensor, with the fitted attributes of a CV model."""

    def __init__(self, tol=1e-4, random_state=3):
        self.tol = tol
        self.random_state = random_state

    def fit(self, X, y):
        samples = check_samples(self, X, y)
        ridge = Ridge(10.0).fit(samples.flat, samples.y)
        self.coef_ = ridge.coef_.reshape(samples.shape)
        self.intercept_ = ridge.intercept_
        self.dual_gap_, self.n_iter_ = 3e-5, 17
        grid = [(a, b) for a in (0.0, 0.1, 0.5) for b in (0.2, 0.7)]
        params = {"lambda_sparse": [g[0] for g in grid]}
        params["lambda_low"] = [g[1] for g in grid]
        self.cv_results_ = cv_table(params, np.arange(18.0).reshape(3, 6) / 20)
        self.lambda_sparse_, self.lambda_low_ = 0.1, 0.7
        return self

    def predict(self, X):
        return linear_scores(self, X)


class ManyClasses(ClassifierMixin, BaseEstimator):
    """One coefficient for each class: the class's mean."""

    def fit(self, X, y):
        samples = check_samples(self, X, y, labels=True)
        self.classes_ = np.unique(y)
        self.coef_ = np.stack([samples.X[y == c].mean(axis=0) for c in self.classes_])
        self.intercept_ = np.zeros(len(self.classes_))
        return self

    def predict(self, X):
        return self.classes_[np.argmax(linear_scores(self, X), axis=1)]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6, 5, 4))
    y = X[:, 0, 0, 0] - 2 * X[:, 1, 1, 1] + 0.1 * rng.standard_normal(60)
    return X, y


class _Page(HTMLParser):
    """The text, tags and addresses of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.addresses, self.words, self.blocks = [], [], [], {}
        self._block = None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append(tag)
        self.addresses += [v for k, v in found.items() if k in ("src", "href")]
        self._block = found.get("id", "code") if tag in ("script", "style") else None

    def handle_endtag(self, tag):
        self._block = None

    def handle_data(self, text):
        if self._block:
            self.blocks[self._block] = text
        else:
            self.words.append(text)

    @property
    def data(self):
        return json.loads(self.blocks["data"])

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.words))

    @property
    def method(self):
        """The methods paragraph, and what is below it."""
        return self.text[self.text.index("We fitted") :]


def _page(path):
    return _Page(path.read_text(encoding="utf-8"))


@pytest.fixture
def page_of(tmp_path):
    """Return a function that reports a model and reads the page."""

    def page_of(model, X, y, **options):
        given = {"n_bootstrap": 5, **options}
        return _page(report(model, X, y, tmp_path / "r.html", **given))

    return page_of


def test_page_says_what_was_fitted_and_how_well(data, page_of):
    X, y = data
    model = TunedRegressor().fit(X[:40], y[:40])
    page = page_of(
        model,
        X[:40],
        y[:40],
        X_test=X[40:],
        y_test=y[40:],
        title="Ages & clips",
        response="age (years)",
        mode_names=("row", "column", "frame"),
    )
    expected = r2_score(y[40:], model.predict(X[40:]))
    for words in (
        "Ages & clips",
        "On 20 samples the model has not seen",
        f"{expected:.3f}",
        "TunedRegressor",
        "40 of shape 6 × 5 × 4",
        "lambda_low = 0.7",
        "relative duality gap of 3.0e-05 (tolerance 1e-04)",
        "3-fold cross-validation over 6 candidates",
        "Computations used sltr",
        "3; bootstrap: 0",
    ):
        assert words in page.text, words
    assert page.data["coef"]["names"] == ["row", "column", "frame"]
    assert page.data["candidates"]["chosen"] == 3
    assert "training samples: they flatter" not in page.text


def test_training_scores_are_called_so(data, page_of):
    X, y = data
    page = page_of(TunedRegressor().fit(X, y), X, y)
    assert "they flatter the model" in page.text
    assert "In cross-validation the model reached" in page.text


def _headline(file):
    card = file.read_text(encoding="utf-8").partition('class="card headline"')[2]
    return " ".join(re.sub(r"<[^>]*>", " ", card.partition("</div>")[0]).split())


def test_the_headline_is_never_a_training_score(data, tmp_path):
    X, y = data
    tuned = SLTRRegressorCV(refine=(None, "scale"), cv=4).fit(X, y)
    folds = tuned.held_out_scores_["r2"]
    card = _headline(report(tuned, X, y, tmp_path / "r.html", n_bootstrap=9))
    assert f"R², cross-validated {folds.mean():.3f}" in card
    assert f"± {folds.std(ddof=1) / 2:.3f} (standard error over folds)" in card
    held = {"X_test": X[:20], "y_test": y[:20], "n_bootstrap": 9}
    card = _headline(report(tuned, X, y, tmp_path / "r.html", **held))
    assert "R², 20 held-out samples" in card
    assert "95 % interval" in card
    plain = SLTRRegressor().fit(X, y)
    card = _headline(report(plain, X, y, tmp_path / "r.html", n_bootstrap=9))
    assert "unknown not measured: give held-out samples" in card
    assert f"{plain.score(X, y):.3f}" not in card


def test_held_out_samples_with_names_of_training_samples_are_told(data, tmp_path):
    X, y = data
    known = label(X, ids=[f"s{k}" for k in range(len(X))])
    model = SLTRRegressor().fit(known[:40], y[:40])
    new = {"X_test": known[40:], "y_test": y[40:], "n_bootstrap": 5}
    report(model, known[:40], y[:40], tmp_path / "r.html", **new)
    new |= {"X_test": known[38:], "y_test": y[38:]}
    with pytest.warns(UserWarning, match="2 held-out samples have the names"):
        report(model, known[:40], y[:40], tmp_path / "r.html", **new)


def test_scores_that_never_change_have_no_error(rng):
    X = rng.normal(size=(33, 4, 3))
    y = np.where(X[:, 0, 0] > 0, "up", "down")
    model = SLTRClassifier(epsilon=1e-8).fit(X, y)
    right = evaluate(model, X, model.predict(X), y, n_bootstrap=50)
    assert [score.error for score in right.scores] == [0.0, 0.0]


def test_new_samples_given_as_training_samples_are_told(data, tmp_path):
    X, y = data
    known = label(X, ids=[f"s{k:02}" for k in range(len(X))])
    model = SLTRRegressor().fit(known[:40], y[:40])
    with pytest.warns(UserWarning, match="X has s40, the model s00.*Give new samples"):
        report(model, known[40:], y[40:], tmp_path / "r.html", n_bootstrap=5)


def test_the_page_shows_what_the_samples_know(tmp_path, rng, page_of):
    nibabel = pytest.importorskip("nibabel")
    pytest.importorskip("nilearn")
    affine = np.diag([8.0, 8.0, 8.0, 1.0])
    scans = nibabel.Nifti1Image(rng.normal(size=(6, 5, 4, 30)), affine)
    data = load_nifti(scans)
    X, y = data.X, np.asarray(data.X)[:, 1, 2, 3]
    model = SLTRRegressor().fit(X, y)
    page = page_of(model, X, y)
    known = page.data["coef"]
    assert (known["names"], known["units"]) == (["x", "y", "z"], ["mm"] * 3)
    assert known["show"] == [1, 0]
    # Rows are drawn downwards, so that y begins with its largest.
    assert known["coords"][1]["values"] == [32, 24, 16, 8, 0]
    assert known["coords"][0]["values"] == [0, 8, 16, 24, 32, 40]
    packed = np.frombuffer(base64.b64decode(known["data"]), "<i2").reshape(6, 5, 4)
    turned = model.coef_[:, ::-1, ::-1]
    place = np.unravel_index(np.argmax(np.abs(packed)), packed.shape)
    assert place == np.unravel_index(np.argmax(np.abs(turned)), packed.shape)
    assert '<figure class="field"><img src="data:image/png' in (
        tmp_path / "r.html"
    ).read_text(encoding="utf-8")
    bare = page_of(model, X, y, units=("mm",) * 3, coords=(None, None, None))
    assert bare.data["coef"]["units"] == ["", "", ""]  # indices are no millimetres


EVIL = "</script><script>evil = 1</script><img src=x onerror=alert(1)>'\"&{{7*7}}"


def test_user_text_is_escaped_everywhere(data, page_of):
    X, y = data
    labels = np.where(y > 0, EVIL, "plain")
    plain = page_of(LogisticRegression().fit(X[:, 0, 0], y > 0), X[:, 0, 0], y > 0)
    page = page_of(
        LogisticRegression().fit(X[:, 0, 0], labels),
        X[:, 0, 0],
        labels,
        title=EVIL,
        description=EVIL,
        response=EVIL,
        mode_names=[EVIL, EVIL],
        units=[EVIL, EVIL],
    )
    assert page.tags.count("script") == plain.tags.count("script")
    assert "img" not in page.tags
    assert EVIL in page.text
    assert EVIL in page.data["outcome"]["classes"]


def test_page_loads_nothing(data, tmp_path):
    X, y = data
    path = report(TunedRegressor().fit(X, y), X, y, tmp_path / "r.html", n_bootstrap=9)
    page = _page(path)
    assert all(a.startswith(("#", "data:image/png")) for a in page.addresses)
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"https?://|url\(|@import|fetch\(|XMLHttpRequest", text)
    assert "default-src 'none'" in text


def test_page_for_64_cubed_stays_small(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((5, 64, 64, 64)).astype(np.float32), np.arange(5.0)
    model = TunedRegressor().fit(X[:, :2, :2, :2], y)
    model.coef_, model.shape_in_ = X[0], (64, 64, 64)
    model.n_features_in_ = 64
    path = report(model, X, y, tmp_path / "r.html", n_bootstrap=5)
    assert path.stat().st_size < 2_000_000


def test_regression_scores_agree_with_scikit_learn(data):
    X, y = data
    model = TunedRegressor().fit(X[:40], y[:40])
    outcome = evaluate(model, X[40:], y[40:], y[:40], n_bootstrap=200)
    r2, rmse, mae = outcome.scores
    predicted = model.predict(X[40:])
    assert np.isclose(r2.value, r2_score(y[40:], predicted))
    assert np.isclose(rmse.value, np.sqrt(np.mean((y[40:] - predicted) ** 2)))
    assert np.isclose(mae.value, mean_absolute_error(y[40:], predicted))
    null = np.full(20, y[:40].mean())
    assert np.isclose(r2.null, r2_score(y[40:], null))
    assert np.isclose(mae.null, mean_absolute_error(y[40:], null))
    for score in outcome.scores:
        assert score.low < score.value < score.high
        assert 0 < score.error < score.high - score.low


def test_bootstrap_error_is_that_of_the_mean():
    rng = np.random.default_rng(1)
    y = np.array(["a", "b"])[(rng.random(400) < 0.3).astype(int)]
    X = np.zeros((400, 2))
    model = LogisticRegression().fit(X, y)
    outcome = evaluate(model, X, y, y)
    accuracy = outcome.scores[-1]
    share = accuracy_score(y, model.predict(X))
    assert np.isclose(accuracy.value, share)
    assert np.isclose(accuracy.error, np.sqrt(share * (1 - share) / 400), rtol=0.1)
    assert accuracy.value == accuracy.null
    assert accuracy.beats_null == 0.0


def test_classifier_scores_agree_with_scikit_learn(data):
    X, y = data[0][:, 0, 0], np.where(data[1] > 0, "yes", "no")
    model = LogisticRegression().fit(X[:40], y[:40])
    auc, accuracy = evaluate(model, X[40:], y[40:], y[:40], n_bootstrap=50).scores
    score = model.decision_function(X[40:])
    assert np.isclose(auc.value, roc_auc_score(y[40:], score))
    assert auc.null == 0.5
    assert np.isclose(accuracy.value, accuracy_score(y[40:], model.predict(X[40:])))


def test_one_class_alone_has_no_roc(data, page_of):
    X, y = data[0][:, 0, 0], np.where(data[1] > 0, "yes", "no")
    model, only = LogisticRegression().fit(X, y), y == "yes"
    auc = evaluate(model, X[only], y[only], y, n_bootstrap=20).scores[0]
    assert np.isnan(auc.value)
    page = page_of(model, X, y, X_test=X[only], y_test=y[only], n_bootstrap=20)
    assert "roc" not in page.data["outcome"]


def test_many_classes_have_a_coefficient_each(data, page_of):
    X = data[0]
    y = np.array(["a", "b", "c"])[np.digitize(data[1], [-1, 1])]
    model = ManyClasses().fit(X, y)
    page = page_of(model, X, y, n_bootstrap=20)
    assert page.data["coef"]["targets"] == ["a", "b", "c"]
    counts = np.array(page.data["outcome"]["counts"])
    assert counts.sum() == 60
    assert np.trace(counts) == np.sum(model.predict(X) == y)
    assert (
        "Each of 3 classes has a coefficient; they have 360 of 360 entries" in page.text
    )
    assert "multilinear ranks (6, 5, 4) for class a, (6, 5, 4) for class b" in page.text
    assert "ranks are of the first" not in page.text


def test_ranks_of_all_classes_are_told(data, page_of):
    X, y = data[0], np.digitize(data[1], [-1, 1]) + 1
    model = ManyClasses().fit(X, y)
    model.coef_[0] = 0.0
    model.coef_[1] = 1.0
    page = page_of(model, X, y)
    told = "ranks (0, 0, 0) for class 1, (1, 1, 1) for class 2, (6, 5, 4) for class 3"
    assert told in page.text
    assert "0–6 · 0–5 · 0–4" in page.text
    drawn = _unpack(page.data["coef"]["data"], "<i2", (3, 6, 5, 4))
    assert np.ptp(drawn[:2], axis=(1, 2, 3)).tolist() == [0, 0]


def test_pipelines_and_searches_are_looked_into(data, page_of):
    X, y = data[0].reshape(60, -1), data[1]
    pipeline = make_pipeline(StandardScaler(), Ridge())
    grid = {"ridge__alpha": [0.1, 1.0, 10.0]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    page = page_of(search, X, y, n_bootstrap=20)
    assert page.data["candidates"]["names"] == ["ridge__alpha"]
    assert page.data["candidates"]["chosen"] == search.best_index_
    assert "We fitted Ridge to 60 samples" in page.text


def test_method_states_settings_that_were_not_tuned(data, page_of):
    X, y = data[0].reshape(60, -1), data[1]
    model = Ridge(alpha=2.5).fit(X, y)
    page = page_of(model, X, y)
    assert "Hyper-parameters were set to alpha = 2.5." in page.text
    assert "cross-validation" not in page.text


def test_settings_a_search_left_alone_are_named(data, page_of):
    X, y = data
    search = GridSearchCV(
        SLTRRegressor(0.7, coupling="joint"), {"lambda_sparse": [0.1, 0.4]}, cv=3
    )
    text = page_of(search.fit(X, y), X, y).method
    others = "Other hyper-parameters were set to epsilon = 0.7, lambda_low = 0.1, "
    assert others + "coupling = joint." in text
    assert "lambda_sparse = 0.1, lambda_low" not in text


def test_splitters_and_groups_are_named(data, page_of):
    X, y = data
    groups = np.arange(60) // 10
    inner = SLTRRegressorCV(refine=(None,), cv=LeaveOneGroupOut())
    page = page_of(inner.fit(X, y, groups=groups), X, y)
    text = page.method
    folds = "6-fold cross-validation (LeaveOneGroupOut: whole groups were left out)"
    assert f"{folds} compared" in text
    assert f"{folds} of the" in page.text
    search = GridSearchCV(SLTRRegressor(), {"lambda_low": [0.1, 1]}, cv=GroupKFold(3))
    text = page_of(search.fit(X, y, groups=groups), X, y).method
    assert "by 3-fold cross-validation (GroupKFold: whole groups were left" in text


@pytest.mark.parametrize("model", [SLTRRegressor, SLTRClassifier])
def test_what_a_single_fit_chose_is_not_called_set(data, page_of, model):
    X, y = data
    y = y if model is SLTRRegressor else y > 0
    fitted = model(refine="tucker").fit(X, y)
    text = page_of(fitted, X, y).method
    assert "were set to lambda_sparse = 0.1, lambda_low = 0.1. The" in text
    assert f"leave-one-out error chose epsilon = {fitted.epsilon_:.4g}." in text
    rank, ridge = fitted.refine_settings_
    chose = (
        f"Cross-validation within these samples chose rank = {rank}, ridge = {ridge}"
    )
    assert chose in text
    given = model(0.5, refine=("cp", 1, 0.1)).fit(X, y)
    text = page_of(given, X, y).method
    assert (
        "set to epsilon = 0.5, lambda_sparse = 0.1, lambda_low = 0.1, rank = 1" in text
    )
    assert "chose" not in text


def test_method_says_which_candidates_were_averaged(data, page_of):
    X, y = data
    model = SLTRRegressorCV(refine=(None, "tucker", "cp")).fit(X, y)
    of = [row["refine"] for row in model.cv_results_["params"]]
    used = {model.best_index_, of.index("cp"), of.index("tucker")}
    model.weights_ = np.array([g in used for g in range(len(of))]) / len(used)
    kinds = [of[g] for g in used]
    page = page_of(model, X, y)
    text = page.method
    n_candidates = len(model.weights_)
    for words in (
        f"5-fold cross-validation compared {n_candidates} candidates.",
        f"the mean of {len(used)} candidates, weighted by exp(−z²/2), z the excess of "
        "held-out squared errors over the best one's in standard errors",
        f"{kinds.count('tucker')} Tucker refit",
        f"{kinds.count('cp')} CP refit",
        "starting from the SLTR estimate",
        "The refined pilot is the mean of",
        "the duality gap of the coefficient is zero",
        "(null model ",
        f"Averaged {len(used)} of {n_candidates} candidates",
        "Best candidate",
        "the star is the best candidate",
    ):
        assert words in text or words in page.text, words
    assert "Hyper-parameters" not in text
    assert "nan" not in text
    names, rows = (page.data["candidates"][key] for key in ("names", "rows"))
    plain = [row for row in rows if row[names.index("refine")] == "None"]
    assert {row[names.index("rank")] for row in plain} == {"–"}
    assert {row[names.index("ridge")] for row in plain} == {"–"}


@pytest.mark.parametrize(
    ("model", "present", "absent"),
    [
        (
            SLTRRegressorCV(refine="sparse", rule="best"),
            ("that of the best candidate, the sparse refit with lambda_sparse",),
            ("epsilon =", "lambda_low =", "starting from", "mean of"),
        ),
        (
            SLTRRegressorCV(refine=(None,), rule="1se"),
            ("of fewest free parameters", "the unrefined estimate with epsilon"),
            ("radii of zero", "rank =", "Refits"),
        ),
        (
            SLTRRegressor(refine=("cp", 1, 0.1)),
            (
                "Refits (CP) were fitted to the samples",
                "radii of zero leave it as it is: the duality gap of the coefficient",
            ),
            ("cross-validation", "The solver stopped"),
        ),
    ],
    ids=["sparse", "1se", "fixed"],
)
def test_method_names_only_what_applies(data, page_of, model, present, absent):
    text = page_of(model.fit(*data), *data).method
    text = text[: text.index("Computations used")]
    assert [words for words in present if words not in text] == []
    assert [words for words in absent if words in text] == []


def test_no_score_is_minus_zero(data, monkeypatch):
    X, y = data
    model = TunedRegressor().fit(X, y)
    rounded = lambda *_: np.array([-1e-16, -1e-16])  # noqa: E731
    monkeypatch.setattr("sltr.reporting.scores.fold_scores", rounded)
    r2 = evaluate(model, X, y, y, n_bootstrap=5).scores[0]
    assert f"{r2.value:.3g} {r2.null:.3g}" == "0 0"


def test_coordinates_are_packed(data, tmp_path):
    X, y = data
    coords = {1: ["a", "b", "c", "d", "e"], 2: np.array([0.0, 2.5, 5.0, 7.5])}
    model = TunedRegressor().fit(X, y)
    path = report(model, X, y, tmp_path / "r.html", n_bootstrap=5, coords=coords)
    assert _page(path).data["coef"]["coords"] == [
        None,
        {"even": False, "values": ["a", "b", "c", "d", "e"]},
        {"even": True, "values": [0.0, 2.5, 5.0, 7.5]},
    ]


@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        (4, ["yes", "no"], "4 samples and 2 responses were given"),
        (0, [], "0 samples and 0 responses were given"),
        (
            4,
            [0, 1, 0, 1],
            "Labels 0, 1 were given; expected those the model knows, 'no'",
        ),
        (2, ["yes", "maybe"], "Labels 'maybe' were given"),
    ],
)
def test_held_out_labels_must_be_the_models(data, tmp_path, rows, labels, message):
    X, y = data[0][:, 0, 0], np.where(data[1] > 0, "yes", "no")
    model = LogisticRegression().fit(X, y)
    held_out = {"X_test": X[:rows], "y_test": np.array(labels), "n_bootstrap": 5}
    with pytest.raises(ValueError, match=message):
        report(model, X, y, tmp_path / "r.html", **held_out)
    assert not list(tmp_path.iterdir())


def test_training_labels_must_be_the_models(data, tmp_path):
    X, y = data[0][:, 0, 0], data[1]
    words = np.where(y > 0, "1", "0")
    model = LogisticRegression().fit(X, words)
    with pytest.raises(ValueError, match="expected those the model knows, '0', '1'"):
        report(model, X, (y > 0).astype(int), tmp_path / "r.html")
    with pytest.raises(ValueError, match="60 samples and 59 responses"):
        report(model, X, words[1:], tmp_path / "r.html", X_test=X, y_test=words)
    with pytest.raises(ValueError, match="expected numbers, as in fit"):
        report(Ridge().fit(X, y), X, np.char.add(words, "!"), tmp_path / "r.html")


def test_samples_of_one_class_can_be_reported(data, tmp_path):
    X, y = data[0][:, 0, 0], np.where(data[1] > 0, "yes", "no")
    model, only = LogisticRegression().fit(X, y), y == "yes"
    path = report(model, X[only], y[only], tmp_path / "r.html", n_bootstrap=5)
    outcome = _page(path).data["outcome"]
    assert outcome["classes"] == ["no", "yes"]
    assert np.sum(outcome["counts"], axis=1).tolist() == [0, only.sum()]


def _unpack(text, dtype, shape):
    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape)


def test_packed_coefficient_is_right_to_a_sixteenth_bit():
    rng = np.random.default_rng(0)
    coefs = rng.standard_normal((2, 5, 4, 3)) * (rng.random((2, 5, 4, 3)) < 0.5)
    payload = coefficient_payload(coefs, ["a", "b"], coefs[0], Modes.of((5, 4, 3)))
    drawn = _unpack(payload["data"], "<i2", coefs.shape) / 32767 * payload["limits"][0]
    assert payload["limits"] == [np.abs(coefs).max()] * 2
    assert np.max(np.abs(drawn - coefs)) <= payload["limits"][0] / 32767
    assert np.array_equal(drawn == 0, coefs == 0)
    grey = _unpack(payload["sample"], "u1", (5, 4, 3))
    assert (grey.min(), grey.max()) == (0, 255)


def test_responses_in_other_units_have_colours_of_their_own():
    coefs = np.array([[[1.0, -2.0]], [[3e-4, 1e-4]]])
    modes = Modes.of((1, 2))
    payload = coefficient_payload(coefs, ["water", "fat"], None, modes, (), "Response")
    assert payload["limits"] == [2.0, 3e-4]
    drawn = _unpack(payload["data"], "<i2", coefs.shape) / 32767
    np.testing.assert_allclose(drawn[1, 0], [1.0, 1 / 3], atol=1e-4)


def test_entries_outside_a_mask_are_marked_and_not_counted(data, page_of):
    X, y = data
    mask = np.ones((6, 5, 4), bool)
    mask[3:] = False
    X[:, ~mask] = np.nan
    model = SLTRRegressor(mask=mask).fit(X, y)
    page = page_of(model, X, y)
    drawn = _unpack(page.data["coef"]["data"], "<i2", (6, 5, 4))
    np.testing.assert_array_equal(drawn == -32768, ~mask)
    assert "of 60 entries" in page.text
    grey = _unpack(page.data["coef"]["sample"], "u1", (6, 5, 4))
    assert (grey[:3].min(), grey[:3].max()) == (0, 255)


def test_large_coefficients_are_shown_at_reduced_resolution(monkeypatch):
    monkeypatch.setattr(payload_module, "MAX_ENTRIES", 100)
    coef = np.zeros((1, 15, 20))
    coef[0, 14, 7] = -3.0
    payload = coefficient_payload(coef, [""], None, Modes.of((15, 20)))
    assert payload["shape"] == [8, 10]
    assert payload["steps"] == [2, 2]
    drawn = _unpack(payload["data"], "<i2", (8, 10))
    assert np.argwhere(drawn).tolist() == [[7, 3]]
    coef[0, :4, :3] = np.nan  # outside a mask
    payload = coefficient_payload(coef, [""], None, Modes.of((15, 20)))
    drawn = _unpack(payload["data"], "<i2", (8, 10))
    assert np.argwhere(drawn == -32768).tolist() == [[0, 0], [1, 0]]


def test_path_holds_counts_ranks_and_pictures():
    coefs = np.stack([np.eye(3), np.zeros((3, 3))])
    path = path_payload(([0.5, 0.1], coefs), 0.4, "lambda_low")
    assert path["values"] == [0.1, 0.5]
    assert path["nonzero"] == [0, 3]
    assert path["ranks"] == [[0, 0], [3, 3]]
    pictures = _unpack(path["pictures"], "i1", (2, 3, 3))
    assert np.array_equal(pictures[1], 127 * np.eye(3))
    assert len(path["traces"]) == 3


def test_maps_have_colours_of_their_own():
    coef, pattern = np.eye(3)[None], 5.0 * np.ones((3, 3))
    maps = [Map("pattern", "", pattern), Map("selection frequency", "", 0.0 * pattern)]
    payload = coefficient_payload(coef, [""], None, Modes.of((3, 3)), maps)
    assert payload["targets"] == ["coefficient", "pattern", "selection frequency"]
    assert payload["measures"] == payload["targets"]
    assert payload["limits"] == [1.0, 5.0, 1.0]
    drawn = _unpack(payload["data"], "<i2", (3, 3, 3))
    assert (drawn[1] == 32767).all()
    assert not drawn[2].any()


def test_what_inference_found_is_shown(data, tmp_path):
    X, y = data
    model = SLTRRegressorCV(refine=(None,)).fit(X[:40], y[:40])
    found = {
        "patterns": inference.patterns(model, X[:40]),
        "stability": inference.stability(model, X[:40], y[:40], n_pairs=3),
        "intervals": inference.intervals(model, X[:40], y[:40]),
        "test": inference.permutation_test(
            model, X[:40], y[:40], n=19, statistic="pilot", random_state=0
        ),
    }
    seen = {"X_test": X[40:], "y_test": y[40:]}
    path = report(
        model, X[:40], y[:40], tmp_path / "r.html", n_bootstrap=5, **seen, **found
    )
    page = _page(path)
    assert f"p = {found['test'].p_value:.2g}" in page.text
    assert "19 permutations of samples" in page.text
    coef = page.data["coef"]
    assert coef["targets"] == ["coefficient", "pattern", "selection frequency"]
    drawn = _unpack(coef["data"], "<i2", (3, *model.shape_in_)) / 32767
    scale = np.array(coef["limits"]).reshape(3, 1, 1, 1)
    usual = found["patterns"].pattern * found["patterns"].score_std
    expected = np.stack([model.coef_, usual, found["stability"].frequency])
    np.testing.assert_allclose(drawn * scale, expected, atol=1e-4 * scale.max())
    lower, upper = found["intervals"].predict(X[40:], level=0.9)
    np.testing.assert_allclose(page.data["outcome"]["bounds"], [lower, upper], 1e-6)
    share = 100 * np.mean((lower <= y[40:]) & (y[40:] <= upper))
    assert f"they cover {share:.0f} % of these samples" in page.text
    with pytest.raises(ValueError, match="intervals was given without X_test"):
        report(model, X, y, tmp_path / "s.html", intervals=found["intervals"])


@pytest.mark.parametrize(
    ("radius", "words"),
    [
        (0.0, "Zeros would not clearly lower the held-out error"),
        (0.2, "the box has a radius of 0.2 of the largest entry"),
        (1.0, "Nothing was found: Held-out predictions could not be told"),
    ],
)
def test_the_last_step_is_described(data, page_of, radius, words):
    X, y = data
    model = SLTRRegressorCV(refine=(None, "cp")).fit(X, y)
    model.sparse_radius_, model.low_radius_, model.dual_gap_ = radius, 0.07, 0.0
    page = page_of(model, X, y)
    assert words in page.text
    assert ("singular values below 0.07" in page.text) == (radius < 1.0)
    assert "the duality gap of the coefficient is zero" in page.text
    assert "a closed form" in page.text


@pytest.mark.parametrize(
    ("state", "tol", "words"),
    [
        ({"dual_gap_": np.array([1e-5, 2e-3])}, 1e-4, "The tolerance was not reached"),
        ({"dual_gap_": 1e-5}, None, "at a relative duality gap of 1.0e-05."),
        (
            {"residual_": 2e-5, "objective_path_": [2.0, 1.0]},
            1e-4,
            "a residual of 2.0e",
        ),
        ({"deviance_path_": [2.0, 1.0]}, 1e-4, "no certificate of optimality"),
    ],
)
def test_certificate_claims_only_what_is_known(data, page_of, state, tol, words):
    X, y = data
    model = TunedRegressor(tol=tol).fit(X, y)
    del model.dual_gap_
    vars(model).update(state)
    page = page_of(model, X, y)
    assert words in page.text
    assert ("✓" in page.text) == ("residual_" in state)


def test_every_method_has_references_that_exist():
    for prefix, (name, keys) in _METHODS.items():
        assert method_name(prefix + "RegressorCV") == name
        for key in keys:
            assert f"{{{key}," in bibtex(prefix)
    for key, entry in references().items():
        assert re.match(rf"@\w+\{{{key},", entry)
        assert entry.count("{") == entry.count("}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X_test": np.zeros((3, 6, 5, 4))}, "Only one of X_test and y_test"),
        ({"mode_names": ("a",)}, "expected one for each of 3"),
        ({"coef_path": ([1.0], np.zeros((2, 3)))}, r"expected \(G,\) and"),
        ({"coords": {0: [1, 2]}}, "each of its 6 slices"),
    ],
)
def test_bad_input_is_explained_and_writes_nothing(data, tmp_path, change, message):
    X, y = data
    model = TunedRegressor().fit(X, y)
    with pytest.raises(ValueError, match=message):
        report(model, X, y, tmp_path / "r.html", n_bootstrap=2, **change)
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_told_before_any_work(data, tmp_path, monkeypatch):
    model = TunedRegressor().fit(*data)
    monkeypatch.setattr("sltr.reporting.evaluate", None)
    path = tmp_path / "none" / "r.html"
    with pytest.raises(FileNotFoundError, match="Make the folder") as caught:
        report(model, *data, path)
    assert str(caught.value).startswith(str(path))


def test_unfitted_models_are_refused(data, tmp_path):
    with pytest.raises(ValueError, match="has no coef_; expected a fitted linear"):
        report(Ridge(), *data, tmp_path / "r.html")


def _of_responses(rng, shape_out=(3,)):
    X = rng.normal(size=(60, 4, 3))
    scale = np.arange(1.0, 1.0 + np.prod(shape_out)).reshape(shape_out)
    Y = X[:, 0, 0].reshape(-1, *[1] * len(shape_out)) * scale
    return X, Y + rng.normal(size=Y.shape)


def test_scores_of_several_responses_are_those_of_each(rng):
    X, Y = _of_responses(rng)
    model = SLTRRegressor().fit(X[:40], Y[:40])
    outcome = evaluate(model, X[40:], Y[40:], Y[:40], n_bootstrap=50)
    predicted, null = model.predict(X[40:]), Y[:40].mean(axis=0)
    each = [r2_score(Y[40:, k], predicted[:, k]) for k in range(3)]
    assert list(outcome.each) == ["0", "1", "2"]
    for k, (r2, rmse) in enumerate(outcome.each.values()):
        assert r2.value == pytest.approx(each[k])
        errors = Y[40:, k] - predicted[:, k]
        assert rmse.value == pytest.approx(np.sqrt(np.mean(errors**2)))
        blank = r2_score(Y[40:, k], np.full(20, null[k]))
        assert r2.null == pytest.approx(blank)
        assert r2.low <= r2.value <= r2.high
    (overall,) = outcome.scores
    assert overall.value == pytest.approx(np.mean(each))
    assert outcome.n_samples == 20
    assert len(outcome.y) == 60


@pytest.mark.parametrize("shape_out", [(3,), (2, 2)])
def test_a_page_about_several_responses(rng, tmp_path, shape_out):
    X, Y = _of_responses(rng, shape_out)
    model = SLTRRegressorCV(refine=None, cv=3).fit(X[:40], Y[:40])
    if len(shape_out) == 1:
        model.response_names_ = ["water", "fat", "<protein>"]
    given = {"X_test": X[40:], "y_test": Y[40:], "n_bootstrap": 50}
    page = report(model, X[:40], Y[:40], tmp_path / "r.html", **given)
    text = page.read_text(encoding="utf-8")
    count = int(np.prod(shape_out))
    assert f"R², mean of {count} responses, 20 held-out samples" in text
    assert f"Each of {count} responses" in text
    assert "responses has a coefficient" in text
    name = "&lt;protein&gt;" if len(shape_out) == 1 else "(1, 1)"
    assert f"<th>{name}</th>" in text
    trained = report(model, X, Y, tmp_path / "t.html", n_bootstrap=50)
    assert "R², cross-validated" in trained.read_text(encoding="utf-8")


def test_responses_of_another_shape_are_refused(rng):
    X, Y = _of_responses(rng)
    model = SLTRRegressor().fit(X, Y)
    for y, y_train in ((Y[:, 0], Y), (Y[:, :2], Y), (Y, Y[:, 0])):
        with pytest.raises(ValueError, match="as the model predicts"):
            evaluate(model, X, y, y_train, n_bootstrap=5)
    with pytest.raises(ValueError, match="as the model predicts"):
        evaluate(SLTRRegressor().fit(X, Y[:, 0]), X, Y, Y, n_bootstrap=5)


def test_missing_responses_are_not_scored_on_the_page(rng):
    X, Y = _of_responses(rng)
    Y[::5, 1] = np.nan
    model = SLTRRegressor(missing_y="ridge").fit(X, Y)
    outcome = evaluate(model, X, Y, Y, n_bootstrap=20)
    known = ~np.isnan(Y[:, 1])
    expected = r2_score(Y[known, 1], model.predict(X)[known, 1])
    assert outcome.each["1"][0].value == pytest.approx(expected)
    assert np.isfinite(outcome.y).all()


def test_a_page_about_covariates_has_their_slopes(rng, tmp_path):
    X, Z = rng.normal(size=(60, 4, 3)), rng.normal(size=(60, 2))
    y = X[:, 0, 0] + Z @ [5.0, -2.0] + 0.1 * rng.normal(size=60)
    model = SLTRRegressor().fit(X[:40], y[:40], covariates=Z[:40])
    given = {"X_test": X[40:], "y_test": y[40:], "n_bootstrap": 50}
    with pytest.raises(ValueError, match="covariates_test was not given"):
        report(model, X[:40], y[:40], tmp_path / "r.html", **given)
    page = report(
        model, X[:40], y[:40], tmp_path / "r.html", covariates_test=Z[40:], **given
    )
    text = page.read_text(encoding="utf-8")
    assert "<h2>Covariates</h2>" in text
    found = [float(f"{s:.3g}") for s in model.covariate_coef_]
    assert f"<td>{found[0]:#.3g}</td>" in text
    outcome = evaluate(model, X[40:], y[40:], y[:40], covariates=Z[40:], n_bootstrap=9)
    expected = model.score(X[40:], y[40:], covariates=Z[40:])
    assert outcome.scores[0].value == pytest.approx(expected)
