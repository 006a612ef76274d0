"""The queue's edge: the broker, the worker and clock processes, and actors that only translate."""
