"""A small world that changes from day to day, and the site that serves it.

    world -> terrain, structures -> painter -> pyramid -> publication -> server
                                                     \\-> prediction

`python -m tileharvest.demo` harvests three days of it and compares what each harvest found with what the
world predicts. Everything follows from a seed: the same seed draws the same bytes.
"""
