"""Claims due schedules, fires them at their targets, and acks the outcomes."""
