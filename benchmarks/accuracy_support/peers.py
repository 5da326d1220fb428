"""What attention is compared with: pooling, bags of words, and models of tables."""

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from skattn import TokenScaler, TokenSVM
from skattn._demo.pooling import Pooling


def sequence_peers(seed):
    """Return pooling by fixed statistics, and one token a sample by a margin."""
    peers = {
        f"{statistic} pooling + {name}": make_pipeline(
            TokenScaler(), Pooling(statistic), StandardScaler(), model
        )
        for statistic in ("mean", "min-max")
        for name, model in _on_vectors().items()
    }
    return peers | {
        "`TokenSVM`": make_pipeline(TokenScaler(), TokenSVM(random_state=seed))
    }


def text_peers(seed):
    """Return what reads the words themselves; the other peers see their vectors."""
    return {
        "TF-IDF, 1- and 2-grams + logistic regression": make_pipeline(
            TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(max_iter=1000)
        )
    }


def vector_peers(seed):
    """Return the mean of the word vectors, as they are and scaled."""
    return {
        "mean vector + logistic regression": make_pipeline(
            Pooling("mean"), LogisticRegression(max_iter=1000)
        ),
        "mean pooling, scaled + logistic regression": make_pipeline(
            TokenScaler(),
            Pooling("mean"),
            StandardScaler(),
            LogisticRegression(max_iter=1000),
        ),
    }


def table_peers(seed):
    """Return the models that a table would usually get."""
    return {
        name: make_pipeline(StandardScaler(), model)
        for name, model in _on_vectors().items()
    }


def _on_vectors():
    return {"logistic regression": LogisticRegression(max_iter=1000), "RBF SVM": SVC()}
