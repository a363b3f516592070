from sklearn.utils.estimator_checks import parametrize_with_checks

from sltr.models.tpgd import TPGDRegressor
from sltr.models.tpgd_cv import TPGDRegressorCV


@parametrize_with_checks([TPGDRegressor(), TPGDRegressorCV(cv=3)])
def test_sklearn_check(estimator, check):
    check(estimator)
