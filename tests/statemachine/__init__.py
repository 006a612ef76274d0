"""Random schedules over the real store and workflows; every promise is checked after each step."""
