"""When a recurring schedule is due: cron expressions, intervals and time zones. Pure."""
