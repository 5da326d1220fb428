"""The instances that pass scikit-learn's checks, each in full.

Not among them are options that their own documentation exempts from a check:
mini-batches and float32 (weights equal repeats to rounding only in full batches of
float64), ``warm_start`` (a second fit goes on), and, for `AttentionClassifier`,
``early_stopping`` and balanced classes (`partial_fit` refuses them).
"""

from skattn import (
    AttentionClassifier,
    AttentionPooling,
    AttentionRegressor,
    ConvexAttentionClassifier,
    ConvexAttentionRegressor,
    FeatureTokenizer,
    PositionalEncoding,
    SoftmaxRegression,
    TokenScaler,
    TokenSelector,
    TokenSVM,
    WindowTokenizer,
)

# Few steps are enough for the checks, and defaults are among the instances too.
QUICK = {"max_iter": 30, "learning_rate_init": 0.1}

ATTENTION_CLASSIFIERS = [
    AttentionClassifier(),
    AttentionClassifier(query="mean", n_heads=2, **QUICK),
    AttentionClassifier(query="first", parameterization="KQ", rank=2, **QUICK),
    AttentionClassifier(query="last", mapping="entmax15", **QUICK),
    AttentionClassifier(query=0, mapping="sparsemax", **QUICK),
    AttentionClassifier(hidden_size=4, **QUICK),
    AttentionClassifier(solver="gd", learning_rate_init=0.1, max_iter=100),
    AttentionClassifier(solver="ngd", learning_rate_init=0.1, max_iter=20),
    AttentionClassifier(solver="polyak", max_iter=20),
    AttentionClassifier(solver="polyak", query="mean", n_heads=2, max_iter=20),
    AttentionClassifier(solver="mirror", mirror_p=1.5, **QUICK),
    AttentionClassifier(solver="mirror", query="first", mirror_p=3, **QUICK),
    AttentionClassifier(solver="lbfgs", alpha=0.1),
    AttentionClassifier(solver="lbfgs", hidden_size=3, alpha=0.1, max_iter=20),
    AttentionClassifier(head="mlp", head_hidden_size=4, **QUICK),
    AttentionClassifier(
        head="mlp", head_hidden_size=3, solver="lbfgs", alpha=0.1, max_iter=20
    ),
    AttentionClassifier(scoring="gated", gate_size=3, **QUICK),
    AttentionClassifier(scoring="gated", gate_size=3, solver="ngd", max_iter=20),
    AttentionClassifier(pooling=("attention", "max"), hidden_size=4, **QUICK),
    AttentionClassifier(pooling=["min", "attention", "mean", "max"], **QUICK),
    AttentionClassifier(n_heads=2, diversity=0.1, **QUICK),
    AttentionClassifier(mapping="entmax", n_heads=2, **QUICK),
    AttentionClassifier(mapping="topk", **QUICK),
    AttentionClassifier(mapping="linear", max_iter=100, learning_rate_init=0.1),
    AttentionClassifier(hidden_size=3, kernel_size=3, **QUICK),
    AttentionClassifier(attention_norm="batch", hidden_size=16, max_iter=200),
    AttentionClassifier(head_scale=2, **QUICK),
    AttentionClassifier(label_smoothing=0.1, average=0.9, **QUICK),
    AttentionClassifier(
        n_layers=1, hidden_size=4, learning_rate_init=0.05, max_iter=20
    ),
    AttentionClassifier(
        scoring="gated",
        gate_size=2,
        pooling=["attention", "max"],
        head="mlp",
        head_hidden_size=3,
        n_heads=2,
        diversity=0.1,
        hidden_size=3,
        **QUICK,
    ),
]

# More ways to combine what is above.
SLOW_ATTENTION = [
    AttentionClassifier(mapping="entmax", mapping_params={"alpha": 1.2}, **QUICK),
    AttentionClassifier(mapping="topk", mapping_params={"power": (1, 0.5)}, **QUICK),
    AttentionClassifier(mapping="elu", query="mean", **QUICK),
    AttentionClassifier(
        attention_norm="batch",
        beta=0.5,
        head_scale=[1, 2],
        n_heads=2,
        query="last",
        parameterization="KQ",
        rank=2,
        **QUICK,
    ),
    AttentionClassifier(
        n_layers=2,
        hidden_size=4,
        n_heads=2,
        position="rotary",
        attention_norm="batch",
        head_scale=[1, 2],
        kernel_size=2,
        learning_rate_init=0.05,
        max_iter=20,
    ),
    AttentionClassifier(
        n_layers=1, hidden_size=4, position="learned", solver="lbfgs", max_iter=10
    ),
    AttentionClassifier(
        n_layers=1,
        hidden_size=8,
        position="sinusoidal",
        solver="ngd",
        learning_rate_init=0.1,
        max_iter=50,
    ),
    AttentionRegressor(query="first", parameterization="KQ", n_heads=2, **QUICK),
    AttentionRegressor(solver="polyak", max_iter=30),
    AttentionRegressor(head="mlp", head_hidden_size=4, **QUICK),
]

