"""What attention in torch and its kernel in NumPy agree on."""

#: Added to the variances of Attention-BN, as by batch normalisation elsewhere.
EPSILON = 1e-5
