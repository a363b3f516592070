"""All methods by name, each with its tuned estimator and what is known of it.

Experiments, the command line and the documentation name methods through this
table; a method that is not in it is not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.model_selection import GridSearchCV

from sltr.estimators.sltr_cv import SLTRClassifierCV, SLTRRegressorCV
from sltr.parameters import nearest
from sltr.peers.cp import CPClassifier, CPRegressorCV
from sltr.peers.elementary import ElemRidge, TensorRidge
from sltr.peers.glm import ALPHAS_RIDGE
from sltr.peers.lasso import TensorElasticNetCV, TensorLassoCV
from sltr.peers.multi_response import (
    ReducedRankRegressorCV,
    TensorMultiTaskLassoCV,
    TensorOnTensorRegressorCV,
)
from sltr.peers.remurs import RemursClassifierCV, RemursRegressorCV
from sltr.peers.sturm import SturmRegressorCV
from sltr.peers.surf import SURFRegressorCV
from sltr.peers.tpgd import TPGDRegressorCV
from sltr.peers.trr import ORTRRRegressor
from sltr.peers.tucker import TuckerRegressorCV


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method to compare: how to make it, and what it assumes, costs and is for.

    Attributes
    ----------
    name : str
        What experiments and commands call it.
    title : str
        What tables call it.
    make_regressor : callable
        Returns an estimator that is not fitted and tunes itself; its keyword
        arguments are those of the estimator, the grids among them.
    make_classifier : callable or None
        The same for labels. None: regress 0 and 1.
    assumes : str
        What the coefficient W has to be like.
    cost : str
        Of one fit: n samples, P entries of p1, …, pM, rank R.
    good_for : str
    finds_rank, is_sparse, keeps_structure : bool or None
        The properties the paper compares: no rank to choose; zero entries in W;
        the tensor's modes matter. None: the question does not arise.
    reference : str
    """

    name: str
    title: str
    make_regressor: Callable[..., Any]
    make_classifier: Callable[..., Any] | None = None
    assumes: str
    cost: str
    good_for: str
    finds_rank: bool | None
    is_sparse: bool | None
    keeps_structure: bool | None
    reference: str


def _elem_ridge(
    lambdas_sparse: tuple[float, ...] = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9),
    *,
    cv: Any = 5,
    n_jobs: int | None = None,
) -> GridSearchCV:
    grid = {"lambda_sparse": lambdas_sparse}
    return GridSearchCV(ElemRidge(), grid, cv=cv, n_jobs=n_jobs)


def _ortrr(
    betas: tuple[float, ...] = (1.0, 10.0, 100.0, 1000.0),
    *,
    max_rank: int = 6,
    cv: Any = 5,
    n_jobs: int | None = None,
) -> GridSearchCV:
    model = ORTRRRegressor(max_rank=max_rank)
    return GridSearchCV(model, {"beta": betas}, cv=cv, n_jobs=n_jobs)


def _cp_classifier(
    ranks: tuple[int, ...] = (1, 2, 3),
    *,
    alphas_ridge: tuple[float, ...] = ALPHAS_RIDGE,
    cv: Any = 5,
    n_jobs: int | None = None,
) -> GridSearchCV:
    # Lists of one rank, because only `ranks` is cut to what the shape allows.
    grid = {"ranks": [(rank,) for rank in ranks], "alpha_ridge": alphas_ridge}
    return GridSearchCV(CPClassifier(), grid, cv=cv, n_jobs=n_jobs)


