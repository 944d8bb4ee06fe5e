"""A small world that changes from day to day, and the site that serves it.

    terrain, structures -> world -> painter, chart -> pyramid -> publication -> server
                                                             \\-> prediction

`python -m tileharvest.demo` harvests three days of it and compares what each harvest found with what the
world predicts. The same bytes are drawn every time.
"""