TOKEN_SVMS = [
    TokenSVM(),
    TokenSVM(head="logistic"),
    TokenSVM(head="logistic", query="first"),
    TokenSVM(mapping="softmax"),
    TokenSVM(mapping="entmax15", class_weight="balanced"),
    TokenSVM(query="mean"),
    TokenSVM(query=0, C=0.01),
    TokenSVM(norm="nuc"),
    TokenSVM(norm=1.5),
    TokenSVM(norm=3.0, query="last", max_iter=2),
]

SLOW_TOKEN_SVMS = [
    TokenSVM(norm="nuc", query="mean"),
    TokenSVM(norm="nuc", query="first", head="logistic"),
]

CONVEX_CLASSIFIERS = [
    ConvexAttentionClassifier("mlp"),
    ConvexAttentionClassifier("mlp", solver="burer_monteiro", class_weight="balanced"),
    ConvexAttentionClassifier("mixer", n_gates=2),
    ConvexAttentionClassifier("fno", n_gates=2, n_groups=2),
]

# One of the checks has 30 columns, whose tokens have 60 features: two gates and few
# digits will do for these.
SLOW_CONVEX = [
    ConvexAttentionClassifier(n_gates=2, tol=1e-2),
    ConvexAttentionClassifier(activation="linear", tol=1e-2),
    ConvexAttentionRegressor(n_gates=2, gate_rank="full", tol=1e-2),
]

CONVEX_REGRESSORS = [
    ConvexAttentionRegressor("mlp"),
    ConvexAttentionRegressor("mixer", n_gates=2),
    ConvexAttentionRegressor("fno", n_gates=2),
]

ATTENTION_REGRESSORS = [
    AttentionRegressor(),
    AttentionRegressor(solver="lbfgs", hidden_size=3, max_iter=20),
    AttentionRegressor(
        pooling=["attention", "max"],
        attention_norm="batch",
        hidden_size=4,
        average=0.5,
        max_iter=20,
    ),
    # Adam makes steps of what rounding leaves of a gradient that should be 0.
    AttentionRegressor(n_layers=1, hidden_size=4, solver="lbfgs", max_iter=15),
]

SOFTMAX_REGRESSIONS = [
    SoftmaxRegression(),
    SoftmaxRegression(alpha=0.3),
    SoftmaxRegression(solver="lbfgs", tol=1e-9),
]

TRANSFORMERS = [
    TokenSelector(TokenSVM()),
    TokenSelector(TokenSVM(), n_tokens=2),
    TokenSelector(TokenSVM(), threshold=0.1, output="mask"),
    TokenSelector(TokenSVM(), output="indices"),
    TokenSelector(TokenSVM(), n_tokens=2, output="indices"),
    TokenSelector(TokenSVM(), n_tokens=2, output="concat"),
    TokenSelector(TokenSVM(head="logistic"), output="pooled"),
    TokenSelector(
        AttentionClassifier(query="mean", n_heads=2, random_state=0, max_iter=5),
        mass=0.5,
    ),
    AttentionPooling(TokenSVM()),
    AttentionPooling(AttentionClassifier(n_heads=2, random_state=0, max_iter=5)),
    FeatureTokenizer(),
    FeatureTokenizer(missing="absent"),
    WindowTokenizer(),
    WindowTokenizer(0.5, step=1, summary=["mean", "slope"]),
    WindowTokenizer(1, summary=["max"], keep_values=False),
    TokenScaler(),
    TokenScaler(with_mean=False),
    TokenScaler(with_std=False),
    PositionalEncoding(),
    PositionalEncoding("linear", combine="concat"),
    PositionalEncoding("sinusoidal", combine="concat", n_components=4),
]

CLASSIFIERS = ATTENTION_CLASSIFIERS + TOKEN_SVMS + CONVEX_CLASSIFIERS

REGRESSORS = ATTENTION_REGRESSORS + CONVEX_REGRESSORS + SOFTMAX_REGRESSIONS

ONE_OF_EACH_CLASS = [
    AttentionClassifier(**QUICK),
    AttentionRegressor(**QUICK),
    ConvexAttentionClassifier("mlp"),
    ConvexAttentionRegressor("mlp"),
    SoftmaxRegression(),
    TokenSVM(),
    TokenSelector(TokenSVM()),
    AttentionPooling(TokenSVM()),
    FeatureTokenizer(),
    WindowTokenizer(),
    TokenScaler(),
    PositionalEncoding(),
]