_ALL = (
    Method(
        name="null",
        title="Null model",
        make_regressor=DummyRegressor,
        make_classifier=partial(DummyClassifier, strategy="prior"),
        assumes="nothing: W = 0, the mean of y predicts",
        cost="O(n)",
        good_for="the row that every other one has to beat",
        finds_rank=None,
        is_sparse=None,
        keeps_structure=None,
        reference="–",
    ),
    Method(
        name="ridge",
        title="Ridge",
        make_regressor=TensorRidge,
        assumes="many small entries",
        cost="O(n²P), once for all penalties",
        good_for="dense coefficients, strongly correlated entries; the pilot of SLTR",
        finds_rank=None,
        is_sparse=False,
        keeps_structure=False,
        reference="Hoerl & Kennard, Technometrics 1970",
    ),
    Method(
        name="elem_ridge",
        title="Elem-Ridge",
        make_regressor=_elem_ridge,
        assumes="few large entries, anywhere",
        cost="that of ridge and O(P)",
        good_for="large P with n close to P; SLTR without its low-rank half",
        finds_rank=None,
        is_sparse=True,
        keeps_structure=False,
        reference="Yang, Lozano & Ravikumar, ICML 2014",
    ),
    Method(
        name="lasso",
        title="Lasso",
        make_regressor=TensorLassoCV,
        assumes="few entries, anywhere",
        cost="O(nP) for a sweep over the entries",
        good_for="unstructured sparsity with weak correlation",
        finds_rank=None,
        is_sparse=True,
        keeps_structure=False,
        reference="Tibshirani, JRSS B 1996",
    ),
    Method(
        name="elastic_net",
        title="Elastic Net",
        make_regressor=TensorElasticNetCV,
        assumes="few entries, correlated ones together",
        cost="O(nP) for a sweep over the entries",
        good_for="unstructured sparsity with groups of correlated entries",
        finds_rank=None,
        is_sparse=True,
        keeps_structure=False,
        reference="Zou & Hastie, JRSS B 2005",
    ),
    Method(
        name="sltr",
        title="SLTR",
        make_regressor=SLTRRegressorCV,
        make_classifier=SLTRClassifierCV,
        assumes="sparse, and every unfolding of low rank; refits assume less or more, "
        "and cross-validation chooses among them",
        cost="O(P Σ p_m) an iteration, without the samples, after O(n²P) once for "
        "all settings and folds",
        good_for="large grids, large P; structure that is not known beforehand",
        finds_rank=True,
        is_sparse=True,
        keeps_structure=True,
        reference="Zhang, Cai, Wang & Wang, preprint",
    ),
    Method(
        name="remurs",
        title="Remurs",
        make_regressor=RemursRegressorCV,
        make_classifier=RemursClassifierCV,
        assumes="sparse, and every unfolding of low rank",
        cost="O(nP + P Σ p_m) an iteration, after O(n²P) once",
        good_for="blocks and low ranks of unknown size; convex, so no restarts",
        finds_rank=True,
        is_sparse=True,
        keeps_structure=True,
        reference="Song & Lu, AAAI 2017",
    ),
    Method(
        name="sturm",
        title="Sturm",
        make_regressor=SturmRegressorCV,
        assumes="sparse, of low tubal rank: slices of low rank after a Fourier "
        "transform along one mode",
        cost="O(nP + P min(p1, p2) + P log p3) an iteration, after O(n²P) once",
        good_for="one mode that is periodic or smooth, such as time",
        finds_rank=True,
        is_sparse=True,
        keeps_structure=True,
        reference="Li, Lou, Zhou & Lu, MLMI 2019",
    ),
    Method(
        name="surf",
        title="SURF",
        make_regressor=SURFRegressorCV,
        assumes="a sum of a few outer products of sparse vectors",
        cost="O(nP) once, then O(n Σ p_m + nP/p_m) a step",
        good_for="few small blocks in a large tensor, found greedily",
        finds_rank=False,
        is_sparse=True,
        keeps_structure=True,
        reference="He, Chen, Xu, Zhou & Wang, NeurIPS 2018",
    ),
    Method(
        name="cp",
        title="CP (GLTRM)",
        make_regressor=CPRegressorCV,
        make_classifier=_cp_classifier,
        assumes="low CP rank R",
        cost="O(nPR + n Σ(R p_m)² + Σ(R p_m)³) a sweep",
        good_for="n far below P with a rank of 1 to 3; responses of any GLM family",
        finds_rank=False,
        is_sparse=False,
        keeps_structure=True,
        reference="Zhou, Li & Zhu, JASA 2013",
    ),
    Method(
        name="tucker",
        title="Tucker",
        make_regressor=TuckerRegressorCV,
        assumes="low multilinear ranks r1, …, rM",
        cost="O(nP max r + n Σ(r_m p_m)² + n ∏r²) a sweep",
        good_for="n far below P with ranks that differ between the modes",
        finds_rank=False,
        is_sparse=False,
        keeps_structure=True,
        reference="Li, Xu, Zhou & Li, Statistics in Biosciences 2018",
    ),
    Method(
        name="hrtrr",
        title="hrTRR",
        # hrTRR is the normal CP model from a single start.
        make_regressor=partial(CPRegressorCV, n_restarts=1),
        assumes="low CP rank R",
        cost="that of CP, from one start",
        good_for="a quick CP fit",
        finds_rank=False,
        is_sparse=False,
        keeps_structure=True,
        reference="Guo, Kotsia & Patras, IEEE TIP 2012",
    ),
    Method(
        name="ortrr",
        title="orTRR",
        make_regressor=_ortrr,
        assumes="low CP rank, unknown",
        cost="that of CP at the largest rank, falling with it",
        good_for="a CP rank that is not known and a single weight to tune",
        finds_rank=True,
        is_sparse=False,
        keeps_structure=True,
        reference="Guo, Kotsia & Patras, IEEE TIP 2012",
    ),
    Method(
        name="tpgd",
        title="TPGD",
        make_regressor=TPGDRegressorCV,
        assumes="low multilinear ranks with sparse factors",
        cost="O(nP) a step, and sparse components of every unfolding",
        good_for="low ranks on few rows of every mode",
        finds_rank=False,
        is_sparse=True,
        keeps_structure=True,
        reference="Ahmed, Raja & Bajwa, SIMODS 2020",
    ),
    Method(
        name="reduced_rank",
        title="Reduced rank",
        make_regressor=ReducedRankRegressorCV,
        assumes="many small entries; K responses that depend on few combinations of "
        "the entries",
        cost="O(n²P + nPK) for each penalty, once for all ranks",
        good_for="many responses with dense coefficients; ridge for a single one",
        finds_rank=False,
        is_sparse=False,
        keeps_structure=False,
        reference="Izenman, JMVA 1975; Mukherjee & Zhu, SADM 2011",
    ),
    Method(
        name="multitask_lasso",
        title="Multi-task Lasso",
        make_regressor=TensorMultiTaskLassoCV,
        assumes="few entries, anywhere, the same for all responses",
        cost="O(nPK) for a sweep over the entries",
        good_for="many responses with a common, unstructured support",
        finds_rank=None,
        is_sparse=True,
        keeps_structure=False,
        reference="Obozinski, Taskar & Jordan, Statistics and Computing 2010",
    ),
    Method(
        name="tensor_on_tensor",
        title="Tensor-on-tensor",
        make_regressor=TensorOnTensorRegressorCV,
        assumes="low CP rank R over the modes of samples and responses",
        cost="O(nPR + n Σ(R p_m)² + Σ(R p_m)³) a sweep",
        good_for="responses that are tensors, n far below P",
        finds_rank=False,
        is_sparse=False,
        keeps_structure=True,
        reference="Lock, JCGS 2018",
    ),
)

