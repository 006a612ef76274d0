"""A model of the sending protocol, searched exhaustively; ``docs/model.md`` says what it stands for."""
