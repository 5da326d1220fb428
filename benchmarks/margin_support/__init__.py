"""What benchmarks/margin.py needs and the package does not have."""
