"""A small world that changes from day to day, and the site that serves it.

    world -> painter -> pyramid -> publication, in the form of a renderer

`python -m tileharvest.demo` harvests three days of it and compares what each harvest found with the tiles
that were published. The same bytes are drawn every time.
"""
