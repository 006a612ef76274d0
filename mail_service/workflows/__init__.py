"""What we do, one verb per file. The only place that opens transactions."""
