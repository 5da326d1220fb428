"""The models that the demo, `compare` and the benchmarks put side by side."""

from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from skattn import AttentionClassifier, TokenScaler, TokenSelector, TokenSVM
from skattn._demo.pooling import Pooling

#: The model that explains its decisions, in the words of the table.
EXPLAINED = "AttentionClassifier"


def make_models(random_state=0):
    """Return the models by name, in the order of the table.

    All scale the features over tokens first, and have default parameters. Pooled
    features are scaled once more, since means vary less than tokens do.

    Parameters
    ----------
    random_state : int, default=0
        Seed of the models that draw random numbers.

    Returns
    -------
    models : dict of str to Pipeline
        Classifiers of sequences, not fitted.
    """
    attention = AttentionClassifier(random_state=random_state)
    return {
        "mean pooling + logistic regression": _scaled(*_linear("mean")),
        "mean pooling + RBF SVM": _scaled(*_rbf("mean")),
        "min-max pooling + logistic regression": _scaled(*_linear("min-max")),
        "min-max pooling + RBF SVM": _scaled(*_rbf("min-max")),
        EXPLAINED: _scaled(attention),
        "TokenSVM": _scaled(TokenSVM(random_state=random_state)),
        "TokenSelector + mean pooling + RBF SVM": _scaled(
            TokenSelector(attention), *_rbf("mean")
        ),
    }


def _scaled(*steps):
    return make_pipeline(TokenScaler(), *steps)


def _linear(statistic):
    return Pooling(statistic), StandardScaler(), LogisticRegression(max_iter=1000)


def _rbf(statistic):
    return Pooling(statistic), StandardScaler(), SVC()
