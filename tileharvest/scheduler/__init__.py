"""When a request is made: at most once per segment, in the order of the lanes, and never forgotten."""
