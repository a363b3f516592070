"""scikit-learn estimators, one file for each method."""
