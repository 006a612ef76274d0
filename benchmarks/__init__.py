"""The bench with its peers: ``make bench``. See docs/performance.md."""
