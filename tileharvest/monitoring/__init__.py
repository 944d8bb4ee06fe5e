"""How far a harvest is, and what is known of its queue."""
