"""What methods are called in words, and what to cite for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sltr.reporting.facts import answer_text, refinement_text

# Class name prefix: what the method is called, and the keys of its references.
_METHODS: dict[str, tuple[str, tuple[str, ...]]] = {
    "SLTR": (
        "sparse and low-rank tensor regression (SLTR)",
        ("zhangsltr", "combettes2011proximal"),
    ),
    "Remurs": ("regularised multilinear regression (Remurs)", ("song2017remurs",)),
    "Sturm": ("sparse tubal-regularised regression (Sturm)", ("li2019sturm",)),
    "SURF": ("boosted sparse and low-rank regression (SURF)", ("he2018surf",)),
    "CP": ("CP tensor regression (GLTRM)", ("zhou2013tensor",)),
    "Tucker": ("Tucker tensor regression", ("li2018tucker",)),
    "HRTRR": ("tensor ridge regression on CP factors (hrTRR)", ("guo2012tensor",)),
    "ORTRR": ("rank-selecting tensor ridge regression (orTRR)", ("guo2012tensor",)),
    "TPGD": ("tensor projected gradient descent (TPGD)", ("ahmed2020tensor",)),
    "ElemRidge": ("the elementary ridge estimator", ("yang2014elementary",)),
    "TensorLasso": ("the Lasso on the flattened tensor", ("tibshirani1996lasso",)),
    "TensorElasticNet": ("the elastic net on the flattened tensor", ("zou2005net",)),
    "TensorRidge": ("ridge regression on the flattened tensor", ("hoerl1970ridge",)),
}

_REFERENCES = {
    "zhangsltr": """@misc{zhangsltr,
  author = {Zhang, Jiaqi and Cai, Yinghao and Wang, Zhaoyang and Wang, Beilun},
  title = {Sparse and Low-Rank High-Order Tensor Regression via Parallel Proximal
           Method},
  howpublished = {Preprint}
}""",
    "combettes2011proximal": """@incollection{combettes2011proximal,
  author = {Combettes, Patrick L. and Pesquet, Jean-Christophe},
  title = {Proximal Splitting Methods in Signal Processing},
  booktitle = {Fixed-Point Algorithms for Inverse Problems in Science and
               Engineering},
  pages = {185--212},
  publisher = {Springer},
  year = {2011}
}""",
    "song2017remurs": """@inproceedings{song2017remurs,
  author = {Song, Xiaonan and Lu, Haiping},
  title = {Multilinear Regression for Embedded Feature Selection with Application
           to {fMRI} Analysis},
  booktitle = {Thirty-First AAAI Conference on Artificial Intelligence},
  year = {2017}
}""",
    "li2019sturm": """@inproceedings{li2019sturm,
  author = {Li, Wenwen and Lou, Jian and Zhou, Shuo and Lu, Haiping},
  title = {Sturm: Sparse Tubal-Regularized Multilinear Regression for {fMRI}},
  booktitle = {International Workshop on Machine Learning in Medical Imaging},
  pages = {256--264},
  publisher = {Springer},
  year = {2019}
}""",
    "he2018surf": """@inproceedings{he2018surf,
  author = {He, Lifang and Chen, Kun and Xu, Wanwan and Zhou, Jiayu and Wang, Fei},
  title = {Boosted Sparse and Low-Rank Tensor Regression},
  booktitle = {Advances in Neural Information Processing Systems},
  pages = {1009--1018},
  year = {2018}
}""",
    "zhou2013tensor": """@article{zhou2013tensor,
  author = {Zhou, Hua and Li, Lexin and Zhu, Hongtu},
  title = {Tensor Regression with Applications in Neuroimaging Data Analysis},
  journal = {Journal of the American Statistical Association},
  volume = {108},
  number = {502},
  pages = {540--552},
  year = {2013}
}""",
    "li2018tucker": """@article{li2018tucker,
  author = {Li, Xiaoshan and Xu, Da and Zhou, Hua and Li, Lexin},
  title = {Tucker Tensor Regression and Neuroimaging Analysis},
  journal = {Statistics in Biosciences},
  volume = {10},
  pages = {520--545},
  year = {2018}
}""",
    "guo2012tensor": """@article{guo2012tensor,
  author = {Guo, Weiwei and Kotsia, Irene and Patras, Ioannis},
  title = {Tensor Learning for Regression},
  journal = {IEEE Transactions on Image Processing},
  volume = {21},
  number = {2},
  pages = {816--827},
  year = {2012}
}""",
    "ahmed2020tensor": """@article{ahmed2020tensor,
  author = {Ahmed, Talal and Raja, Haroon and Bajwa, Waheed U.},
  title = {Tensor Regression Using Low-Rank and Sparse {Tucker} Decompositions},
  journal = {SIAM Journal on Mathematics of Data Science},
  volume = {2},
  number = {4},
  pages = {944--966},
  year = {2020}
}""",
    "yang2014elementary": """@inproceedings{yang2014elementary,
  author = {Yang, Eunho and Lozano, Aur{\\'e}lie and Ravikumar, Pradeep},
  title = {Elementary Estimators for High-Dimensional Linear Regression},
  booktitle = {International Conference on Machine Learning},
  pages = {388--396},
  year = {2014}
}""",
    "tibshirani1996lasso": """@article{tibshirani1996lasso,
  author = {Tibshirani, Robert},
  title = {Regression Shrinkage and Selection via the Lasso},
  journal = {Journal of the Royal Statistical Society: Series B},
  volume = {58},
  number = {1},
  pages = {267--288},
  year = {1996}
}""",
    "zou2005net": """@article{zou2005net,
  author = {Zou, Hui and Hastie, Trevor},
  title = {Regularization and Variable Selection via the Elastic Net},
  journal = {Journal of the Royal Statistical Society: Series B},
  volume = {67},
  number = {2},
  pages = {301--320},
  year = {2005}
}""",
    "hoerl1970ridge": """@article{hoerl1970ridge,
  author = {Hoerl, Arthur E. and Kennard, Robert W.},
  title = {Ridge Regression: Biased Estimation for Nonorthogonal Problems},
  journal = {Technometrics},
  volume = {12},
  number = {1},
  pages = {55--67},
  year = {1970}
}""",
    "nadeau2003inference": """@article{nadeau2003inference,
  author = {Nadeau, Claude and Bengio, Yoshua},
  title = {Inference for the Generalization Error},
  journal = {Machine Learning},
  volume = {52},
  number = {3},
  pages = {239--281},
  year = {2003}
}""",
    "pedregosa2011scikit": """@article{pedregosa2011scikit,
  author = {Pedregosa, Fabian and others},
  title = {Scikit-learn: Machine Learning in {Python}},
  journal = {Journal of Machine Learning Research},
  volume = {12},
  pages = {2825--2830},
  year = {2011}
}""",
}


def name_and_keys(class_name: str) -> tuple[str, tuple[str, ...]]:
    """Return what a method is called in words, and the keys of its references."""
    # The longest prefix wins: TensorLasso is not Tensor….
    for prefix in sorted(_METHODS, key=len, reverse=True):
        if class_name.startswith(prefix):
            return _METHODS[prefix]
    return class_name, ()


def method_name(class_name: str) -> str:
    """Return what a method is called in words.

    Examples
    --------
    >>> method_name("RemursRegressorCV")
    'regularised multilinear regression (Remurs)'
    """
    return name_and_keys(class_name)[0]


def bibtex(class_name: str, *more: str) -> str:
    """Return the references of a method, and those of more keys, as BibTeX.

    Examples
    --------
    >>> "Remurs" in bibtex("SLTRRegressor"), bibtex("SLTRRegressor")[:16]
    (False, '@misc{zhangsltr,')
    """
    keys = [*name_and_keys(class_name)[1], *more, "pedregosa2011scikit"]
    return "\n\n".join(_REFERENCES[key] for key in keys)


def method_text(facts: dict[str, Any]) -> str:
    """Return the paragraph for a paper's methods section.

    Parameters
    ----------
    facts : dict
        What `model_facts` returns. What is None or empty is left out.
    """
    name, keys = name_and_keys(facts["class_name"])
    cite = f" \\cite{{{','.join(keys)}}}" if keys else ""
    shape = " × ".join(map(str, facts["shape"]))
    parts = [
        f"We fitted {name}{cite} to {facts['n_samples']} samples of shape {shape}.",
        *_settings_texts(facts),
        refinement_text(facts["refinements"]),
        _structure_text(facts),
        facts["certificate"],
        _score_text(facts),
        f"Computations used sltr {facts['version']} and scikit-learn "
        "\\cite{pedregosa2011scikit}.",
    ]
    return " ".join(filter(None, parts))


def _settings_texts(facts: dict[str, Any]) -> list[str]:
    """Return how the hyper-parameters came about, in sentences."""
    found = []
    if facts["chosen"]:
        found.append(
            f"Hyper-parameters ({_equations(facts['chosen'])}) were chosen by "
            f"{facts['folds']} over {facts['n_candidates']} candidates."
        )
    if facts["answer"]:
        return [*found, answer_text(facts["answer"], facts["best"])]
    if facts["settings"]:
        others = "Other hyper-parameters" if facts["chosen"] else "Hyper-parameters"
        found.append(f"{others} were set to {_equations(facts['settings'])}.")
    if facts["by_loo"]:
        found.append(
            f"The least leave-one-out error chose {_equations(facts['by_loo'])}."
        )
    if facts["by_folds"]:
        found.append(
            f"Cross-validation within these samples chose "
            f"{_equations(facts['by_folds'])} for the refit."
        )
    return found


def _structure_text(facts: dict[str, Any]) -> str:
    """Return how sparse the coefficients are and which ranks they have."""
    share = 100 * facts["n_nonzero"] / facts["n_entries"]
    sparse = (
        f"{facts['n_nonzero']} of {facts['n_entries']} entries different from zero "
        f"({share:.1f} %)"
    )
    ranks = [f"({_listed(ranks)})" for ranks in facts["ranks"]]
    many = len(facts["shape"]) > 1
    if len(ranks) == 1:
        rank = f" and multilinear rank {ranks[0]}" if many else ""
        return f"The coefficient has {sparse}{rank}."
    named = zip(ranks, facts["targets"], strict=True)
    of_each = _listed([f"{rank} for class {target}" for rank, target in named])
    rank = f", and multilinear ranks {of_each}" if many else ""
    return f"Each of {len(ranks)} classes has a coefficient; they have {sparse}{rank}."


def _score_text(facts: dict[str, Any]) -> str:
    score = facts["score"]
    where = (
        f"On {facts['n_test']} held-out samples"
        if facts["n_test"]
        else "On the training samples (not an estimate of the error on new ones)"
    )
    return (
        f"{where} the model reached {score.name} = {score.value:.3g} (95 % bootstrap "
        f"interval {score.low:.3g} to {score.high:.3g}; null model {score.null:.3g})."
    )


def _equations(settings: Mapping[str, str]) -> str:
    return _listed([f"{name} = {value}" for name, value in settings.items()])


def _listed(items: Sequence[Any]) -> str:
    return ", ".join(map(str, items))
