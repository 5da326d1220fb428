"""Time to fit the encoder, beside the same model written by hand in plain torch.

Both train the same architecture on the Japanese vowels, for the same number of epochs,
with Adam and the same type of numbers: a layer of gelu units on every frame, layers of
self-attention, attention that pools, a linear head. The model by hand pads all series
to the longest, as one would. Each epoch is timed in CPU seconds of one thread.

    python benchmarks/encoder.py [--epochs 30] [--dtype float64]

With `--rates` it prints instead what the default step size was chosen by: accuracy on
folds within the training split, in float32.

    python benchmarks/encoder.py --rates
"""

import argparse
import time
import warnings

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from torch import nn
from torch.nn import functional

from skattn import AttentionClassifier, TokenScaler, check_tokens
from skattn.attention.bucketing import Buckets
from skattn.attention.segments import Segments
from skattn.datasets import load_japanese_vowels, load_musk1

WIDTH = 64
LEARNING_RATE = 0.001
ALPHA = 0.01


class Layer(nn.Module):
    def __init__(self, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.first_norm, self.second_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.project = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)
        self.inner = nn.Linear(WIDTH, 2 * WIDTH)
        self.outer = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x, mask):
        n, length, _ = x.shape
        projected = self.project(self.first_norm(x))
        q, k, v = projected.view(n, length, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask[:, None, None, :]
        )
        x = x + self.output(attended.transpose(1, 2).reshape(n, length, WIDTH))
        return x + self.outer(functional.gelu(self.inner(self.second_norm(x))))


class ByHand(nn.Module):
    def __init__(self, n_features, n_classes, n_layers, n_heads):
        super().__init__()
        self.hidden = nn.Linear(n_features, WIDTH)
        self.layers = nn.ModuleList(Layer(n_heads) for _ in range(n_layers))
        self.norm = nn.LayerNorm(WIDTH)
        self.prompt = nn.Linear(WIDTH, n_heads, bias=False)
        self.head = nn.Linear(n_heads * WIDTH, n_classes)

    def forward(self, x, mask):
        x = functional.gelu(self.hidden(x))
        for layer in self.layers:
            x = layer(x, mask)
        x = self.norm(x)
        scores = self.prompt(x).masked_fill(~mask.unsqueeze(2), -torch.inf)
        pooled = scores.softmax(dim=1).transpose(1, 2) @ x
        return self.head(pooled.flatten(1))


def train_by_hand(X, y, options, n_layers, n_heads, batch_size):
    """Train the model by hand; returns CPU seconds of training."""
    torch.manual_seed(0)
    padded = [torch.tensor(x, dtype=options.torch_dtype) for x in X]
    padded = nn.utils.rnn.pad_sequence(padded, batch_first=True)
    lengths = torch.tensor([len(x) for x in X])
    mask = torch.arange(padded.shape[1]) < lengths.unsqueeze(1)
    targets = torch.tensor(y)
    model = ByHand(padded.shape[2], 9, n_layers, n_heads).to(options.torch_dtype)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=True)
    weights = [p for p in model.parameters() if p.ndim > 1]
    started = time.process_time()
    for _ in range(options.epochs):
        order = torch.randperm(len(y))
        for rows in order.split(batch_size or len(y)):
            optimizer.zero_grad()
            loss = functional.cross_entropy(
                model(padded[rows], mask[rows]), targets[rows]
            )
            penalty = sum(w.square().sum() for w in weights)
            (loss + 0.5 * ALPHA * penalty).backward()
            optimizer.step()
    return time.process_time() - started


def fit_estimator(X, y, options, n_layers, n_heads, batch_size):
    """Fit the estimator; returns CPU seconds of the whole fit."""
    model = AttentionClassifier(
        n_layers=n_layers,
        n_heads=n_heads,
        batch_size=batch_size,
        max_iter=options.epochs,
        tol=0,
        dtype=options.dtype,
        random_state=0,
    )
    started = time.process_time()
    model.fit(X, y)
    return time.process_time() - started


def report_padding():
    print("| data | groups | work on padding | all padded to the longest |")
    print("| --- | --- | --- | --- |")
    for load in (load_japanese_vowels, load_musk1):
        lengths = check_tokens(load(return_X_y=True)[0]).lengths
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        buckets = Buckets(Segments(torch.tensor(offsets)))
        wasted = 1 - np.square(lengths).mean() / np.square(lengths.max())
        print(
            f"| {load.__name__.removeprefix('load_')} | {len(buckets.groups)} | "
            f"{buckets.padded_share:.1%} | {wasted:.1%} |"
        )


def report_rates():
    X, y = load_japanese_vowels(split="train", return_X_y=True)
    X = check_tokens(X)
    print("| layers | learning_rate_init | accuracy |\n| --- | --- | --- |")
    for n_layers in (1, 2):
        for rate in (0.001, 0.003, 0.01):
            model = AttentionClassifier(
                n_layers=n_layers,
                learning_rate_init=rate,
                dtype="float32",
                random_state=0,
            )
            scores = [
                cross_val_score(
                    make_pipeline(TokenScaler(), model),
                    X,
                    y,
                    cv=StratifiedKFold(4, shuffle=True, random_state=seed),
                ).mean()
                for seed in range(2)
            ]
            print(f"| {n_layers} | {rate} | {np.mean(scores):.3f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    parser.add_argument("--rates", action="store_true", help="compare step sizes")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if options.rates:
        report_rates()
        return
    options.torch_dtype = getattr(torch, options.dtype)
    torch.set_num_threads(1)
    X, y = load_japanese_vowels(split="train", return_X_y=True)
    X = TokenScaler().fit_transform(X)
    y = np.unique(y, return_inverse=True)[1]
    report_padding()
    print("\n| layers | heads | batch | by hand | estimator | ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    for n_layers, n_heads, batch_size in ((1, 1, None), (2, 4, None), (1, 1, 32)):
        arguments = X, y, options, n_layers, n_heads, batch_size
        pairs = [
            (train_by_hand(*arguments), fit_estimator(*arguments))
            for _ in range(options.repeats)
        ]
        by_hand, estimator = np.min(pairs, axis=0) / options.epochs
        print(
            f"| {n_layers} | {n_heads} | {batch_size or 'all'} | "
            f"{1000 * by_hand:.1f} ms | {1000 * estimator:.1f} ms | "
            f"{estimator / by_hand:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
