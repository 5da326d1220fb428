"""The two commands."""

from skattn._demo import picture, report
from skattn._demo.comparison import evaluate, fit_model
from skattn._demo.explanation import attention_panel, explain
from skattn._demo.long_table import feasible_folds, read_long_table
from skattn._demo.models import EXPLAINED, make_models
from skattn._demo.problems import cross_validated, japanese_vowels, musk1


def demo(*, output, n_jobs):
    """Compare the models on the bundled data.

    Parameters
    ----------
    output : Path
        Where to write the picture.

    n_jobs : int
        Fits to run at a time.
    """
    _run([musk1(), japanese_vowels()], output, n_jobs)


def compare(path, *, sample, target, order, n_folds, output, n_jobs):
    """Compare the models on a user's long table.

    Parameters
    ----------
    path : Path
        A csv file with one row a token.

    sample, target, order : str
        Its columns; `order` may be None.

    n_folds : int
        Folds of the cross-validation; fewer, if a class has fewer samples.

    output : Path
        Where to write the picture.

    n_jobs : int
        Fits to run at a time.
    """
    X, y, sample_names = read_long_table(
        path, sample=sample, target=target, order=order
    )
    feasible = feasible_folds(y, n_folds)
    if feasible < n_folds:
        report.note(
            f"the smallest class has {feasible} samples, so that there are {feasible} "
            f"folds instead of {n_folds}."
        )
    _run(
        [cross_validated(path.name, X, y, sample_names, n_folds=feasible)],
        output,
        n_jobs,
    )


def progress_callbacks():
    """Return scikit-learn's progress bar, or nothing and a note without rich."""
    from sklearn.callback import ProgressBar

    try:
        return [ProgressBar(max_propagation_depth=0)]
    except ImportError:
        report.note(
            'progress is not shown, since rich is not installed: pip install "skattn'
            '[demo]".'
        )
        return []


def _run(problems, output, n_jobs):
    can_draw = picture.check_path(output)
    callbacks = progress_callbacks()
    models = make_models()
    panels = []
    for problem in problems:
        report.problem(problem)
        report.table(evaluate(models, problem, n_jobs=n_jobs, callbacks=callbacks))
        panels.append(_explain(problem, models[EXPLAINED], n_jobs))
    if can_draw:
        picture.draw(panels, output)
        report.picture(output)
    else:
        report.note(
            "no picture is written, since matplotlib is not installed: pip install "
            '"skattn[demo]".'
        )


def _explain(problem, model, n_jobs):
    """Explain one decision about the first held-out samples; return their panel."""
    train, held_out = problem.splits[0]
    model = fit_model(model, problem.X[train], problem.y[train], n_jobs=n_jobs)
    # The longest sample is the one in which there is most to choose from.
    sample = held_out[problem.X.lengths[held_out].argmax()]
    report.explanation(
        explain(model, problem.X[[sample]]),
        model=EXPLAINED,
        sample_name=problem.sample_names[sample],
        label=problem.y[sample],
    )
    title = f"{problem.title}, {EXPLAINED}"
    return attention_panel(title, model, problem.X[held_out], problem.y[held_out])
