"""What methods are called in words, and what to cite for them."""

from __future__ import annotations

__all__ = ["bibtex", "method_name", "name_and_keys"]

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
