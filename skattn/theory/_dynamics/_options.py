"""Parameters of `train_attention` that contradict each other are refused by name."""


def check_attention_options(parameterization, rank, attention_init, is_prompt):
    if parameterization == "W":
        if rank is not None:
            raise ValueError(
                f'rank={rank} has no meaning with parameterization="W"; use "KQ", or '
                "leave rank at None."
            )
    elif is_prompt:
        raise ValueError(
            'parameterization="KQ" needs queries: pass query, or train a prompt with '
            'parameterization="W".'
        )
    elif isinstance(attention_init, str) and attention_init == "zero":
        raise ValueError(
            'attention_init="zero" has no gradient with parameterization="KQ": K = Q = '
            '0 never moves. Use "uniform", or pass (K, Q).'
        )


def check_head_options(head, head_activation, train_head, head_learning_rate_init):
    if head is None and not train_head:
        raise ValueError("head must be given with train_head=False.")
    if head is None and head_activation == "relu":
        raise ValueError(
            'head must be given with head_activation="relu": from zero it never moves.'
        )
    if head_learning_rate_init is not None and not train_head:
        raise ValueError(
            f"head_learning_rate_init={head_learning_rate_init} has no meaning with "
            "train_head=False."
        )


def check_solver_options(solver, mirror_p, weight_decay, head_activation, train_head):
    if solver != "mirror" and mirror_p != 2.0:
        raise ValueError(
            f'mirror_p={mirror_p} has no meaning with solver="{solver}"; use "mirror", '
            "or leave mirror_p at 2."
        )
    if solver == "polyak" and (train_head or head_activation != "identity"):
        raise ValueError(
            'solver="polyak" needs a fixed linear head, whose least loss is known: use '
            'train_head=False and head_activation="identity", or another solver.'
        )
    if solver == "polyak" and weight_decay:
        raise ValueError(
            f'weight_decay={weight_decay} has no meaning with solver="polyak", whose '
            "steps are those of the loss alone."
        )
