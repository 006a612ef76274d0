"""What is true: states and edges, outcomes, facts, suppression rules, content. No clock, no I/O."""
