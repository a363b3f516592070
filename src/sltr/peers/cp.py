"""CP tensor GLM: a coefficient of low CP rank (GLTRM)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from sltr.arrays import Array, array_namespace, as_array
from sltr.core.families import FAMILIES
from sltr.estimators.fitted import (
    ClassifierBeside,
    RegressorBeside,
    unchanged_on_failure,
)
from sltr.estimators.labels import label_indicators, winning_labels
from sltr.parameters import check_count, check_sequence
from sltr.peers.glm import (
    ALPHAS_RIDGE,
    Prepared,
    _TensorGLMBase,
    _TensorGLMSearch,
    choose_by_bic,
    prepare,
    scores_with_covariates,
)
from sltr.refine.factors import CP, Form
from sltr.samples.check import check_samples
from sltr.samples.samples import Samples


@dataclass(eq=False, repr=False)
class _CP(_TensorGLMBase):
    """What `CPRegressor` and `CPClassifier` share: all parameters but the family."""

    rank: int | str = "bic"
    _: KW_ONLY
    ranks: Sequence[int] = (1, 2, 3)
    alpha_ridge: float = 1e-3
    alpha_l1: float = 0.0
    n_restarts: int = 2
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None
    tol: float = 1e-4
    max_iter: int = 200
    random_state: Any = 0

    def _fit(self, prepared: Prepared) -> Any:
        forms = _cp_forms(self.rank, self.ranks, self.shape_in_)
        how = {"ridge": self.alpha_ridge, "l1": self.alpha_l1}
        fit = choose_by_bic(prepared, forms, self, **how)
        return self._finish(prepared, fit)


@dataclass(eq=False, repr=False)
class CPRegressor(RegressorBeside, _CP):
    r"""Generalised linear model whose coefficient tensor has a low CP rank.

    With :math:`B = \sum_{r=1}^R b_r^{(1)} \circ \dots \circ b_r^{(M)}` and the
    family's canonical link g, :math:`g(E y_i) = \langle B, X_i \rangle + \gamma^T z_i`
    is fitted by block relaxation of

    .. math:: \min \; \mathrm{dev} + n \sum_m \left(\alpha_{ridge} \|B_m\|_F^2
              + \alpha_{l1} \|B_m\|_1 \right),

    where :math:`B_m = [b_1^{(m)}, \dots, b_R^{(m)}]`, n is the sum of the weights and
    X (and a normal y) has unit mean square once centred: the penalties do not depend
    on units. Several starts run for a few sweeps and the best goes on.

    Parameters
    ----------
    rank : int or "bic"
        R; "bic" takes the lowest BIC among those `ranks` that have fewer parameters
        than there are samples (the first if none has). For cross-validation, the
        better choice when samples are few, see `CPRegressorCV`.
    ranks : sequence of int
        Candidates for "bic"; those no tensor of X's shape needs are left out.
    family : {"normal", "binomial", "poisson"}
        "binomial" needs responses 0 and 1; see also `CPClassifier`.
    alpha_ridge : float
        Without it a fit needs n ≥ R·max p_m samples.
    alpha_l1 : float
        Above 0 the factors become sparse.
    n_restarts : int
        Starts in all: one grown rank by rank, one from the spectrum of the score
        tensor, from the third on random ones.
    fit_intercept : bool
    feature_shape : tuple of int, optional
        Folds flat rows of X into tensors.
    tol : float
        Stops when a sweep lowers the objective f by less than tol·(\|f\| + 1).
    max_iter : int
        Sweeps.
    random_state : int, RandomState or None

    Attributes
    ----------
    coef_ : array of shape (p1, …, pM)
    factors_ : list of arrays of shape (p_m, rank)
        Their tensor is `coef_`, in the units of X and y.
    intercept_ : float
    covariate_coef_ : array of shape (q,)
    rank_ : int
    bic_ : float
        For the normal family with the variance estimated.
    deviance_ : float
    deviance_path_ : tuple of float
        The penalised deviance (of the scaled problem) after every sweep; never rises.
    n_iter_ : int

    References
    ----------
    Zhou, Li, Zhu (2013). Tensor regression with applications in neuroimaging data
    analysis. JASA 108(502), 540-552.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 4, 3))
    >>> y = X[:, 0, 0] + X[:, 1, 1]
    >>> model = CPRegressor(rank="bic").fit(X, y)
    >>> model.rank_, bool(model.score(X, y) > 0.99)
    (2, True)
    """

    _: KW_ONLY
    family: str = "normal"

    @unchanged_on_failure
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, covariates: Any = None
    ) -> CPRegressor:
        """Fit the model.

        Parameters
        ----------
        X : array of shape (n, p1, …, pM)
        y : array of shape (n,)
        sample_weight : array of shape (n,), optional
        covariates : array of shape (n,) or (n, q), optional
            Scalar covariates z, not penalised.
        """
        prepared = self._prepare(X, y, sample_weight, covariates, self.family)
        return self._fit(prepared)


class CPClassifier(ClassifierBeside, _CP):
    """Binary logistic regression whose coefficient tensor has a low CP rank.

    It is `CPRegressor` with ``family="binomial"`` (the problem, its parameters and its
    fitted attributes are described there) for labels of any kind.

    Parameters
    ----------
    rank, ranks, alpha_ridge, alpha_l1, n_restarts, fit_intercept, feature_shape, tol, \