METHODS: dict[str, Method] = {entry.name: entry for entry in _ALL}


def method(name: str) -> Method:
    """Return a method by name, or say which names there are.

    Examples
    --------
    >>> method("remurs").title
    'Remurs'
    >>> method("remus")
    Traceback (most recent call last):
    ...
    ValueError: method='remus' was given; did you mean 'remurs'? Expected one of ...
    """
    if name in METHODS:
        return METHODS[name]
    hint = nearest(name, METHODS)
    msg = f"method={name!r} was given; {hint} one of {list(METHODS)}."
    raise ValueError(msg)


def comparison(methods: Mapping[str, Method] = METHODS) -> str:
    """Return two Markdown tables: what methods assume and cost, and for what.

    Examples
    --------
    >>> print(comparison({"null": METHODS["null"]}).splitlines()[2])
    | Null model (`null`) | nothing: W = 0, the mean of y predicts | O(n) | – |
    """
    entries = list(methods.values())
    first = _table(
        ("method", "assumes of W", "cost of a fit", "reference"),
        [(f"{e.title} (`{e.name}`)", e.assumes, e.cost, e.reference) for e in entries],
    )
    second = _table(
        ("method", "finds rank", "sparse", "uses modes", "classifier", "good for"),
        [
            (
                e.title,
                _mark(e.finds_rank),
                _mark(e.is_sparse),
                _mark(e.keeps_structure),
                _mark(e.make_classifier is not None),
                e.good_for,
            )
            for e in entries
        ],
    )
    return f"{first}\n\n{second}"


def _mark(holds: bool | None) -> str:
    return {True: "yes", False: "no", None: "–"}[holds]


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
