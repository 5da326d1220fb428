"""What ``python -m skattn`` does; not part of the public interface."""
