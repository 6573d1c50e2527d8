"""What an account set for a lane: limits, a pause, and how the lane stands."""
