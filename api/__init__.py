"""The HTTP edge: nothing but translation. ``app.py`` shows every route on one screen."""
