"""The command line, an edge: it translates words into workflows and prints what they give."""