max_iter, random_state
        As in `CPRegressor`.

    Attributes
    ----------
    classes_ : array of shape (2,)
        `coef_`, `rank_`, `deviance_path_`, …: as in `CPRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((80, 4, 3))
    >>> y = np.where(X[:, 0, 0] > 0, "up", "down")
    >>> model = CPClassifier(rank=1).fit(X, y)
    >>> model.classes_.tolist(), bool(model.score(X, y) > 0.9)
    (['down', 'up'], True)
    """

    def __sklearn_tags__(self):
        """Declare two classes at most."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    @unchanged_on_failure
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, covariates: Any = None
    ) -> CPClassifier:
        """Fit the model; see `CPRegressor.fit`, with labels of two classes for y."""
        samples = check_samples(self, X, y, sample_weight, labels=True)
        self.classes_, encoded = _two_classes(samples.y)
        Z = self._checked_covariates(covariates, samples, sample_weight)
        numbers = Samples(samples.X, as_array(encoded, samples.X), samples.weight)
        return self._fit(prepare(numbers, Z, "binomial", self.fit_intercept))

    def decision_function(self, X: Any, covariates: Any = None) -> Array:
        """Return the log-odds of the second class, shape (n,)."""
        return scores_with_covariates(self, X, covariates)

    def predict_proba(self, X: Any, covariates: Any = None) -> Array:
        """Return the classes' probabilities, shape (n, 2)."""
        scores = self.decision_function(X, covariates)
        second = FAMILIES["binomial"].mean(scores)
        return array_namespace(second).stack([1.0 - second, second], axis=1)

    def predict(self, X: Any, covariates: Any = None) -> np.ndarray:
        """Return the more probable class of every sample, shape (n,)."""
        scores = self.decision_function(X, covariates)
        return winning_labels(self.classes_, scores)


def _two_classes(labels: Any) -> tuple[np.ndarray, np.ndarray]:
    classes, indicators = label_indicators(labels)
    if len(classes) > 2:
        msg = (
            "Only binary classification is supported. The type of the target is "
            f"multiclass: {len(classes)} classes were given. Use "
            "sklearn.multiclass.OneVsRestClassifier around it, or two classes."
        )
        raise ValueError(msg)
    return classes, indicators[:, 0]


def _cp_forms(
    rank: int | str, ranks: Sequence[int], shape: tuple[int, ...]
) -> list[Form]:
    """Return the forms to choose from: one for a number, many for "bic"."""
    largest = CP.largest_rank(shape)
    if isinstance(rank, str):
        if rank != "bic":
            msg = (
                f"rank={rank!r} was given; expected a whole number or 'bic'. For "
                "cross-validation use CPRegressorCV."
            )
            raise ValueError(msg)
        given = check_sequence(ranks, "ranks")
        checked = [check_count(r, "an entry of ranks") for r in given]
        return [Form(CP, shape, r) for r in sorted({min(r, largest) for r in checked})]
    return [Form(CP, shape, check_count(rank, "rank", largest=largest))]


@dataclass(eq=False, repr=False)
class CPRegressorCV(_TensorGLMSearch):
    """`CPRegressor` with rank and ridge chosen by cross-validation.

    For each rank the ridge falls from its largest value, every fit starting from its
    predecessor as well as afresh. The best pair is fitted again on all samples in the
    same way.

    Parameters
    ----------
    ranks : sequence of int
        Those no tensor of X's shape needs are cut.
    alphas_ridge : sequence of float
    family : {"normal", "binomial", "poisson"}
    cv : int, splitter or iterable
        Folds, as in scikit-learn.
    scoring : str or callable, optional
        As in scikit-learn; R² by default.
    rule : {"best", "1se"}
        "1se": the simplest within one standard error of the best, lower ranks and
        then larger ridges being simpler.
    alpha_l1, n_restarts, fit_intercept, feature_shape, tol, max_iter, random_state
        As in `CPRegressor`.
    n_jobs : int, optional
        Folds fitted at the same time.

    Attributes
    ----------
    rank_ : int
    alpha_ridge_ : float
    best_score_ : float
    cv_results_ : dict
        scikit-learn's keys, one row for each candidate.
    coef_, intercept_, factors_, covariate_coef_, deviance_path_, n_iter_, …
        As in `CPRegressor`, of the final fit.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((90, 4, 3))
    >>> y = X[:, 0, 0] + X[:, 1, 1] + 0.1 * rng.standard_normal(90)
    >>> CPRegressorCV(ranks=(1, 2)).fit(X, y).rank_
    2
    """

    ranks: Sequence[int] = (1, 2, 3)
    _: KW_ONLY
    alphas_ridge: Sequence[float] = ALPHAS_RIDGE
    family: str = "normal"
    cv: Any = 5
    scoring: str | Callable | None = None
    rule: str = "best"
    alpha_l1: float = 0.0
    n_restarts: int = 2
    fit_intercept: bool = True
    feature_shape: tuple[int, ...] | None = None
    tol: float = 1e-4
    max_iter: int = 200
    random_state: Any = 0
    n_jobs: int | None = None

    _plain = CPRegressor
    _rank_name = "rank"

    def _forms(self, shape: tuple[int, ...]) -> list[Form]:
        return _cp_forms("bic", self.ranks, shape)
