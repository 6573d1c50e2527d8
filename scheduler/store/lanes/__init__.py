"""The settings of a lane: limits and a pause; and how the lane stands."""
